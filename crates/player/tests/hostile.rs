//! Attackers: their own counts are those of a server that counts what it gets, to the last connection and byte.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_dataset::Format;
use kqps_faults::counting::{ConnectionCounts, CountingDatagrams, CountingServer, Layer};
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::{HostileConnections, HostileFacts, Trial};
use kqps_player::plan::{Arrivals, Hostile};
use kqps_player::{Close, Control, Io, LoadPlan, Plan, Stop, TcpPlan, TlsPlan, Wire, play};
use kqps_tls::{Acceptor, ClientSettings, Trust};
use socket2::SockRef;

use crate::connected::counts;
use crate::http::{Peer, config, frame, secured};
use crate::patience::within;
use crate::quic;
use crate::stream::Server;
use crate::support::{Queries, no_subject};

/// How long what was begun is followed. A trial ends when every attempt has its outcome.
const PATIENCE: Duration = Duration::from_secs(5);

/// A load that the server of a test ends.
const UNTIL_STOPPED: Duration = Duration::from_mins(1);

const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// A server that reads all connections to their end.
fn reading() -> CountingServer {
    CountingServer::start(Layer::Plain).unwrap()
}

/// The counts of a server when all that it accepted has ended, which are so many connections.
fn after(server: &CountingServer, connections: u64) -> ConnectionCounts {
    let counts = server.after(connections, UNTIL_STOPPED).unwrap();
    assert_eq!((counts.accepted, counts.broken), (connections, 0), "{counts:?}");
    counts
}

fn tcp(places: usize) -> TcpPlan {
    TcpPlan {
        io: Io::Auto,
        connections: places,
        queries_per_connection: None,
        outstanding: 1,
        close: Close::Fin,
        connect_timeout: PATIENCE,
        buffer_bytes: None,
        tls: None,
        device: None,
        local_port: None,
    }
}

/// Attackers at 1,000 attempts a second.
fn plan(kind: Hostile, target: SocketAddr, wire: Wire, lasts: Duration) -> Plan {
    let load = LoadPlan::Open { rate_qps: 1000.0, arrivals: Arrivals::Even, window: None };
    let plan = crate::support::plan(target, 1, load, Io::Auto);
    let stop = Stop { after: Some(lasts), passes: None };
    within(PATIENCE, Plan { wire, stop, hostile: Some(kind), ..plan })
}

/// The record of attackers, which `stop` ends early. Its queries have 26 bytes.
fn stopped(plan: &Plan, stop: &Interrupts) -> (Trial, HostileFacts) {
    let queries = Queries::new("q.attack. A\n", Format::Text);
    let control = Control { stop: stop.clone(), ..Control::new(plan.threads) };
    let trial = play(plan, &queries.dataset, &control, no_subject).unwrap();
    let facts = trial.hostile.clone().expect("these are attackers");
    assert_eq!(facts.check(), Ok(()));
    assert_eq!((trial.accounts, trial.connections.as_ref()), Default::default());
    assert_eq!(facts.begun, control.live.snapshot().attempts);
    (trial, facts)
}

fn played(plan: &Plan) -> HostileFacts {
    stopped(plan, &Interrupts::default()).1
}

const QUERY_BYTES: u64 = 26;

#[test]
fn idle_connections_are_held_and_no_more_than_there_is_room_for() {
    for threads in [1, 3] {
        let server = reading();
        let wire = Wire::Tcp(tcp(9));
        let plan = Plan { threads, ..plan(Hostile::Idle, server.address(), wire, Duration::from_millis(60)) };
        let facts = played(&plan);
        assert_eq!((facts.due, facts.begun, facts.unsent), (60, 9, counts([("room", 51)])));
        let all = HostileConnections { begun: 9, connected: 9, held: 9, ..HostileConnections::default() };
        assert_eq!(facts.connections, all);
        let wanted = ConnectionCounts { accepted: 9, ended: 9, ..ConnectionCounts::default() };
        assert_eq!(after(&server, 9), wanted);
        assert_eq!((facts.bytes_sent, facts.handshakes), (0, None));
    }
}

#[test]
fn a_connection_that_the_server_ends_is_counted_and_its_place_is_taken_again() {
    for resets in [false, true] {
        let stop = Interrupts::default();
        let ours = stop.clone();
        let server = Server::at("127.0.0.1:0", move |number, stream| {
            // The place is free again only when the player has seen the end of the one before.
            if number == 4 {
                ours.ask();
            }
            if resets {
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            }
        });
        let (trial, facts) =
            stopped(&plan(Hostile::Idle, server.address, Wire::Tcp(tcp(1)), UNTIL_STOPPED), &stop);
        let HostileConnections { begun, connected, held, .. } = facts.connections;
        let ended =
            if resets { facts.connections.reset_by_server } else { facts.connections.closed_by_server };
        assert!(ended >= 4 && held <= 1, "{facts:?}");
        assert_eq!((begun, connected), (ended + held, ended + held), "{facts:?}");
        assert_eq!(server.accepted.load(Relaxed), connected);
        assert_eq!(facts.lived_us.count, Some(ended));
        assert!(trial.histograms.contains_key("lived") && trial.interrupted);
    }
}

#[test]
fn half_a_query_is_sent_and_held() {
    let server = reading();
    let wire = Wire::Tcp(tcp(100));
    let facts = played(&plan(Hostile::Half, server.address(), wire, Duration::from_millis(50)));
    assert_eq!((facts.begun, facts.connections.held), (50, 50), "{facts:?}");
    let ConnectionCounts { bytes, resets, .. } = after(&server, 50);
    assert_eq!((bytes, resets), (50 * (2 + QUERY_BYTES / 2), 0));
    assert_eq!((facts.bytes_sent, facts.replies.len()), (bytes, 0));
}

#[test]
fn a_slow_query_comes_byte_by_byte() {
    let stop = Interrupts::default();
    let server = reading();
    let slow = plan(Hostile::Slow, server.address(), Wire::Tcp(tcp(3)), UNTIL_STOPPED);
    let (_, facts) = std::thread::scope(|scope| {
        // Two bytes of each.
        scope.spawn(|| {
            while server.counts().bytes < 6 {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.ask();
        });
        stopped(&slow, &stop)
    });
    let ConnectionCounts { bytes, .. } = after(&server, 3);
    assert_eq!((facts.begun, facts.connections.held, facts.bytes_sent), (3, 3, bytes), "{facts:?}");
    assert!((6..3 * (2 + QUERY_BYTES)).contains(&bytes), "{bytes}");
}

#[test]
fn connections_are_reset_as_soon_as_they_are_made() {
    let server = reading();
    let wire = Wire::Tcp(tcp(100));
    let facts = played(&plan(Hostile::Reset, server.address(), wire, Duration::from_millis(50)));
    let made = HostileConnections { begun: 50, connected: 50, closed_by_player: 50, ..Default::default() };
    assert_eq!((facts.due, facts.connections), (50, made));
    let wanted = ConnectionCounts { accepted: 50, ended: 50, resets: 50, ..ConnectionCounts::default() };
    assert_eq!(after(&server, 50), wanted);
}

#[test]
fn connections_that_cannot_be_made_are_counted_by_their_cause() {
    // A socket that does not listen.
    let bound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let target = bound.local_addr().unwrap().as_socket().unwrap();
    let facts = played(&plan(Hostile::Idle, target, Wire::Tcp(tcp(5)), Duration::from_millis(20)));
    let refused = HostileConnections { begun: 20, refused: 20, ..HostileConnections::default() };
    assert_eq!((facts.begun, facts.connections), (20, refused));
    let far = Plan {
        local: Some("192.0.2.7".parse().unwrap()),
        ..plan(Hostile::Idle, target, Wire::Tcp(tcp(5)), Duration::from_millis(20))
    };
    let facts = played(&far);
    assert_eq!(facts.connections.failed, counts([("address", 20)]));
}

fn secure(places: usize, made: &kqps_tls::certificate::Made) -> TcpPlan {
    let client = ClientSettings::new(Trust::Ca(made.ca.clone()), true);
    let tls = TlsPlan { names: vec!["dns.test".into()], client, packing: false, http: None };
    TcpPlan { tls: Some(tls), ..tcp(places) }
}

#[test]
fn handshakes_of_tls_are_completed_and_held() {
    let made = crate::http::made();
    let server = CountingServer::start(Layer::Tls(Acceptor::new(&made.identity).unwrap())).unwrap();
    let mut before = ConnectionCounts::default();
    for (kind, bytes) in [(Hostile::Handshake, 0), (Hostile::Half, 2 + QUERY_BYTES / 2)] {
        let wire = Wire::Tcp(secure(100, &made));
        let facts = played(&plan(kind, server.address(), wire, Duration::from_millis(20)));
        let handshakes = facts.handshakes.clone().unwrap();
        assert_eq!((handshakes.begun, handshakes.done, facts.connections.held), (20, 20, 20), "{facts:?}");
        let counts = after(&server, before.ended + 20);
        assert_eq!(counts.handshakes - before.handshakes, 20, "{kind:?}");
        assert_eq!(counts.plain - before.plain, 20 * bytes, "{kind:?}");
        assert_eq!(counts.bytes - before.bytes, facts.bytes_sent, "{kind:?}");
        before = counts;
    }
    // Its issuer is another one.
    let other = crate::http::made();
    let facts = played(&plan(
        Hostile::Handshake,
        server.address(),
        Wire::Tcp(secure(100, &other)),
        Duration::from_millis(20),
    ));
    assert_eq!(facts.handshakes.unwrap().failed, counts([("certificate", 20)]));
    assert_eq!((facts.connections.connected, facts.connections.closed_by_player), (20, 20));
    let counts = server.after(60, UNTIL_STOPPED).unwrap();
    assert_eq!((counts.accepted, counts.handshakes, counts.broken), (60, 40, 20), "an alert is no message");
}

/// A server of HTTP/2 that goes away after so many resets on a connection. It counts resets, and connections that ended.
fn leaving(made: &kqps_tls::certificate::Made, most: u64, stop: Interrupts) -> (Server, Arc<[AtomicU64; 2]>) {
    let seen = Arc::new([const { AtomicU64::new(0) }; 2]);
    let ours = Arc::clone(&seen);
    let server = secured(config(made, &["h2"]), move |stream: crate::http::Secured| {
        let (mut peer, mut resets) = (Peer(stream), 0);
        peer.send(&frame(SETTINGS, 0, 0, &[]));
        let mut preface = [0; 24];
        peer.0.read_exact(&mut preface).unwrap();
        while let Some((kind, ..)) = peer.next() {
            if kind != RST_STREAM {
                continue;
            }
            ours[0].fetch_add(1, Relaxed);
            resets += 1;
            if resets == most {
                peer.send(&frame(GOAWAY, 0, 0, &[0, 0, 0, 9, 0, 0, 0, 11]));
            }
        }
        if ours[1].fetch_add(1, Relaxed) == 3 {
            stop.ask();
        }
    });
    (server, seen)
}

#[test]
fn streams_are_reset_many_on_a_connection() {
    let made = crate::http::made();
    let acceptor = Acceptor::speaking(kqps_http::ALPN, &made.identity).unwrap();
    let server = CountingServer::start(Layer::Http(acceptor)).unwrap();
    let wire = Wire::Tcp(crate::http::kept(Io::Auto, 2, &made));
    let facts = played(&plan(Hostile::Streams, server.address(), wire, Duration::from_millis(150)));
    let counts = after(&server, 2);
    let streams = facts.streams.unwrap();
    assert_eq!((facts.due, facts.begun + facts.unsent_in_all()), (150, 150), "{facts:?}");
    assert_eq!((streams.begun, streams.reset, streams.cut_off), (facts.begun, facts.begun, 0), "{facts:?}");
    assert_eq!([counts.streams, counts.stream_resets], [facts.begun; 2]);
    assert_eq!((facts.connections.held, facts.bytes_sent), (2, counts.bytes), "{facts:?}");
    assert!(facts.begun >= 2 && facts.replies.contains_key("settings"), "{facts:?}");
}

#[test]
fn a_server_that_goes_away_is_left_and_asked_again() {
    let made = crate::http::made();
    let stop = Interrupts::default();
    let (server, seen) = leaving(&made, 5, stop.clone());
    let wire = Wire::Tcp(crate::http::kept(Io::Auto, 1, &made));
    let (_, facts) = stopped(&plan(Hostile::Streams, server.address, wire, UNTIL_STOPPED), &stop);
    let connections = &facts.connections;
    assert!(connections.closed_by_player >= 4, "{facts:?}");
    let away = facts.goaways.get("ENHANCE_YOUR_CALM").copied();
    assert_eq!(away, Some(connections.closed_by_player), "{facts:?}");
    let deadline = Instant::now() + UNTIL_STOPPED;
    while seen[1].load(Relaxed) < connections.connected {
        assert!(Instant::now() < deadline, "the server saw {seen:?} of {facts:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(seen[0].load(Relaxed), facts.streams.unwrap().reset, "{facts:?}");
}

#[test]
fn initials_are_counted_to_the_last_datagram_and_so_is_what_comes_back() {
    let (server, made) = (CountingDatagrams::start().unwrap(), quic::made());
    let wire = Wire::Quic(quic::kept(4, &made.ca));
    let patience = Duration::from_secs(2);
    let plan = plan(Hostile::Initials, server.address(), wire, Duration::from_millis(30));
    let facts = played(&within(patience, plan));
    let got = server.stop().unwrap();
    assert_eq!((facts.due, facts.begun, facts.connections.connecting), (30, 30, 30), "{facts:?}");
    assert_eq!((facts.initials, facts.initials, facts.bytes_sent), (got.received, got.initials, got.bytes));
    assert_eq!(facts.replies, counts([("version-negotiation", got.answered)]));
    assert!(facts.initials >= 30 && facts.bytes_sent >= 1200 * facts.initials, "{facts:?}");
    assert_eq!((got.ports.len(), got.overflowed), (4, 0));
}

#[test]
fn handshakes_of_quic_are_completed_and_held() {
    let made = quic::made();
    let server = quic::server(&made, false, quic::answer);
    let wire = Wire::Quic(quic::kept(40, &made.ca));
    let facts = played(&plan(Hostile::Handshake, server.address, wire, Duration::from_millis(20)));
    let held = HostileConnections { begun: 20, connected: 20, held: 20, ..HostileConnections::default() };
    assert_eq!((facts.due, facts.connections), (20, held));
    assert_eq!(server.by_kind(), [20, 0, 0]);
    let other = quic::made();
    let wire = Wire::Quic(quic::kept(40, &other.ca));
    let facts = played(&plan(Hostile::Handshake, server.address, wire, Duration::from_millis(20)));
    assert_eq!(facts.connections.failed, counts([("certificate", 20)]), "{facts:?}");
    let wire = Wire::Quic(quic::kept(40, &made.ca));
    let far = Plan {
        local: Some("192.0.2.7".parse().unwrap()),
        ..plan(Hostile::Handshake, server.address, wire, Duration::from_millis(20))
    };
    let facts = played(&far);
    assert_eq!(facts.connections.failed, counts([("address", 20)]), "{facts:?}");
}
