//! The targets for QUIC: both ends of a connection, fed with arbitrary datagrams.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use kqps_quic::{
    Admission, Client, ClientEvent, Congestion, QueryKey, Reply, Responder, SEGMENTS_MOST, Server,
    ServerEvent,
};
use kqps_tls::Acceptor;

use crate::feeding::{Fed, change};
use crate::handshake::{connector, made, settings};

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 853);

/// The only slot of the client, and its only target.
const SLOT: usize = 0;
const TARGET: usize = 0;

/// Bits of the first byte: whether a handshake comes first; whether the bytes change those of real datagrams, which
/// do not arrive themselves, or are datagrams of their own, after which the real ones arrive; and whether the client
/// resumes a session and asks in early data.
const AFTER_A_HANDSHAKE: u8 = 0x80;
const CHANGES: u8 = 0x40;
const EARLY: u8 = 0x20;

/// The length of datagrams is the second byte times this, so that some are as long as a first packet must be.
const LENGTH_UNIT: usize = 8;

/// Queries that a client asks.
const QUERIES: u16 = 4;

/// How long datagrams are under way, nanoseconds.
const DELAY_NS: u64 = 1_000_000;

/// Both ends have an outcome after so many steps: datagrams that arrive, or timers.
const STEPS: u32 = 5_000;

/// The makers of the TLS of both ends, without early data or with it.
fn makers(is_early: bool) -> &'static (kqps_tls::Client, Acceptor) {
    static MAKERS: OnceLock<[(kqps_tls::Client, Acceptor); 2]> = OnceLock::new();
    let both = MAKERS.get_or_init(|| {
        [false, true].map(|early_data| {
            let client = kqps_tls::Client::over_quic(&settings(early_data)).expect("a client");
            (client, Acceptor::over_quic(&made().identity, early_data).expect("a server"))
        })
    });
    &both[usize::from(is_early)]
}

/// The query of this key, with ID 0.
fn query(key: u16) -> Vec<u8> {
    let [high, low] = key.to_be_bytes();
    [&[0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, high, low][..], b"\0\0\x01\0\x01"].concat()
}

/// Returns queries as replies.
struct Echo;

impl Responder for Echo {
    type Many = Infallible;

    fn answer(&mut self, asked: &[u8], _: IpAddr, _: QueryKey, reply: &mut Vec<u8>) -> Reply<Infallible> {
        assert!((0..QUERIES).any(|key| query(key) == asked), "nobody asked b\"{}\"", asked.escape_ascii());
        reply.extend_from_slice(asked);
        Reply::One
    }

    fn next(&mut self, many: &mut Infallible, _: &mut Vec<u8>) -> bool {
        match *many {}
    }
}

/// Both ends, and what happened to them.
struct Rig {
    client: Client,
    server: Server<Echo>,
    now_ns: u64,
    /// Datagrams under way.
    to_client: Vec<Vec<u8>>,
    to_server: Vec<Vec<u8>>,
    opened: u32,
    asked: u16,
    replies: BTreeMap<u16, Vec<u8>>,
    /// Whether the client's connection has ended.
    has_ended: bool,
    /// Connections that the server admitted, and those of them that ended.
    admitted: usize,
    ended: usize,
}

impl Rig {
    /// A client that has begun to connect.
    fn new(is_early: bool) -> Self {
        let (tls, acceptor) = makers(is_early);
        let mut client = Client::new(vec![connector(tls, 2)], SLOT + 1, 1, Congestion::default());
        client.connect(SLOT, None, (TARGET, SERVER), 0).expect("the address of a server");
        Self {
            client,
            server: Server::new(acceptor, Duration::from_secs(30), Congestion::default()),
            now_ns: 0,
            to_client: Vec::new(),
            to_server: Vec::new(),
            opened: 0,
            asked: 0,
            replies: BTreeMap::new(),
            has_ended: false,
            admitted: 0,
            ended: 0,
        }
    }

    /// Lets both ends do what they can at this time.
    fn work(&mut self) {
        let (now_ns, asked, mut buffer) = (self.now_ns, self.asked, Vec::new());
        let Self { client, server, to_client, to_server, opened, replies, has_ended, ended, .. } = self;
        client.poll(SLOT, now_ns, |event| match event {
            ClientEvent::Opened { .. } => *opened += 1,
            ClientEvent::Reply(key, reply) => {
                assert!(key < asked && reply == query(key), "the reply to {key} is another one");
                assert!(replies.insert(key, reply.to_vec()).is_none(), "query {key} has two replies");
            }
            ClientEvent::Ended(end) => {
                assert!(!end.to_string().is_empty());
                *has_ended = true;
            }
            ClientEvent::Again(_) | ClientEvent::Failed(..) | ClientEvent::Available => {}
        });
        while let Some(segment_bytes) = client.transmit(SLOT, SEGMENTS_MOST, &mut buffer, now_ns) {
            to_server.extend(buffer.chunks(segment_bytes).map(<[u8]>::to_vec));
        }
        let mut note = |event: ServerEvent| *ended += usize::from(matches!(event, ServerEvent::Ended(..)));
        server.expire(now_ns);
        while let Some(slot) = server.next_ready() {
            server.work(slot, now_ns, &mut Echo, &mut note);
            while let Some(out) = server.transmit(slot, SEGMENTS_MOST, &mut buffer, now_ns) {
                to_client.extend(buffer.chunks(out.segment_bytes).map(<[u8]>::to_vec));
            }
            server.rest(slot);
        }
        server.failed(note);
        assert_eq!(self.admitted, self.server.connections() + self.ended, "connections of the server");
    }

    /// Goes on until the client has a ticket, and then begins another connection and asks in early data.
    fn resume(&mut self) {
        self.run();
        for _ in 0..STEPS {
            if self.client.tickets().received > 0 {
                break;
            }
            self.step();
            self.work();
        }
        self.client.close(SLOT, self.now_ns);
        self.work();
        self.step();
        self.work();
        self.client.forget(SLOT);
        self.to_client.clear();
        (self.opened, self.has_ended) = (0, false);
        self.client.connect(SLOT, None, (TARGET, SERVER), self.now_ns).expect("the address of a server");
        assert!(self.client.offers_early_data(SLOT), "a ticket allows it");
        self.ask();
    }

    fn arrive_at_client(&mut self, datagram: &[u8]) {
        self.client.datagram(SLOT, SERVER, datagram, self.now_ns);
    }

    fn arrive_at_server(&mut self, datagram: &[u8]) {
        let (mut response, mut admitted) = (Vec::new(), 0);
        let admit = |_| {
            admitted += 1;
            Admission::Accept
        };
        let out = self.server.datagram((CLIENT, None), datagram, self.now_ns, &mut response, admit);
        if let Some(out) = out {
            self.to_client.extend(response.chunks(out.segment_bytes).map(<[u8]>::to_vec));
        }
        self.admitted += admitted;
    }

    /// Goes on until all queries have replies, or the client's connection has ended.
    fn run(&mut self) {
        for _ in 0..STEPS {
            self.work();
            if self.has_ended || (self.opened > 0 && self.replies.len() == usize::from(self.asked)) {
                return;
            }
            self.step();
        }
        panic!("nothing comes of it: opened {}, replies {}", self.opened, self.replies.len());
    }

    /// Delivers the datagrams that are under way. If there are none, goes on to the next timer.
    fn step(&mut self) {
        let (to_client, to_server) =
            (std::mem::take(&mut self.to_client), std::mem::take(&mut self.to_server));
        if to_client.is_empty() && to_server.is_empty() {
            let due_ns = self.client.due_ns(SLOT).into_iter().chain(self.server.next_ns()).min();
            self.now_ns = due_ns.expect("an end that waits has a timer").max(self.now_ns);
        } else {
            self.now_ns += DELAY_NS;
        }
        for datagram in &to_client {
            self.arrive_at_client(datagram);
        }
        for datagram in &to_server {
            self.arrive_at_server(datagram);
        }
        if self.client.due_ns(SLOT).is_some_and(|due_ns| due_ns <= self.now_ns) {
            self.client.expire(SLOT, self.now_ns);
        }
    }

    /// Hands the queries to the connection, which is open.
    fn ask(&mut self) {
        for key in 0..QUERIES {
            assert!(self.client.hand(SLOT, key, &query(key), self.now_ns), "the server allows more streams");
        }
        self.asked = QUERIES;
    }
}

/// The datagrams with other bytes: each four bytes of `changes` are the number of a datagram, modulo how many there are,
/// and a change of it.
fn changed(mut datagrams: Vec<Vec<u8>>, changes: &[u8]) -> Vec<Vec<u8>> {
    let count = datagrams.len().max(1);
    for &[number, high, low, bits] in changes.as_chunks::<4>().0 {
        let Some(datagram) = datagrams.get_mut(usize::from(number) % count) else { break };
        change(datagram, [high, low, bits]);
    }
    datagrams
}

fn feed(fed: Fed, bytes: &[u8]) {
    let Some((&[choice, length], bytes)) = bytes.split_first_chunk() else { return };
    let mut rig = Rig::new(choice & EARLY != 0);
    if choice & EARLY != 0 {
        rig.resume();
    }
    if choice & AFTER_A_HANDSHAKE != 0 {
        rig.run();
        assert_eq!((rig.opened, rig.has_ended), (1, false));
        if choice & EARLY == 0 {
            rig.ask();
        }
    }
    rig.work();
    if fed == Fed::Client {
        // The server then has something to say.
        for datagram in std::mem::take(&mut rig.to_server) {
            rig.arrive_at_server(&datagram);
        }
        rig.work();
    }
    let under_way = if fed == Fed::Client { &mut rig.to_client } else { &mut rig.to_server };
    let real = std::mem::take(under_way);
    let (arriving, later) = if choice & CHANGES != 0 {
        (changed(real, bytes), Vec::new())
    } else {
        let length = usize::from(length).max(1) * LENGTH_UNIT;
        (bytes.chunks(length).map(<[u8]>::to_vec).collect(), real)
    };
    for datagram in &arriving {
        match fed {
            Fed::Client => rig.arrive_at_client(datagram),
            Fed::Server => rig.arrive_at_server(datagram),
        }
        rig.work();
    }
    let under_way = if fed == Fed::Client { &mut rig.to_client } else { &mut rig.to_server };
    under_way.extend(later);
    rig.run();
    assert!(rig.opened <= 1);
    // Nobody has the keys of datagrams that are not real. They change nothing.
    assert!(choice & CHANGES != 0 || !rig.has_ended, "an arbitrary datagram ended the connection");
    rig.client.close(SLOT, rig.now_ns);
    rig.server.close(rig.now_ns);
}

/// Feeds a client, whose server gets what the client sends. The first byte says how; see the constants of this module.
pub fn client(bytes: &[u8]) {
    feed(Fed::Client, bytes);
}

/// Feeds a server likewise.
pub fn server(bytes: &[u8]) {
    feed(Fed::Server, bytes);
}
