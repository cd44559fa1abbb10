//! A client against a server that uses streams as kqps's own server never does.

use std::net::{IpAddr, Ipv4Addr};

use kqps_tls::certificate::{KeyType, make};
use kqps_tls::client::server_name;
use kqps_tls::{Acceptor, ClientSettings, Trust};
use quinn_proto::{ConnectionHandle, Dir, ServerConfig, StreamId, VarInt};

use super::*;
use crate::frames::append;
use crate::session::ServerCrypto;

const NAME: &str = "dns.test";
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 853);
const SLOT: usize = 0;

/// Bytes that the client may send on a stream before the server reads them: fewer than a query has.
const STREAM_WINDOW: u32 = 16;

/// Both ends, and a network that delivers at once.
struct Rig {
    client: Client,
    endpoint: Endpoint,
    /// The server's end of the connection; `None` before the client's first packet.
    server: Option<(ConnectionHandle, quinn_proto::Connection)>,
    opened: usize,
    replies: Vec<(u16, Vec<u8>)>,
    failed: Vec<(u16, u64)>,
    ended: Vec<End>,
    now_ns: u64,
}

impl Rig {
    /// A connection that is open.
    fn open() -> Self {
        let made = make(KeyType::Ecdsa, &[NAME.to_owned()]).unwrap();
        let acceptor = Acceptor::over_quic(&made.identity, false).unwrap();
        let mut settings = transport(Congestion::Fixed, 8, IDLE);
        settings.stream_receive_window(VarInt::from_u32(STREAM_WINDOW));
        let crypto = Arc::new(ServerCrypto::new(Arc::clone(acceptor.config())));
        let mut config = ServerConfig::with_crypto(crypto);
        config.transport_config(Arc::new(settings));
        let trust = Trust::Ca(made.ca);
        let settings = ClientSettings::new(trust, false);
        let tls = kqps_tls::Client::over_quic(&settings).unwrap();
        let connector = tls.connector(server_name(NAME).unwrap(), 0);
        let mut client = Client::new(vec![connector], 1, 1, Congestion::Fixed);
        client.connect(SLOT, None, (0, SERVER), 0).unwrap();
        let mut rig = Self {
            client,
            endpoint: Endpoint::new(Arc::new(endpoint()), Some(Arc::new(config)), false, None),
            server: None,
            opened: 0,
            replies: Vec::new(),
            failed: Vec::new(),
            ended: Vec::new(),
            now_ns: 0,
        };
        rig.run();
        assert_eq!(rig.opened, 1);
        rig
    }

    fn server(&mut self) -> &mut quinn_proto::Connection {
        &mut self.server.as_mut().expect("the client has connected").1
    }

    /// Passes datagrams both ways until none are left.
    fn run(&mut self) {
        loop {
            self.now_ns += 1_000_000;
            let sent = self.client_sends();
            if !self.server_sends() && !sent {
                return;
            }
        }
    }

    fn client_sends(&mut self) -> bool {
        let Self { opened, replies, failed, ended, .. } = self;
        self.client.poll(SLOT, self.now_ns, |event| match event {
            ClientEvent::Opened { .. } => *opened += 1,
            ClientEvent::Reply(key, reply) => replies.push((key, reply.to_vec())),
            ClientEvent::Failed(key, code) => failed.push((key, code)),
            ClientEvent::Ended(end) => ended.push(end),
            ClientEvent::Again(_) | ClientEvent::Available => {}
        });
        let (mut buffer, mut response, mut sent) = (Vec::new(), Vec::new(), false);
        while self.client.transmit(SLOT, 1, &mut buffer, self.now_ns).is_some() {
            sent = true;
            let (at, bytes) = (self.client.clock.at(self.now_ns), BytesMut::from(&buffer[..]));
            match self.endpoint.handle(at, CLIENT, None, None, bytes, &mut response) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let accepted = self.endpoint.accept(incoming, at, &mut response, None);
                    self.server = accepted.ok();
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => self.server().handle_event(event),
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
        sent
    }

    fn server_sends(&mut self) -> bool {
        let (mut buffer, mut sent, at) = (Vec::new(), false, self.client.clock.at(self.now_ns));
        let Some((handle, server)) = &mut self.server else { return false };
        while server.poll().is_some() {}
        while let Some(event) = server.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                server.handle_event(event);
            }
        }
        while let Some(transmit) = server.poll_transmit(at, 1, &mut buffer) {
            sent = true;
            self.client.datagram(SLOT, SERVER, &buffer[..transmit.size], self.now_ns);
            buffer.clear();
        }
        sent
    }

    /// Hands a query that is longer than the window of its stream, and returns the stream as the server sees it.
    fn ask(&mut self, key: u16) -> StreamId {
        assert!(self.client.hand(SLOT, key, &query(), self.now_ns));
        self.run();
        self.server().streams().accept(Dir::Bi).expect("the beginning of a query")
    }

    /// Sends this reply on a stream, and its end.
    fn reply(&mut self, id: StreamId, reply: &[u8]) {
        let mut frame = Vec::new();
        append(&mut frame, reply);
        assert_eq!(self.server().send_stream(id).write(&frame), Ok(frame.len()));
        self.server().send_stream(id).finish().unwrap();
        self.run();
    }
}

/// A query of 40 bytes with ID 0.
fn query() -> Vec<u8> {
    [&[0, 0, 1, 0][..], &[0; 36]].concat()
}

#[test]
fn a_query_whose_sending_is_stopped_may_still_have_its_reply() {
    let mut rig = Rig::open();
    let id = rig.ask(7);
    rig.server().recv_stream(id).stop(code::number(code::NO_ERROR)).unwrap();
    rig.run();
    assert!(rig.replies.is_empty() && rig.failed.is_empty() && rig.ended.is_empty(), "it is still open");
    rig.reply(id, &[0; 12]);
    assert_eq!(rig.replies, [(7, vec![0; 12])]);
    assert!(rig.failed.is_empty() && rig.ended.is_empty(), "{:?} {:?}", rig.failed, rig.ended);
}

#[test]
fn a_query_whose_sending_is_stopped_and_whose_reply_is_reset_has_failed_alone() {
    let mut rig = Rig::open();
    let (first, second) = (rig.ask(7), rig.ask(8));
    rig.server().recv_stream(first).stop(code::number(code::EXCESSIVE_LOAD)).unwrap();
    rig.run();
    rig.server().send_stream(first).reset(code::number(code::EXCESSIVE_LOAD)).unwrap();
    rig.run();
    assert_eq!(rig.failed, [(7, u64::from(code::EXCESSIVE_LOAD))]);
    rig.reply(second, &[0; 12]);
    assert_eq!((rig.replies.len(), rig.ended.len()), (1, 0));
}

/// RFC 9250, section 4.3.3, calls all of these fatal.
#[test]
fn whole_replies_count_and_a_stream_that_ends_within_one_ends_the_connection() {
    let mut rig = Rig::open();
    let ids = [1, 2, 3].map(|key| rig.ask(key));
    let mut frame = Vec::new();
    append(&mut frame, &[0; 12]);
    let send = |rig: &mut Rig, id, bytes: &[u8], is_last: bool| {
        assert_eq!(rig.server().send_stream(id).write(bytes), Ok(bytes.len()));
        if is_last {
            rig.server().send_stream(id).finish().unwrap();
        }
        rig.run();
    };
    let keys = |rig: &Rig| rig.replies.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    send(&mut rig, ids[0], &[&frame[..], &frame].concat(), true);
    assert_eq!(keys(&rig), [1, 1], "the books count a duplicate");
    send(&mut rig, ids[1], &frame, false);
    assert_eq!((keys(&rig), rig.ended.len()), (vec![1, 1, 2], 0), "a reply needs no FIN");
    send(&mut rig, ids[2], &[&frame[..], b"\0\x0c?"].concat(), true);
    assert_eq!(keys(&rig), [1, 1, 2, 3]);
    assert!(matches!(rig.ended[..], [End::Rules("a stream ended before its reply did")]), "{:?}", rig.ended);
}
