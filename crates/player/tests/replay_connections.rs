//! Captures of connections, replayed at servers of the tests: which connections begin and end, and what each carries.

mod capture;
mod stream;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capture::{Captured, MS, SERVER, client, name, plan, query};
use kqps_dataset::{Carried, Format};
use kqps_kernel::clock;
use kqps_player::error::PlayError;
use kqps_player::{Close, Control, Io, Lane, Plan, PlanError, ReplayPlan, TcpPlan, Wire, play};
use stream::Server;
use support::{Queries, no_subject};

/// What a connection carried: its client, its queries, and when it ended.
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
    let server = Server::new(move |_, mut stream| {
        let mut carrying = Carrying { from: stream.peer_addr().ok(), ..Carrying::default() };
        while let Some(message) = stream::query(&mut stream) {
            carrying.names.push(name(&message));
            carrying.last_ns = clock::now_ns();
            stream.write_all(&stream::reply(message)).unwrap();
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
        tls: None,
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
/// another client at last. Beside them a query over UDP.
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
        writer.tcp_query(150 * MS, third, SERVER, &query("c0"), None).unwrap();
    })
}

#[test]
fn connections_begin_and_end_as_captured_and_come_from_their_clients() {
    let captured = with_connections();
    let (server, all) = tcp_server();
    // The lane for UDP has the same target, where no datagram is read.
    let udp = UdpSocket::bind(server.address).unwrap();
    let lane = |carried, wire| Lane { carried, wire, threads: 1 };
    let usual = plan(server.address, Some("127.1.58.0/24"), ReplayPlan::default());
    let lanes = vec![lane(Carried::Udp, usual.wire.clone()), lane(Carried::Tcp, Wire::Tcp(tcp(1)))];
    let patience = Duration::from_millis(500);
    let plan = Plan { wire: Wire::Captured(lanes), threads: 2, timeout: patience, drain: patience, ..usual };
    let trial = play(&plan, &captured.dataset, &Control::new(2), no_subject).unwrap();
    assert_eq!((trial.accounts.intended, trial.accounts.correct), (5, 4), "{:?}", trial.accounts);
    let mut buffer = [0; 512];
    let (bytes, from) = udp.recv_from(&mut buffer).unwrap();
    assert_eq!(name(&buffer[..bytes]), "u");

    wait_for(&all, 3);
    let all = all.lock().unwrap();
    let names: Vec<Vec<&str>> =
        all.iter().map(|one| one.names.iter().map(String::as_str).collect()).collect();
    assert_eq!(names, [vec!["b0"], vec!["a0", "a1"], vec!["c0"]]);
    let idle_ns = all[1].ended_ns - all[1].last_ns;
    assert!(idle_ns >= 39 * MS, "{idle_ns} ns, less than captured");
    let address = |at: usize| all[at].from.unwrap().ip();
    assert_eq!(address(0), address(1), "one client");
    assert_eq!(address(2), from.ip(), "over either transport");
    assert_ne!(address(0), address(2));

    let connections = trial.connections.unwrap();
    assert_eq!((connections.attempts, connections.established, connections.handed), (3, 3, 4));
    assert_eq!(connections.closed, [("player".to_owned(), 3)].into());
    assert_eq!(trial.transport, kqps_observation::trial::Transport::Udp);
    let replayed = trial.replay.unwrap();
    assert_eq!(replayed.played, [("tcp".to_owned(), 4), ("udp".to_owned(), 1)].into());
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
