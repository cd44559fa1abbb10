//! A server against a client that uses its streams as kqps's own client never does.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use kqps_tls::certificate::{KeyType, make};
use kqps_tls::client::server_name;
use kqps_tls::{Acceptor, ClientSettings, Trust};
use quinn_proto::{ClientConfig, ConnectionHandle, DatagramEvent, Endpoint};

use super::*;
use crate::Congestion;
use crate::clock::Clock;
use crate::server::{Admission, Server};
use crate::session::ClientCrypto;
use crate::transport::{endpoint, transport};

const NAME: &str = "dns.test";
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 853);

/// A query of 12 bytes after its length.
const QUERY: &[u8] = b"\x00\x0c\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00";

/// Returns queries as replies.
#[derive(Default)]
struct Echo {
    queries: u64,
}

impl Responder for Echo {
    type Many = Infallible;

    fn answer(&mut self, query: &[u8], _: IpAddr, _: QueryKey, reply: &mut Vec<u8>) -> Reply<Infallible> {
        self.queries += 1;
        reply.extend_from_slice(query);
        Reply::One
    }

    fn next(&mut self, many: &mut Infallible, _: &mut Vec<u8>) -> bool {
        match *many {}
    }
}

/// A connection, and a network that delivers at once.
struct Rig {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    client: quinn_proto::Connection,
    server: Server<Echo>,
    echo: Echo,
    events: Vec<ServerEvent>,
    clock: Clock,
    now_ns: u64,
}

impl Rig {
    /// A connection that is open.
    fn open() -> Self {
        let made = make(KeyType::Ecdsa, &[NAME.to_owned()]).unwrap();
        let acceptor = Acceptor::over_quic(&made.identity, false).unwrap();
        let trust = Trust::Ca(made.ca);
        let settings = ClientSettings::new(trust, false);
        let tls = kqps_tls::Client::over_quic(&settings).unwrap();
        let (config, name) = tls.connector(server_name(NAME).unwrap(), 0).parts(None);
        let idle = Duration::from_mins(1);
        let mut config = ClientConfig::new(Arc::new(ClientCrypto::new(config, name)));
        config.transport_config(Arc::new(transport(Congestion::Fixed, 0, idle)));
        let (mut endpoint, clock) = (Endpoint::new(Arc::new(endpoint()), None, false, None), Clock::new());
        let (handle, client) = endpoint.connect(clock.at(0), config, SERVER, NAME).unwrap();
        let server = Server::new(&acceptor, idle, Congestion::Fixed);
        let (echo, events) = (Echo::default(), Vec::new());
        let mut rig = Self { endpoint, handle, client, server, echo, events, clock, now_ns: 0 };
        rig.run();
        assert_eq!(rig.events, [ServerEvent::Opened(Kind::Full)]);
        rig
    }

    /// Passes datagrams both ways until none are left.
    fn run(&mut self) {
        loop {
            self.now_ns += 1_000_000;
            let sent = self.client_sends();
            if !self.server_sends() && !sent {
                while self.client.poll().is_some() {}
                return;
            }
        }
    }

    fn client_sends(&mut self) -> bool {
        let (mut buffer, mut response, mut sent) = (Vec::new(), Vec::new(), false);
        while let Some(event) = self.client.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.client.handle_event(event);
            }
        }
        while let Some(transmit) = self.client.poll_transmit(self.clock.at(self.now_ns), 1, &mut buffer) {
            sent = true;
            let datagram = &buffer[..transmit.size];
            let admit = |_| Admission::Accept;
            let out = self.server.datagram((CLIENT, None), datagram, self.now_ns, &mut response, admit);
            // A connection that has ended gets a stateless reset.
            let has_ended = self.events.iter().any(|event| matches!(event, ServerEvent::Ended(..)));
            assert!(out.is_none() || has_ended, "the server knows the connection or accepts it: {out:?}");
            buffer.clear();
        }
        sent
    }

    fn server_sends(&mut self) -> bool {
        let (mut buffer, mut unused, mut sent) = (Vec::new(), Vec::new(), false);
        while let Some(slot) = self.server.next_ready() {
            let events = &mut self.events;
            self.server.work(slot, self.now_ns, &mut self.echo, |event| events.push(event));
            while self.server.transmit(slot, 1, &mut buffer, self.now_ns).is_some() {
                sent = true;
                let (at, bytes) = (self.clock.at(self.now_ns), BytesMut::from(&buffer[..]));
                let taken = self.endpoint.handle(at, SERVER, None, None, bytes, &mut unused);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = taken {
                    self.client.handle_event(event);
                }
            }
            self.server.rest(slot);
        }
        sent
    }

    fn stream(&mut self) -> StreamId {
        self.client.streams().open(Dir::Bi).expect("the server allows more streams")
    }

    fn write(&mut self, id: StreamId, bytes: &[u8]) {
        assert_eq!(self.client.send_stream(id).write(bytes), Ok(bytes.len()));
    }

    /// Asks on a stream of its own, and returns whether the reply came back.
    fn is_answered(&mut self) -> bool {
        let id = self.stream();
        self.write(id, QUERY);
        self.client.send_stream(id).finish().unwrap();
        self.run();
        let mut receiving = self.client.recv_stream(id);
        let mut chunks = receiving.read(true).unwrap();
        let reply = chunks.next(usize::MAX).ok().flatten().map(|chunk| chunk.bytes);
        let _ = chunks.finalize();
        reply.as_deref() == Some(QUERY)
    }

    /// Streams that the server keeps something for.
    fn kept(&self) -> usize {
        self.server.connections.iter().flatten().map(|one| one.streams.len() + one.held.len()).sum()
    }
}

#[test]
fn a_stream_that_is_stopped_before_its_query_gets_no_answer_and_no_memory() {
    let mut rig = Rig::open();
    let id = rig.stream();
    // STOP_SENDING alone.
    rig.client.recv_stream(id).stop(code::number(code::REQUEST_CANCELLED)).unwrap();
    rig.run();
    assert!(rig.client.send_stream(id).write(QUERY).is_err(), "the server wants no query there any more");
    rig.run();
    assert_eq!((rig.echo.queries, rig.kept()), (0, 0));
    // The beginning of a query, then STOP_SENDING.
    let id = rig.stream();
    rig.write(id, &QUERY[..7]);
    rig.run();
    assert_eq!(rig.kept(), 1);
    rig.client.recv_stream(id).stop(code::number(code::REQUEST_CANCELLED)).unwrap();
    rig.run();
    assert_eq!((rig.echo.queries, rig.kept()), (0, 0));
    assert!(rig.is_answered(), "the connection goes on");
    assert_eq!((rig.echo.queries, rig.events.len()), (1, 1));
}

#[test]
fn the_end_of_a_stream_may_follow_its_reply() {
    let mut rig = Rig::open();
    let id = rig.stream();
    rig.write(id, QUERY);
    rig.run();
    assert_eq!((rig.echo.queries, rig.kept()), (1, 1), "it is answered, and must not bring another query");
    rig.client.send_stream(id).finish().unwrap();
    rig.run();
    assert_eq!((rig.kept(), rig.events.len()), (0, 1));
    assert!(rig.is_answered());

    let id = rig.stream();
    rig.write(id, QUERY);
    rig.run();
    rig.write(id, QUERY);
    rig.run();
    assert_eq!(rig.echo.queries, 3);
    assert_eq!(rig.events[1], ServerEvent::Ended(CLIENT, End::Rules("more than one query on a stream")));
}

#[test]
fn a_client_can_send_no_more_than_the_windows() {
    let mut rig = Rig::open();
    let bytes = vec![0; 1 << 18];
    let mut all = 0;
    for number in 0..20 {
        let id = rig.stream();
        let taken = rig.client.send_stream(id).write(&bytes).unwrap_or(0);
        assert_eq!(taken, if number < 8 { 1 << 17 } else { 0 }, "stream {number}");
        all += taken;
    }
    assert_eq!(all, 1 << 20, "the window of the connection");
}
