//! Captures of connections, replayed at servers of the tests: which connections begin and end, and what each carries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kqps_dataset::{Carried, Format};
use kqps_kernel::clock;
use kqps_player::error::PlayError;
use kqps_player::{Close, Control, Io, Lane, Plan, PlanError, ReplayPlan, TcpPlan, TlsPlan, Wire, play};
use kqps_tls::certificate::{KeyType, make};
use kqps_tls::{Acceptor, ClientSettings, Identity, Kind, Trust};

use crate::capture::{Captured, MS, SERVER, client, name, plan, query};
use crate::stream::Server;
use crate::support::{Queries, no_subject};

/// The traffic of a connection: its client, its queries, and when it ended.
#[derive(Debug, Default)]
struct Carrying {
    from: Option<SocketAddr>,
    names: Vec<String>,
    last_ns: u64,
    ended_ns: u64,
}

/// A server over TCP that answers all queries and notes what each connection carried, in the order of their ends.
fn tcp_server() -> (Server, Arc<Mutex<Vec<Carrying>>>) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let of_server = Arc::clone(&all);
    let server = Server::at("127.0.0.1:0", move |_, mut stream| {
        let mut carrying = Carrying { from: stream.peer_addr().ok(), ..Carrying::default() };
        while let Some(message) = crate::stream::query(&mut stream) {
            carrying.names.push(name(&message));
            carrying.last_ns = clock::now_ns();
            stream.write_all(&crate::stream::reply(message)).unwrap();
        }
        carrying.ended_ns = clock::now_ns();
        of_server.lock().unwrap().push(carrying);
    });
    (server, all)
}

fn tcp(connections: usize) -> TcpPlan {
    TcpPlan {
        io: Io::Auto,
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_secs(5),
        buffer_bytes: None,
        tls: None,
        device: None,
        local_port: None,
    }
}

/// Waits until the server has seen the end of so many connections.
fn wait_for(all: &Mutex<Vec<Carrying>>, count: usize) {
    let began = std::time::Instant::now();
    while all.lock().unwrap().len() < count {
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", all.lock().unwrap());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Three connections: one of two queries that stays open for 40 ms after them, one of one query meanwhile, and one of
/// another client at last, a second later. Beside them a query over UDP.
fn with_connections() -> Captured {
    Captured::new(|writer| {
        let (first, second) = (client([10, 0, 0, 1], 5001), client([10, 0, 0, 1], 5002));
        let third = client([10, 0, 7, 1], 5003);
        writer.tcp_connect(0, first, SERVER).unwrap();
        writer.tcp_message(0, first, SERVER, &query("a0")).unwrap();
        writer.udp(5 * MS, third, SERVER, &query("u")).unwrap();
        writer.tcp_query(10 * MS, second, SERVER, &query("b0"), None).unwrap();
        writer.tcp_message(20 * MS, first, SERVER, &query("a1")).unwrap();
        writer.tcp_close(60 * MS, first, SERVER).unwrap();
        writer.tcp_query(1_150 * MS, third, SERVER, &query("c0"), None).unwrap();
    })
}

#[test]
fn connections_begin_and_end_as_captured_and_come_from_their_clients() {
    let captured = with_connections();
    let (server, all) = tcp_server();
    // The lane for UDP has the same target, where no datagram is read.
    let udp = UdpSocket::bind(server.address).unwrap();
    let lane = |carried, wire| Lane::as_captured(carried, wire, 1);
    let usual = plan(server.address, Some("127.1.58.0/24"), ReplayPlan::default());
    let lanes = vec![lane(Carried::Udp, usual.wire.clone()), lane(Carried::Tcp, Wire::Tcp(tcp(1)))];
    // Longer than other programs keep the server from a core.
    let patience = Duration::from_millis(1500);
    let plan = Plan { wire: Wire::Captured(lanes), threads: 2, timeout: patience, drain: patience, ..usual };
    let trial = play(&plan, &captured.dataset, &Control::new(2), no_subject).unwrap();
    assert_eq!((trial.accounts.intended, trial.accounts.correct), (5, 4), "{:?}", trial.accounts);
    let mut buffer = [0; 512];
    let (bytes, from) = udp.recv_from(&mut buffer).unwrap();
    assert_eq!(name(&buffer[..bytes]), "u");

    wait_for(&all, 3);
    let all = all.lock().unwrap();
    let by_first: BTreeMap<&str, &Carrying> = all.iter().map(|one| (&*one.names[0], one)).collect();
    let names = |first: &str| by_first[first].names.iter().map(String::as_str).collect::<Vec<&str>>();
    assert_eq!(["a0", "b0", "c0"].map(names), [vec!["a0", "a1"], vec!["b0"], vec!["c0"]]);
    // The player counts from the reply, which left after the server's stamp.
    let idle_ns = by_first["a0"].ended_ns - by_first["a0"].last_ns;
    assert!(idle_ns >= 39 * MS, "{idle_ns} ns, less than captured");
    let address = |first: &str| by_first[first].from.unwrap().ip();
    assert_eq!(address("a0"), address("b0"), "one client");
    assert_eq!(address("c0"), from.ip(), "over either transport");
    assert_ne!(address("a0"), address("c0"));

    let sockets = trial.replay.as_ref().unwrap().sockets;
    assert_eq!(sockets, 3, "one for datagrams, two places for connections, and none of the spare ones");
    assert_eq!(trial.sent_on_connections(), 4);
    let connections = trial.connections.unwrap();
    connections.check(4).unwrap();
    assert_eq!((connections.attempts, connections.established, connections.handed), (3, 3, 4));
    assert_eq!(connections.closed, [("player".to_owned(), 3)].into());
    assert_eq!(trial.transport, kqps_observation::trial::Transport::Udp);
    let replayed = trial.replay.unwrap();
    assert_eq!(replayed.played, [("tcp".to_owned(), 4), ("udp".to_owned(), 1)].into());
    assert_eq!((&replayed.sent, replayed.window_queries), (&replayed.played, 5));
    assert!((replayed.passes - 1.0).abs() < 1e-9 && replayed.closed_early == 0, "{replayed:?}");
    assert_eq!((replayed.joined, replayed.capture.connections, replayed.clients), (0, 3, 2));
    assert_eq!(server.accepted.load(Relaxed), 3);
}

#[test]
fn over_one_transport_each_client_has_a_connection() {
    let clients: Vec<SocketAddr> = (1..=5).map(|number| client([10, 0, 0, number], 4000)).collect();
    let captured = Captured::of_clients(30, &clients);
    let (server, all) = tcp_server();
    let usual = plan(server.address, Some("127.1.59.0/24"), ReplayPlan::default());
    let plan = Plan { wire: Wire::Tcp(tcp(1)), threads: 2, ..usual };
    let trial = play(&plan, &captured.dataset, &Control::new(2), no_subject).unwrap();
    assert_eq!((trial.accounts.intended, trial.accounts.correct), (30, 30), "{:?}", trial.accounts);
    wait_for(&all, 5);
    let all = all.lock().unwrap();
    for one in &*all {
        let of_client: BTreeSet<u64> =
            one.names.iter().map(|name| name[1..].parse::<u64>().unwrap() % 5).collect();
        assert_eq!((of_client.len(), one.names.len()), (1, 6), "{one:?}");
    }
    let addresses: BTreeSet<IpAddr> = all.iter().map(|one| one.from.unwrap().ip()).collect();
    assert_eq!(addresses.len(), 5);
    assert_eq!(trial.connections.unwrap().before_load, 5, "they are kept");
}

#[test]
fn with_one_query_to_a_connection_each_comes_from_its_client() {
    let clients: Vec<SocketAddr> = (1..=5).map(|number| client([10, 0, 0, number], 4000)).collect();
    let captured = Captured::of_clients(30, &clients);
    let (server, all) = tcp_server();
    let usual = plan(server.address, Some("127.1.60.0/24"), ReplayPlan::default());
    let tcp = TcpPlan { queries_per_connection: Some(1), ..tcp(16) };
    let plan = Plan { wire: Wire::Tcp(tcp), ..usual };
    let trial = play(&plan, &captured.dataset, &Control::new(1), no_subject).unwrap();
    let accounts = trial.accounts;
    assert_eq!((accounts.correct + accounts.unsent, accounts.lost), (30, 0), "{accounts:?}");
    wait_for(&all, accounts.correct as usize);
    let mut by_client: BTreeMap<u64, BTreeSet<IpAddr>> = BTreeMap::new();
    for one in &*all.lock().unwrap() {
        assert_eq!(one.names.len(), 1, "{one:?}");
        let number: u64 = one.names[0][1..].parse().unwrap();
        by_client.entry(number % 5).or_default().insert(one.from.unwrap().ip());
    }
    assert!(by_client.values().all(|addresses| addresses.len() == 1), "{by_client:?}");
    assert_eq!(by_client.values().flatten().collect::<BTreeSet<_>>().len(), 5);
}

/// The kinds of the handshakes of each address, in their order.
type KindsByAddress = Arc<Mutex<BTreeMap<IpAddr, Vec<Kind>>>>;

/// A server over TLS that answers the query of each connection, and notes the kinds of handshakes of each address.
fn tls_server(identity: &Identity) -> (Server, KindsByAddress) {
    let acceptor = Acceptor::new(identity).unwrap();
    let all = KindsByAddress::default();
    let of_server = Arc::clone(&all);
    let server = Server::at("127.0.0.1:0", move |_, mut stream| {
        let mut tls = acceptor.accept().unwrap();
        let (mut plain, mut outgoing, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 14]);
        while let Some(bytes) = stream.read(&mut buffer).ok().filter(|bytes| *bytes > 0) {
            let mut records = [tls.kept(), &buffer[..bytes]].concat();
            tls.open(&mut records, &mut plain, &mut outgoing).unwrap();
            if let Some(message) = crate::stream::query(&mut std::mem::take(&mut plain).as_slice()) {
                let from = stream.peer_addr().unwrap().ip();
                of_server.lock().unwrap().entry(from).or_default().push(tls.session().kind);
                tls.seal(&crate::stream::reply(message), &mut outgoing).unwrap();
            }
            stream.write_all(&std::mem::take(&mut outgoing)).unwrap();
        }
    });
    (server, all)
}

#[test]
fn a_captured_client_resumes_its_own_sessions_alone() {
    let made = make(KeyType::Ecdsa, &["dns.test".into()]).unwrap();
    let (server, all) = tls_server(&made.identity);
    let clients: Vec<SocketAddr> = (1..=5).map(|number| client([10, 0, 0, number], 4000)).collect();
    let captured = Captured::of_clients(100, &clients);
    let usual = plan(server.address, Some("127.1.61.0/24"), ReplayPlan::default());
    let client = ClientSettings::new(Trust::Ca(made.ca), true);
    let tls = Some(TlsPlan { names: vec!["dns.test".into()], client, packing: false, http: None });
    let tcp = TcpPlan { queries_per_connection: Some(1), tls, ..tcp(16) };
    let patience = Duration::from_secs(5);
    let plan = Plan { wire: Wire::Tcp(tcp), timeout: patience, drain: patience, ..usual };
    let trial = play(&plan, &captured.dataset, &Control::new(1), no_subject).unwrap();
    let accounts = trial.accounts;
    assert_eq!((accounts.correct + accounts.unsent, accounts.lost), (100, 0), "{accounts:?}");
    let all = all.lock().unwrap();
    assert_eq!(all.len(), 5, "{all:?}");
    // Each client has at first no ticket, although the thread has tickets of others.
    assert!(all.values().all(|kinds| kinds[0] == Kind::Full), "{all:?}");
    assert!(all.values().all(|kinds| kinds.contains(&Kind::Resumed)), "{all:?}");
}

/// A plan that replays a capture over TCP alone, as it was, by this many threads.
fn by_tcp(target: SocketAddr, threads: usize, replay: ReplayPlan) -> Plan {
    let patience = Duration::from_secs(10);
    let lane = Lane::as_captured(Carried::Tcp, Wire::Tcp(tcp(1)), threads);
    let plan = Plan { wire: Wire::Captured(vec![lane]), threads, ..plan(target, None, replay) };
    Plan { timeout: patience, drain: patience, ..plan }
}

/// `count` connections of one query each, `c0`, `c1` …, each of another port of one client. They follow each other.
fn one_after_another(count: u64) -> Captured {
    Captured::new(|writer| {
        for number in 0..count {
            let from = client([10, 0, 0, 1], 5000 + number as u16);
            let at_ns = number * 2 * MS;
            writer.tcp_query(at_ns, from, SERVER, &query(&format!("c{number}")), None).unwrap();
        }
    })
}

/// A server that answers nothing until it has `count` queries, and then all of them.
fn late_server(count: usize) -> Server {
    let waiting = Mutex::new(Vec::new());
    Server::at("127.0.0.1:0", move |_, mut stream| {
        while let Some(message) = crate::stream::query(&mut stream) {
            let mut waiting = waiting.lock().unwrap();
            waiting.push((stream.try_clone().unwrap(), crate::stream::reply(message)));
            if waiting.len() == count {
                for (mut stream, reply) in waiting.drain(..) {
                    stream.write_all(&reply).unwrap();
                }
            }
        }
    })
}

#[test]
fn a_slow_server_gets_as_many_connections_as_the_capture_has() {
    let captured = one_after_another(20);
    assert_eq!(captured.dataset.capture().unwrap().places, 1, "one is open at a time");
    let server = late_server(20);
    let plan = by_tcp(server.address, 1, ReplayPlan::default());
    let trial = play(&plan, &captured.dataset, &Control::new(1), no_subject).unwrap();
    assert_eq!((trial.accounts.correct, trial.replay.unwrap().joined), (20, 0), "{:?}", trial.accounts);
    let connections = trial.connections.unwrap();
    assert_eq!(connections.closed, [("player".to_owned(), 20)].into(), "{connections:?}");
    assert_eq!(server.accepted.load(Relaxed), 20);
}

#[test]
fn without_a_spare_place_a_query_joins_an_earlier_connection() {
    // A thread with one place has 64 spare ones.
    let captured = one_after_another(67);
    let server = late_server(67);
    let plan = by_tcp(server.address, 1, ReplayPlan::default());
    let trial = play(&plan, &captured.dataset, &Control::new(1), no_subject).unwrap();
    assert_eq!((trial.accounts.correct, trial.replay.unwrap().joined), (67, 2), "{:?}", trial.accounts);
    assert_eq!((trial.connections.unwrap().established, server.accepted.load(Relaxed)), (65, 65));
}

#[test]
fn the_threads_of_a_lane_have_the_connections_of_the_capture_together() {
    // Many are open at once.
    let captured = Captured::new(|writer| {
        for number in 0..60_u64 {
            let from = client([10, 0, 0, number as u8 % 7], 5000 + number as u16);
            writer.tcp_connect(number * MS, from, SERVER).unwrap();
            writer.tcp_message(number * MS, from, SERVER, &query(&format!("a{number}"))).unwrap();
            if let Some(earlier) = number.checked_sub(20) {
                let from = client([10, 0, 0, earlier as u8 % 7], 5000 + earlier as u16);
                writer.tcp_message(number * MS, from, SERVER, &query(&format!("b{earlier}"))).unwrap();
                writer.tcp_close(number * MS, from, SERVER).unwrap();
            }
        }
    });
    assert!((20..=21).contains(&captured.dataset.capture().unwrap().places));
    let (server, all) = tcp_server();
    let plan = by_tcp(server.address, 3, ReplayPlan::default());
    let trial = play(&plan, &captured.dataset, &Control::new(3), no_subject).unwrap();
    assert_eq!((trial.accounts.correct, trial.replay.unwrap().joined), (100, 0), "{:?}", trial.accounts);
    wait_for(&all, 60);
    let carried: BTreeSet<Vec<String>> = all.lock().unwrap().iter().map(|one| one.names.clone()).collect();
    let expected = |number: u64| match number {
        0..40 => vec![format!("a{number}"), format!("b{number}")],
        _ => vec![format!("a{number}")],
    };
    assert_eq!(carried, (0..60).map(expected).collect::<BTreeSet<Vec<String>>>());
}

#[test]
fn no_query_of_a_window_or_pass_goes_by_the_connection_of_another() {
    let captured = Captured::new(|writer| {
        let (first, second) = (client([10, 0, 0, 1], 5001), client([10, 0, 9, 1], 5002));
        writer.tcp_connect(0, first, SERVER).unwrap();
        writer.tcp_message(0, first, SERVER, &query("a0")).unwrap();
        writer.tcp_message(100 * MS, first, SERVER, &query("a1")).unwrap();
        writer.tcp_close(105 * MS, first, SERVER).unwrap();
        writer.tcp_connect(110 * MS, second, SERVER).unwrap();
        writer.tcp_message(110 * MS, second, SERVER, &query("b0")).unwrap();
        // It is beyond the window that this connection goes on and ends.
        writer.tcp_message(200 * MS, second, SERVER, &query("b1")).unwrap();
    });
    let ms = Duration::from_millis;
    let replay = ReplayPlan { from: ms(50), to: Some(ms(150)), repeat: 3, ..ReplayPlan::default() };
    let (server, all) = tcp_server();
    let plan = by_tcp(server.address, 1, replay);
    let trial = play(&plan, &captured.dataset, &Control::new(1), no_subject).unwrap();
    assert_eq!((trial.accounts.correct, trial.replay.unwrap().joined), (6, 0), "{:?}", trial.accounts);
    wait_for(&all, 6);
    let mut names: Vec<Vec<String>> = all.lock().unwrap().iter().map(|one| one.names.clone()).collect();
    names.sort_unstable();
    assert_eq!(names.concat(), ["a1", "a1", "a1", "b0", "b0", "b0"]);
    assert!(names.iter().all(|of_connection| of_connection.len() == 1), "{names:?}");
}

#[test]
fn a_connection_that_the_next_one_closes_early_is_counted() {
    let captured = Captured::new(|writer| {
        let (first, second) = (client([10, 0, 0, 1], 5001), client([10, 0, 0, 2], 5002));
        writer.tcp_connect(0, first, SERVER).unwrap();
        writer.tcp_message(0, first, SERVER, &query("a0")).unwrap();
        writer.tcp_query(10 * MS, second, SERVER, &query("b0"), None).unwrap();
        writer.tcp_close(3_000 * MS, first, SERVER).unwrap();
    });
    let (server, all) = tcp_server();
    // The second pass begins when the first connection has been idle for a second of its three.
    let replay = ReplayPlan { repeat: 2, gap: Duration::from_secs(1), ..ReplayPlan::default() };
    let plan = by_tcp(server.address, 1, replay);
    let trial = play(&plan, &captured.dataset, &Control::new(1), no_subject).unwrap();
    wait_for(&all, 4);
    let replayed = trial.replay.unwrap();
    assert_eq!((replayed.closed_early, replayed.joined), (1, 0), "{replayed:?}");
    assert!((replayed.passes - 2.0).abs() < 1e-9, "{replayed:?}");
    let connections = trial.connections.unwrap();
    assert_eq!((connections.established, connections.open), (4, 1), "{connections:?}");
}

#[test]
fn lanes_are_for_captures() {
    let queries = Queries::new("a.test A\n", Format::Text);
    let plan = by_tcp("127.0.0.1:9".parse().unwrap(), 1, ReplayPlan::default());
    let error = play(&plan, &queries.dataset, &Control::new(1), no_subject).unwrap_err();
    assert!(matches!(error, PlayError::Plan(PlanError::NoCapture)), "{error}");
}

#[test]
fn queries_that_are_due_while_every_place_is_taken_are_unsent() {
    let clients: Vec<SocketAddr> = (1..=5).map(|number| client([10, 0, 0, number], 4000)).collect();
    let captured = Captured::of_clients(30, &clients);
    let server =
        Server::at("127.0.0.1:0", |_, mut stream| while crate::stream::query(&mut stream).is_some() {});
    let tcp = TcpPlan { queries_per_connection: Some(1), ..tcp(2) };
    // Both queries that are sent keep their places for two seconds, and the capture lasts for 60 ms.
    let plan = Plan { wire: Wire::Tcp(tcp), ..plan(server.address, None, ReplayPlan::default()) };
    let trial = play(&plan, &captured.dataset, &Control::new(1), no_subject).unwrap();
    let accounts = trial.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.lost), (30, 2, 2), "{accounts:?}");
    assert_eq!(trial.unsent_causes, [("connections".to_owned(), 28)].into());
}
