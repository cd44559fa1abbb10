//! A client and a server against each other in memory. The network between them delays and loses datagrams in known
//! ways, and time passes only from one event to the next.

mod later;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use kqps_message::header::id;
use kqps_quic::{
    Admission, Client, ClientEvent, Congestion, EarlyData, End, QueryKey, Reply, Responder, SEGMENTS_MOST,
    Server, ServerEvent,
};
use kqps_tls::certificate::{KeyType, Made, make};
use kqps_tls::client::server_name;
use kqps_tls::{Acceptor, ClientSettings, Failure, Kind, Trust};

const NAME: &str = "dns.test";
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 853);
const FIRST_PORT: u16 = 40_000;
const SLOTS: usize = 2;
const DELAY_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const A: u16 = 1;
const AXFR: u16 = 252;

/// Returns queries as replies, or keeps them if their replies come later.
#[derive(Default)]
struct Echo {
    queries: u64,
    later: Option<Vec<(QueryKey, Vec<u8>)>>,
    /// Queries whose client left before their replies came.
    gone: u64,
}

impl Responder for Echo {
    type Many = Infallible;

    fn answer(&mut self, query: &[u8], _: IpAddr, key: QueryKey, reply: &mut Vec<u8>) -> Reply<Infallible> {
        self.queries += 1;
        if let Some(later) = &mut self.later {
            later.push((key, query.to_vec()));
            return Reply::Later;
        }
        reply.extend_from_slice(query);
        reply[2] |= 0x80;
        Reply::One
    }

    fn gone(&mut self, queries: u64) {
        self.gone += queries;
    }

    fn next(&mut self, many: &mut Infallible, _: &mut Vec<u8>) -> bool {
        match *many {}
    }
}

/// How long the datagram of this number is under way, in nanoseconds; `None` if it is lost.
type Way = Box<dyn FnMut(u64) -> Option<u64>>;

struct Datagram {
    due_ns: u64,
    /// The client's slot at one end.
    slot: usize,
    is_to_server: bool,
    bytes: Vec<u8>,
}

/// Events and replies that both sides saw.
#[derive(Default)]
struct SeenEvents {
    opened: Vec<(Kind, EarlyData)>,
    again: Vec<u16>,
    replies: Vec<(u16, Vec<u8>)>,
    failed: Vec<(u16, u64)>,
    has_streams: bool,
    ended: Vec<End>,
    of_server: Vec<ServerEvent>,
}

struct Rig {
    client: Client,
    server: Server<Echo>,
    echo: Echo,
    admission: Admission,
    way: Way,
    now_ns: u64,
    sent: u64,
    under_way: Vec<Datagram>,
    seen: SeenEvents,
}

fn made() -> Made {
    make(KeyType::Ecdsa, &[NAME.to_owned()]).unwrap()
}

fn client(ca: &str, early: bool) -> Client {
    let settings =
        ClientSettings { early_data: early, ..ClientSettings::new(Trust::Ca(ca.to_owned()), true) };
    let tls = kqps_tls::Client::over_quic(&settings).unwrap();
    let connector = tls.connector(server_name(NAME).unwrap(), 8);
    Client::new(vec![connector], SLOTS, 4, Congestion::Fixed)
}

fn server(made: &Made, early: bool) -> Server<Echo> {
    let acceptor = Acceptor::over_quic(&made.identity, early).unwrap();
    Server::new(&acceptor, Duration::from_mins(1), Congestion::Fixed)
}

fn address(slot: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), FIRST_PORT + slot as u16)
}

/// A query of its own for each number, which is its ID, too.
fn query(number: u16, qtype: u16) -> Vec<u8> {
    let mut message = number.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let label = format!("q{number}");
    message.push(label.len() as u8);
    message.extend(label.as_bytes());
    message.extend(b"\x04test\x00");
    message.extend(qtype.to_be_bytes());
    message.extend([0, 1]);
    message
}

impl Rig {
    fn new(client: Client, server: Server<Echo>) -> Self {
        Self {
            client,
            server,
            echo: Echo::default(),
            admission: Admission::Accept,
            way: Box::new(|_| Some(DELAY_NS)),
            now_ns: SECOND_NS,
            sent: 0,
            under_way: Vec::new(),
            seen: SeenEvents::default(),
        }
    }

    fn usual() -> Self {
        let made = made();
        Self::new(client(&made.ca, false), server(&made, false))
    }

    fn send(&mut self, slot: usize, is_to_server: bool, bytes: &[u8], segment_bytes: usize) {
        for datagram in bytes.chunks(segment_bytes) {
            assert!(datagram.len() <= 1200, "no packet is longer than every path takes");
            if let Some(delay_ns) = (self.way)(self.sent) {
                let due_ns = self.now_ns + delay_ns;
                self.under_way.push(Datagram { due_ns, slot, is_to_server, bytes: datagram.to_vec() });
            }
            self.sent += 1;
        }
    }

    fn connect(&mut self, slot: usize) {
        self.client.connect(slot, None, (0, SERVER), self.now_ns).unwrap();
    }

    /// Lets both sides do what they can at this time.
    fn work(&mut self) {
        let mut buffer = Vec::new();
        for slot in 0..SLOTS {
            let seen = &mut self.seen;
            self.client.poll(slot, self.now_ns, |event| match event {
                ClientEvent::Opened { session, early } => seen.opened.push((session.kind, early)),
                ClientEvent::Again(key) => seen.again.push(key),
                ClientEvent::Reply(key, reply) => seen.replies.push((key, reply.to_vec())),
                ClientEvent::Failed(key, code) => seen.failed.push((key, code)),
                ClientEvent::Available => seen.has_streams = true,
                ClientEvent::Ended(end) => seen.ended.push(end),
            });
            while let Some(segment_bytes) =
                self.client.transmit(slot, SEGMENTS_MOST, &mut buffer, self.now_ns)
            {
                self.send(slot, true, &buffer, segment_bytes);
            }
        }
        self.server.expire(self.now_ns);
        while let Some(slot) = self.server.next_ready() {
            let events = &mut self.seen.of_server;
            self.server.work(slot, self.now_ns, &mut self.echo, |event| events.push(event));
            self.pass_on(slot);
            self.server.rest(slot);
        }
        let events = &mut self.seen.of_server;
        self.server.failed(|event| events.push(event));
    }

    /// Sends what a connection of the server has to send.
    fn pass_on(&mut self, slot: usize) {
        let mut buffer = Vec::new();
        while let Some(out) = self.server.transmit(slot, SEGMENTS_MOST, &mut buffer, self.now_ns) {
            self.send(usize::from(out.to.port() - FIRST_PORT), false, &buffer, out.segment_bytes);
        }
    }

    /// Goes on to the next event, at `most_ns` at the latest.
    fn advance(&mut self, most_ns: u64) {
        let due = (0..SLOTS).filter_map(|slot| self.client.due_ns(slot)).chain(self.server.next_ns());
        let arrival = self.under_way.iter().map(|datagram| datagram.due_ns);
        let next_ns = due.chain(arrival).min().unwrap_or(most_ns);
        self.now_ns = next_ns.clamp(self.now_ns, most_ns.max(self.now_ns));
        self.under_way.sort_by_key(|datagram| datagram.due_ns);
        let arrived = self.under_way.partition_point(|datagram| datagram.due_ns <= self.now_ns);
        for datagram in self.under_way.drain(..arrived).collect::<Vec<_>>() {
            self.arrive(&datagram);
        }
        for slot in 0..SLOTS {
            if self.client.due_ns(slot).is_some_and(|due_ns| due_ns <= self.now_ns) {
                self.client.expire(slot, self.now_ns);
            }
        }
    }

    fn arrive(&mut self, datagram: &Datagram) {
        let Datagram { slot, is_to_server, bytes, .. } = datagram;
        if !is_to_server {
            self.client.datagram(*slot, SERVER, bytes, self.now_ns);
            return;
        }
        let (mut response, admission) = (Vec::new(), self.admission);
        let from = (address(*slot), None);
        if let Some(out) = self.server.datagram(from, bytes, self.now_ns, &mut response, |_| admission) {
            self.send(*slot, false, &response, out.segment_bytes);
        }
    }

    /// Runs until the condition holds. It must within two minutes.
    fn run_until(&mut self, what: &str, holds: impl Fn(&SeenEvents) -> bool) {
        let last_ns = self.now_ns + 120 * SECOND_NS;
        loop {
            self.work();
            if holds(&self.seen) {
                return;
            }
            assert!(
                self.now_ns < last_ns,
                "{what}: opened {:?}, ended {:?}",
                self.seen.opened,
                self.seen.ended
            );
            self.advance(last_ns);
        }
    }

    fn run_for(&mut self, ns: u64) {
        let last_ns = self.now_ns + ns;
        while self.now_ns < last_ns {
            self.work();
            self.advance(last_ns);
        }
        self.work();
    }

    /// Hands queries of these numbers, which are their keys, and returns how many were taken.
    fn hand(&mut self, slot: usize, numbers: std::ops::Range<u16>) -> usize {
        let now_ns = self.now_ns;
        numbers.take_while(|&number| self.client.hand(slot, number, &query(number, A), now_ns)).count()
    }

    /// Checks that each of these queries had its reply, once.
    fn assert_answered(&mut self, numbers: std::ops::Range<u16>) {
        self.seen.replies.sort();
        let expected = numbers.map(|number| {
            let mut reply = query(number, A);
            reply[..3].copy_from_slice(&[0, 0, 0x81]);
            (number, reply)
        });
        assert!(self.seen.replies.iter().cloned().eq(expected));
        assert!(self.seen.replies.iter().all(|(_, reply)| id(reply) == Some(0)));
    }

    /// Ends the client's connection, and runs until the server knows.
    fn close(&mut self, slot: usize) {
        self.client.close(slot, self.now_ns);
        self.work();
        self.client.forget(slot);
        self.run_for(SECOND_NS);
    }
}

#[test]
fn queries_have_their_replies_and_closing_is_no_error() {
    let mut rig = Rig::usual();
    rig.connect(0);
    assert_eq!(rig.hand(0, 0..1), 0, "the connection is not open");
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    assert_eq!(rig.seen.opened, [(Kind::Full, EarlyData::NotOffered)]);
    assert_eq!(rig.hand(0, 0..100), 100);
    rig.run_until("replies", |seen| seen.replies.len() == 100);
    rig.assert_answered(0..100);
    assert_eq!((rig.server.connections(), rig.echo.queries), (1, 100));
    rig.close(0);
    let closed = End::Closed { code: 0, by_application: true };
    assert_eq!(rig.seen.of_server, [ServerEvent::Opened(Kind::Full), ServerEvent::Ended(address(0), closed)]);
    assert_eq!((rig.server.connections(), rig.seen.ended.len()), (0, 0));
    let counts = rig.client.counts();
    assert!(counts.packets_lost == 0 && counts.datagrams_sent > 0 && counts.retries == 0, "{counts:?}");
}

#[test]
fn loss_and_reordering_delay_replies_and_lose_none() {
    let mut lost = 0;
    for seed in 0..4 {
        let mut rig = Rig::usual();
        let mut random = fastrand::Rng::with_seed(seed);
        rig.way = Box::new(move |_| (random.u8(..10) > 0).then(|| DELAY_NS + random.u64(..5 * DELAY_NS)));
        rig.connect(0);
        rig.run_until("a connection", |seen| !seen.opened.is_empty());
        // The server's word that a stream has ended may be late, so that it takes fewer at once.
        let mut handed = 0;
        while handed < 600 {
            handed += rig.hand(0, handed as u16..600);
            rig.run_for(DELAY_NS);
            rig.run_until("replies", |seen| seen.replies.len() == handed);
        }
        rig.assert_answered(0..600);
        rig.close(0);
        lost += rig.client.counts().packets_lost;
    }
    assert!(lost > 0);
}

#[test]
fn the_servers_limit_of_streams_holds_queries_back() {
    let mut rig = Rig::usual();
    rig.connect(0);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    rig.seen.has_streams = false;
    assert_eq!(rig.hand(0, 0..1000), 256);
    rig.run_until("streams", |seen| seen.has_streams);
    rig.run_for(SECOND_NS);
    // The server need not announce every single stream.
    let more = rig.hand(0, 256..1000);
    assert!((128..=256).contains(&more), "{more}");
    rig.run_until("replies", |seen| seen.replies.len() == 256 + more);
    rig.assert_answered(0..256 + more as u16);
}

#[test]
fn a_query_that_is_given_up_is_cancelled_at_once_and_its_reply_ignored() {
    let mut rig = Rig::usual();
    rig.connect(0);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    rig.run_for(SECOND_NS);
    assert_eq!(rig.hand(0, 0..2), 2);
    let (handed_ns, mut buffer) = (rig.now_ns, Vec::new());
    while rig.client.transmit(0, SEGMENTS_MOST, &mut buffer, handed_ns).is_some() {}
    assert!(!rig.client.cancel_before(0, handed_ns), "they were handed then");
    assert!(rig.client.transmit(0, SEGMENTS_MOST, &mut buffer, handed_ns).is_none());
    assert!(rig.client.cancel_before(0, handed_ns + 1));
    assert!(!rig.client.cancel_before(0, handed_ns + 1), "nothing is left");
    let cancelled = rig.client.transmit(0, SEGMENTS_MOST, &mut buffer, handed_ns);
    assert!(cancelled.is_some(), "the server learns of it without a further event");
    rig.run_for(SECOND_NS);
    assert_eq!((rig.seen.replies.len(), rig.seen.failed.len(), rig.seen.ended.len()), (0, 0, 0));
}

#[test]
fn a_session_is_resumed_with_its_ticket() {
    let mut rig = Rig::usual();
    for (slot, kind) in [(0, Kind::Full), (1, Kind::Resumed)] {
        rig.connect(slot);
        rig.run_until("a connection", |seen| seen.opened.len() == slot + 1);
        assert_eq!(rig.seen.opened[slot], (kind, EarlyData::NotOffered));
        rig.run_for(SECOND_NS);
        rig.close(slot);
    }
    let tickets = rig.client.tickets();
    assert!(tickets.received > 0 && tickets.offered == 1, "{tickets:?}");
}

/// A rig whose client has a ticket that allows early data, of a server with this identity.
fn with_a_ticket(made: &Made) -> Rig {
    let mut rig = Rig::new(client(&made.ca, true), server(made, true));
    rig.connect(0);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    rig.run_for(SECOND_NS);
    rig.close(0);
    rig.seen = SeenEvents::default();
    rig
}

#[test]
fn early_data_is_answered_in_the_first_round_trip() {
    let mut rig = with_a_ticket(&made());
    rig.connect(0);
    let began_ns = rig.now_ns;
    assert_eq!(rig.hand(0, 0..8), 8);
    assert!(!rig.client.hand(0, 9, &query(9, AXFR), began_ns), "a transfer is no early data");
    rig.run_until("replies", |seen| seen.replies.len() == 8);
    assert!(rig.now_ns - began_ns <= 3 * DELAY_NS, "{} ns", rig.now_ns - began_ns);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    rig.run_for(SECOND_NS);
    rig.assert_answered(0..8);
    assert_eq!(rig.seen.opened, [(Kind::Early, EarlyData::Accepted)]);
    assert_eq!(rig.seen.of_server, [ServerEvent::Opened(Kind::Early)]);
    assert_eq!((rig.seen.again.len(), rig.echo.queries), (0, 8));
}

#[test]
fn rejected_early_data_is_handed_again() {
    let made = made();
    let mut rig = with_a_ticket(&made);
    // Another server, which does not know the sessions of the first.
    rig.server = server(&made, false);
    rig.connect(0);
    assert_eq!(rig.hand(0, 0..8), 8);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    assert_eq!(rig.seen.opened, [(Kind::Full, EarlyData::Rejected)]);
    assert_eq!((&rig.seen.again[..], rig.seen.replies.len()), (&[0, 1, 2, 3, 4, 5, 6, 7][..], 0));
    assert_eq!(rig.hand(0, 0..8), 8);
    rig.run_until("replies", |seen| seen.replies.len() == 8);
    rig.run_for(SECOND_NS);
    rig.assert_answered(0..8);
    assert_eq!(rig.echo.queries, 8);
}

#[test]
fn a_server_may_refuse_a_connection_or_close_it() {
    let mut rig = Rig::usual();
    rig.admission = Admission::Refuse;
    rig.connect(0);
    rig.run_until("a refusal", |seen| !seen.ended.is_empty());
    // CONNECTION_REFUSED (RFC 9000, section 20.1).
    assert_eq!(rig.seen.ended, [End::Closed { code: 2, by_application: false }]);
    assert!(rig.seen.of_server.is_empty() && rig.server.connections() == 0);
    rig.client.forget(0);
    (rig.admission, rig.seen) = (Admission::Accept, SeenEvents::default());
    rig.connect(1);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    rig.run_for(SECOND_NS);
    let closed = rig.server.close(rig.now_ns);
    assert_eq!(closed.iter().map(|(_, client)| *client).collect::<Vec<_>>(), [address(1)]);
    rig.pass_on(closed[0].0);
    rig.run_until("the end", |seen| !seen.ended.is_empty());
    assert_eq!(rig.seen.ended, [End::Closed { code: 0, by_application: true }]);
}

#[test]
fn silence_ends_connections_on_both_sides() {
    let mut rig = Rig::usual();
    rig.connect(0);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    rig.run_for(SECOND_NS);
    rig.way = Box::new(|_| None);
    assert_eq!(rig.hand(0, 0..1), 1);
    rig.run_until("the end", |seen| !seen.ended.is_empty() && seen.of_server.len() == 2);
    assert_eq!(rig.seen.ended, [End::TimedOut]);
    assert_eq!(rig.seen.of_server[1], ServerEvent::Ended(address(0), End::TimedOut));
    assert_eq!(rig.server.connections(), 0);
}

#[test]
fn a_certificate_of_another_issuer_is_refused() {
    let mut rig = Rig::new(client(&made().ca, false), server(&made(), false));
    rig.connect(0);
    rig.run_until("the end", |seen| !seen.ended.is_empty() && !seen.of_server.is_empty());
    assert!(matches!(rig.seen.ended[..], [End::Tls(Failure::Certificate(_))]), "{:?}", rig.seen.ended);
    let [ServerEvent::Ended(_, end)] = &rig.seen.of_server[..] else { panic!("{:?}", rig.seen.of_server) };
    assert!(matches!(end, End::Tls(Failure::Alert(_))), "{end:?}");
}

#[test]
fn a_client_that_breaks_the_rules_is_told() {
    let mut rig = Rig::usual();
    rig.connect(0);
    rig.run_until("a connection", |seen| !seen.opened.is_empty());
    // Shorter than a header.
    assert!(rig.client.hand(0, 0, &[0; 11], rig.now_ns));
    rig.run_until("the end", |seen| !seen.ended.is_empty() && seen.of_server.len() == 2);
    assert_eq!(rig.seen.ended, [End::Closed { code: 2, by_application: true }]);
    let ServerEvent::Ended(_, end) = &rig.seen.of_server[1] else { panic!("{:?}", rig.seen.of_server) };
    assert_eq!(*end, End::Rules("a query is shorter than its header"));
    assert_eq!(rig.echo.queries, 0);
}
