//! Asking a server over QUIC, with as many queries on the connection at a time as it allows streams.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use kqps_quic::{Client, ClientEvent, Congestion};
use kqps_tls::client::server_name;

use super::https::with_id;
use super::query::Query;
use super::secure::{PATIENCE, settings};

/// The only slot of the client.
const SLOT: usize = 0;

/// The longest datagram.
const DATAGRAM_BYTES: usize = 2048;

/// The shortest wait for a datagram. None at all would mean for ever.
const WAIT_LEAST: Duration = Duration::from_micros(1);

/// A connection over QUIC.
pub(super) struct Asker {
    socket: UdpSocket,
    server: SocketAddr,
    client: Client,
    began: Instant,
}

impl Asker {
    /// Begins to connect to a server, whose certificate may be any.
    pub(super) fn new(server: SocketAddr) -> Result<Self> {
        let tls = kqps_tls::Client::over_quic(&settings())?;
        let connector = tls.connector(server_name(&server.ip().to_string())?, 0);
        let mut client = Client::new(vec![connector], SLOT + 1, 1, Congestion::default());
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.connect(server)?;
        client.connect(SLOT, None, (0, server), 0).map_err(|error| anyhow!(error))?;
        Ok(Self { socket, server, client, began: Instant::now() })
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Asks queries, and returns the reply to each, with the query's ID.
    pub(super) fn ask(&mut self, queries: &[Query]) -> Result<Vec<Vec<u8>>> {
        let (mut replies, mut ended) = (vec![None; queries.len()], None);
        let (mut handed, mut heard, mut since) = (0, 0, Instant::now());
        while heard < queries.len() {
            let now_ns = self.now_ns();
            while let Some(query) = queries.get(handed)
                && self.client.hand(SLOT, handed as u16, &query.bytes, now_ns)
            {
                handed += 1;
            }
            let before = heard;
            self.turn(|event| match event {
                ClientEvent::Reply(key, reply) => {
                    heard += usize::from(replies[usize::from(key)].is_none());
                    replies[usize::from(key)] = Some(reply.to_vec());
                }
                ClientEvent::Failed(key, code) => ended = Some(format!("stream {key} ended with {code:#x}")),
                ClientEvent::Ended(end) => ended = Some(end.to_string()),
                ClientEvent::Opened { .. } | ClientEvent::Again(_) | ClientEvent::Available => {}
            })?;
            if let Some(end) = &ended {
                bail!("no reply over quic: {end}");
            }
            if heard > before {
                since = Instant::now();
            }
            ensure!(since.elapsed() < PATIENCE, "no reply over quic");
        }
        let replies = replies.into_iter().flatten().zip(queries);
        Ok(replies.map(|(reply, query)| with_id(reply, query)).collect())
    }

    /// Sends what is due, receives a datagram if one arrives in time, and calls `each` for what happened then.
    fn turn(&mut self, each: impl FnMut(ClientEvent<'_>)) -> Result<()> {
        let mut datagram = Vec::new();
        let now_ns = self.now_ns();
        while self.client.transmit(SLOT, 1, &mut datagram, now_ns).is_some() {
            self.socket.send(&datagram)?;
        }
        let due_ns = self.client.due_ns(SLOT).map(|due_ns| due_ns.saturating_sub(self.now_ns()));
        let wait = due_ns.map_or(PATIENCE, Duration::from_nanos).clamp(WAIT_LEAST, PATIENCE);
        self.socket.set_read_timeout(Some(wait))?;
        datagram.resize(DATAGRAM_BYTES, 0);
        match self.socket.recv(&mut datagram) {
            Ok(bytes) => {
                let now_ns = self.now_ns();
                self.client.datagram(SLOT, self.server, &datagram[..bytes], now_ns);
            }
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
            Err(error) => return Err(error.into()),
        }
        let now_ns = self.now_ns();
        if self.client.due_ns(SLOT).is_some_and(|due_ns| due_ns <= now_ns) {
            self.client.expire(SLOT, now_ns);
        }
        self.client.poll(SLOT, now_ns, each);
        Ok(())
    }
}

impl Drop for Asker {
    /// Ends the connection as far as that can be done at once.
    fn drop(&mut self) {
        let (mut datagram, now_ns) = (Vec::new(), self.now_ns());
        self.client.close(SLOT, now_ns);
        if self.client.transmit(SLOT, 1, &mut datagram, now_ns).is_some() {
            let _ = self.socket.send(&datagram);
        }
    }
}
