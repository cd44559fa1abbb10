//! A connection over QUIC, with a stream for each query.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kqps_message::header;
use kqps_quic::{Client, ClientEvent, Congestion};
use kqps_tls::Connector;

use crate::datagrams::Datagrams;
use crate::error::{AskError, Result};
use crate::link::{Link, left, with_id};

/// The only slot of the client, and its only target.
const SLOT: usize = 0;
const TARGET: usize = 0;

pub(crate) struct Quic {
    server: SocketAddr,
    datagrams: Datagrams,
    client: Client,
    began: Instant,
    /// Queries that the connection has not taken yet.
    waiting: VecDeque<Vec<u8>>,
    /// Replies that were not taken yet, and why others will not come.
    replies: VecDeque<Result<Vec<u8>>>,
}

impl Quic {
    /// Begins a connection.
    pub(crate) fn new(server: SocketAddr, connector: &Connector) -> Result<Self> {
        let mut client = Client::new(vec![connector.clone()], SLOT + 1, 1, Congestion::default());
        client.connect(SLOT, None, (TARGET, server), 0).map_err(AskError::Address)?;
        let (datagrams, began) = (Datagrams::new(server)?, Instant::now());
        Ok(Self { server, datagrams, client, began, waiting: VecDeque::new(), replies: VecDeque::new() })
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Hands queries to the connection, once its handshake is complete as many as the server allows streams. Sends its
    /// packets.
    fn transmit(&mut self) -> Result<()> {
        let (mut packets, now_ns) = (Vec::new(), self.now_ns());
        while let Some(query) = self.waiting.front()
            && self.client.hand(SLOT, header::id(query).unwrap_or_default(), query, now_ns)
        {
            self.waiting.pop_front();
        }
        while self.client.transmit(SLOT, 1, &mut packets, now_ns).is_some() {
            self.datagrams.socket.send(&packets)?;
        }
        Ok(())
    }

    /// Sends, waits for a datagram or for what is due at the connection, and notes what happened.
    fn turn(&mut self, until: Instant) -> Result<()> {
        self.transmit()?;
        left(until)?;
        let due = self.client.due_ns(SLOT).map(|due_ns| self.began + Duration::from_nanos(due_ns));
        match self.datagrams.next(due.map_or(until, |due| due.min(until))) {
            Ok(datagram) => {
                let now_ns = self.began.elapsed().as_nanos() as u64;
                self.client.datagram(SLOT, self.server, datagram, now_ns);
            }
            Err(AskError::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let now_ns = self.now_ns();
        self.client.expire(SLOT, now_ns);
        self.client.poll(SLOT, now_ns, |event| match event {
            ClientEvent::Reply(id, reply) => self.replies.push_back(Ok(with_id(id, reply))),
            ClientEvent::Failed(_, code) => self.replies.push_back(Err(AskError::StreamReset(code))),
            ClientEvent::Ended(end) => self.replies.push_back(Err(end.into())),
            ClientEvent::Opened { .. } | ClientEvent::Again(_) | ClientEvent::Available => {}
        });
        Ok(())
    }
}

impl Link for Quic {
    fn send(&mut self, queries: &[&[u8]]) -> Result<()> {
        self.waiting.extend(queries.iter().map(|query| query.to_vec()));
        self.transmit()
    }

    fn receive(&mut self, until: Instant) -> Result<Vec<u8>> {
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return reply;
            }
            self.turn(until)?;
        }
    }

    fn is_readable(&self) -> Result<bool> {
        self.datagrams.has_arrived()
    }
}

impl Drop for Quic {
    /// Closes the connection. If the server does not learn of it, the connection times out there.
    fn drop(&mut self) {
        self.client.close(SLOT, self.now_ns());
        let _ = self.transmit();
    }
}
