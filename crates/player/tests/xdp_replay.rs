//! Captures replayed past the kernel, over a veth pair: each client asks from an address and port of its own, and only
//! replies to it count.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_observation::{Accounts, Trial};
use kqps_player::{Close, Control, Io, LoadPlan, Plan, PlanError, ReplayPlan, TcpPlan, UdpPlan, Wire, play};

use crate::capture::{Captured, client, name};
use crate::past::{FAR, Networks};
use crate::sockets::is_nothing;
use crate::support::{Queries, no_subject};

const PORT: u16 = 5300;

/// The addresses of the player's end that clients are mapped to.
const SOURCES: &str = "198.18.0.64/28";

/// Networks of which the near one has all addresses of [`SOURCES`].
fn networks(queues: u32) -> Option<Networks> {
    let networks = Networks::new(queues)?;
    networks.near(|| {
        let line = "for last in $(seq 64 79); do ip addr add 198.18.0.$last/24 dev kqps0; done";
        let output = Command::new("sh").args(["-ec", line]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
    Some(networks)
}

/// A plan past the kernel.
fn plan(threads: usize, local: Option<&str>, wire: Wire) -> Plan {
    let plan = crate::capture::plan((FAR, PORT).into(), local, ReplayPlan::default());
    // Longer than other programs keep the server from a core.
    let timeout = Duration::from_millis(1500);
    Plan { wire, threads, timeout, drain: timeout, ..plan }
}

fn udp() -> Wire {
    Wire::Udp(UdpPlan { io: Io::Xdp, sockets: 1, buffer_bytes: None, local_port: None, device: None })
}

/// Clients in three networks.
fn clients(count: u8) -> Vec<SocketAddr> {
    (0..count).map(|number| client([10, 0, number % 3, 1 + number], 4000)).collect()
}

/// Plays at a server on UDP that answers each query, those of `astray` to another client. Returns what came, by name.
fn played(networks: &Networks, plan: &Plan, captured: &Captured, astray: &[&str]) -> (Trial, ArrivedQueries) {
    let socket = networks.far(|| UdpSocket::bind((FAR, PORT)));
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let (stop, all) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 512];
            while !stop.load(Relaxed) {
                let (bytes, from) = match socket.recv_from(&mut buffer) {
                    Ok(received) => received,
                    Err(error) if is_nothing(&error) => {
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                let mut reply = buffer[..bytes].to_vec();
                let name = name(&reply);
                reply[2] |= 0x80;
                let mut all = all.lock().unwrap();
                let other = all.iter().map(|(_, other)| *other).find(|other| *other != from);
                let to = other.filter(|_| astray.contains(&&*name)).unwrap_or(from);
                socket.send_to(&reply, to).unwrap();
                all.push((name, from));
            }
        });
        let control = Control::new(plan.threads);
        let trial = networks.near(|| play(plan, &captured.dataset, &control, no_subject));
        stop.store(true, Relaxed);
        trial.unwrap()
    });
    (trial, all.into_inner().unwrap())
}

/// The names of queries, and where they came from.
type ArrivedQueries = Vec<(String, SocketAddr)>;

/// The addresses and ports of each client. Client *i* of `count` sent every so many-th query.
fn by_client(seen: &ArrivedQueries, count: usize) -> BTreeMap<usize, BTreeSet<SocketAddr>> {
    let mut by_client: BTreeMap<usize, BTreeSet<SocketAddr>> = BTreeMap::new();
    for (name, from) in seen {
        let number: usize = name[1..].parse().unwrap();
        by_client.entry(number % count).or_default().insert(*from);
    }
    by_client
}

#[test]
fn each_client_asks_from_one_address_and_port() {
    for (threads, sources) in [(1, Some(SOURCES)), (2, Some(SOURCES)), (1, None), (2, None)] {
        let Some(networks) = networks(threads as u32) else { return };
        let captured = Captured::of_clients(90, &clients(9));
        let (trial, seen) = played(&networks, &plan(threads, sources, udp()), &captured, &[]);
        let accounts = trial.accounts;
        assert_eq!((accounts.intended, accounts.correct, accounts.unsolicited), (90, 90, 0), "{accounts:?}");
        let by_client = by_client(&seen, 9);
        assert!(by_client.values().all(|from| from.len() == 1), "{by_client:?}");
        let all: BTreeSet<SocketAddr> = by_client.into_values().flatten().collect();
        assert_eq!(all.len(), 9, "{all:?}");
        let addresses: BTreeSet<IpAddr> = all.iter().map(SocketAddr::ip).collect();
        assert_eq!(addresses.len(), if sources.is_some() { 9 } else { 1 }, "{all:?}");
        assert!(sources.is_none() || addresses.iter().all(is_source), "{addresses:?}");
        let replayed = trial.replay.unwrap();
        assert_eq!((replayed.clients, replayed.clients_sharing), (9, 0));
        assert_eq!((&*trial.players.first.io, trial.players.first.socket_drops), ("xdp", 0));
    }
}

fn is_source(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if Ipv4Addr::new(198, 18, 0, 64) <= *address
        && *address <= Ipv4Addr::new(198, 18, 0, 79))
}

#[test]
fn a_reply_to_another_client_is_no_reply() {
    let Some(networks) = networks(1) else { return };
    let captured = Captured::of_clients(20, &clients(2));
    for sources in [Some(SOURCES), None] {
        let astray = ["q5", "q8", "q13"];
        let (trial, _) = played(&networks, &plan(1, sources, udp()), &captured, &astray);
        let accounts = trial.accounts;
        assert_eq!((accounts.correct, accounts.lost, accounts.unsolicited), (17, 3, 3), "{accounts:?}");
    }
}

#[test]
fn slices_and_passes_play_every_query_as_often_as_they_should() {
    let Some(networks) = networks(2) else { return };
    let captured = Captured::of_clients(40, &clients(2));
    let replay = ReplayPlan { pile: 4, repeat: 3, speed: 2.0, ..ReplayPlan::default() };
    for load in [None, Some(LoadPlan::Closed { outstanding: 6 })] {
        let usual = plan(2, Some(SOURCES), udp());
        let plan = Plan { replay: Some(replay.clone()), load: load.unwrap_or(usual.load), ..usual };
        let (trial, seen) = played(&networks, &plan, &captured, &[]);
        assert_eq!((trial.accounts.intended, trial.accounts.correct), (120, 120), "{:?}", trial.accounts);
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, _) in &seen {
            *times.entry(name).or_default() += 1;
        }
        assert!(times.len() == 40 && times.values().all(|count| *count == 3), "{times:?}");
        assert_eq!(seen.iter().map(|(_, from)| *from).collect::<BTreeSet<_>>().len(), 8);
    }
}

#[test]
fn other_queries_are_not_replayed() {
    let queries = Queries::new("a.test A\n", Format::Text);
    let plan = plan(1, Some(SOURCES), udp());
    assert_eq!(plan.check(), Ok(()));
    assert_eq!(plan.check_against(&queries.dataset), Err(PlanError::NoCapture));
}

/// The replay that a study of connections asks for: TCP from a capture of UDP, a connection for each query, from the
/// addresses of the capture's clients.
#[test]
fn queries_by_udp_are_replayed_over_a_connection_each() {
    // A place for each query at each thread, and places that are used again. An open loop gives up queries that find none.
    for (threads, connections) in [(1, 90), (2, 180), (1, 16), (2, 16)] {
        let Some(networks) = networks(threads as u32) else { return };
        let seen = std::sync::Arc::new(Mutex::new(ArrivedQueries::new()));
        let of_server = std::sync::Arc::clone(&seen);
        let server = networks.far(move || {
            Ok(crate::stream::Server::at((FAR, 0), move |_, mut stream| {
                let from = stream.peer_addr().unwrap();
                while let Some(message) = crate::stream::query(&mut stream) {
                    of_server.lock().unwrap().push((name(&message), from));
                    if stream.write_all(&crate::stream::reply(message)).is_err() {
                        return;
                    }
                }
            }))
        });
        let captured = Captured::of_clients(90, &clients(9));
        let tcp = TcpPlan {
            io: Io::Xdp,
            connections,
            queries_per_connection: Some(1),
            outstanding: 1 << 16,
            close: Close::Fin,
            connect_timeout: Duration::from_secs(5),
            buffer_bytes: None,
            tls: None,
            device: None,
            local_port: None,
        };
        let plan = plan(threads, Some(SOURCES), Wire::Tcp(tcp));
        // Every query is answered, so a long wait is for a busy host alone.
        let wait = Duration::from_secs(30);
        let plan = Plan { targets: vec![server.address], timeout: wait, drain: wait, ..plan };
        let control = Control::new(threads);
        let trial = networks.near(|| play(&plan, &captured.dataset, &control, no_subject)).unwrap();
        let Accounts { correct, unsent, .. } = trial.accounts;
        assert_eq!(correct + unsent, 90, "{:?} {:?}", trial.accounts, trial.lost_causes);
        assert!(if connections < 90 { correct > 16 } else { unsent == 0 }, "{:?}", trial.accounts);
        let made = trial.connections.as_ref().unwrap();
        assert_eq!((made.attempts, made.established), (correct, correct), "{made:?}");
        assert_eq!(server.accepted.load(Relaxed), correct);
        let seen = seen.lock().unwrap();
        assert_eq!(
            seen.iter().map(|(_, from)| *from).collect::<BTreeSet<_>>().len() as u64,
            correct,
            "a pair for each"
        );
        for (client, from) in by_client(&seen, 9) {
            let addresses: BTreeSet<IpAddr> = from.iter().map(SocketAddr::ip).collect();
            assert!(
                addresses.len() == 1 && addresses.iter().all(is_source),
                "client {client}: {addresses:?}"
            );
        }
    }
}
