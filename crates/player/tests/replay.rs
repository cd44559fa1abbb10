//! Captures with known gaps, clients and fates, replayed at servers of the tests: what arrives, from whom, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::{Carried, Check, Dataset, Format};
use kqps_kernel::clock;
use kqps_observation::Trial;
use kqps_player::error::PlayError;
use kqps_player::{Control, Lane, LoadPlan, Plan, PlanError, ReplayPlan, Wire, play};

use crate::capture::{Captured, MS, SERVER, client, name, plan, query};
use crate::sockets::is_nothing;
use crate::support::{Queries, no_subject};

/// Longer than other programs keep the server of a test from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// A query as it arrived.
#[derive(Clone, Debug)]
struct ArrivedQuery {
    name: String,
    from: SocketAddr,
    at_ns: u64,
}

/// Plays at a server on UDP. `answer` changes the reply to a query, and says where it goes.
fn played(
    dataset: &Dataset,
    plan: impl FnOnce(SocketAddr) -> Plan,
    answer: impl Fn(&ArrivedQuery, &[ArrivedQuery], &mut Vec<u8>) -> Option<SocketAddr> + Sync,
) -> (Trial, Vec<ArrivedQuery>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let plan = plan(socket.local_addr().unwrap());
    let (stop, all) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 512];
            while !stop.load(Relaxed) {
                let (bytes, from) = match socket.recv_from(&mut buffer) {
                    Ok(received) => received,
                    Err(error) if is_nothing(&error) => continue,
                    Err(error) => panic!("{error}"),
                };
                let mut reply = buffer[..bytes].to_vec();
                let seen = ArrivedQuery { name: name(&reply), from, at_ns: clock::now_ns() };
                reply[2] |= 0x80;
                let mut all = all.lock().unwrap();
                if let Some(to) = answer(&seen, &all, &mut reply) {
                    socket.send_to(&reply, to).unwrap();
                }
                all.push(seen);
            }
        });
        let trial = play(&plan, dataset, &Control::new(plan.threads), no_subject);
        stop.store(true, Relaxed);
        trial.unwrap()
    });
    (trial, all.into_inner().unwrap())
}

/// Answers every query.
#[allow(clippy::unnecessary_wraps)] // other answers send none
fn right(seen: &ArrivedQuery, _: &[ArrivedQuery], _: &mut Vec<u8>) -> Option<SocketAddr> {
    Some(seen.from)
}

/// The addresses and ports from which the queries of each client came. Client *i* of `clients` sent every so many-th
/// query.
fn by_client(seen: &[ArrivedQuery], clients: usize) -> BTreeMap<usize, BTreeSet<SocketAddr>> {
    let mut by_client: BTreeMap<usize, BTreeSet<SocketAddr>> = BTreeMap::new();
    for one in seen {
        let number: usize = one.name[1..].parse().unwrap();
        by_client.entry(number % clients).or_default().insert(one.from);
    }
    by_client
}

#[test]
fn each_query_leaves_at_its_time_in_order_and_from_the_address_of_its_client() {
    let clients = [client([10, 0, 0, 1], 4000), client([10, 9, 9, 9], 4001), client([10, 0, 0, 2], 4002)];
    let captured = Captured::of_clients(60, &clients);
    let replay = ReplayPlan::default();
    // 127.1.55.1 to 127.1.55.254: no other test sends from them.
    let (trial, seen) =
        played(&captured.dataset, |target| plan(target, Some("127.1.55.0/24"), replay), right);
    let accounts = trial.accounts;
    assert_eq!((accounts.intended, accounts.correct, accounts.unsolicited), (60, 60, 0), "{accounts:?}");
    assert!(seen.iter().map(|one| &*one.name).eq((0..60).map(|number| format!("q{number}"))));
    for (one, number) in seen.iter().zip(0_u64..) {
        let due_ns = trial.started_monotonic_ns + number * 2 * MS;
        assert!(one.at_ns >= due_ns, "{} came {} ns too early", one.name, due_ns - one.at_ns);
    }
    let by_client = by_client(&seen, 3);
    let from: Vec<SocketAddr> = by_client
        .values()
        .map(|addresses| {
            assert_eq!(addresses.len(), 1, "a client has one address and one port: {addresses:?}");
            *addresses.first().unwrap()
        })
        .collect();
    assert_eq!(from.iter().map(SocketAddr::ip).collect::<BTreeSet<_>>().len(), 3, "{from:?}");
    assert_eq!(from.iter().map(SocketAddr::port).collect::<BTreeSet<_>>().len(), 1, "{from:?}");
    let last = |at: usize| match from[at].ip() {
        IpAddr::V4(address) => {
            assert_eq!(address.octets()[..3], [127, 1, 55]);
            address.octets()[3]
        }
        IpAddr::V6(address) => panic!("{address}"),
    };
    assert_eq!(last(0) >> 1, last(2) >> 1, "clients of one network are neighbours");
    let replayed = trial.replay.unwrap();
    assert_eq!((replayed.clients, replayed.addresses, replayed.sockets), (3, 3, 1));
    assert_eq!((replayed.clients_sharing, replayed.capture.queries), (0, 60));
    assert_eq!((replayed.played, replayed.not_played), ([("udp".to_owned(), 60)].into(), BTreeMap::new()));
    assert_eq!((trial.load.arrivals.as_deref(), &*trial.players.first.io), (Some("captured"), "mmsg"));
    assert!(trial.load.duration_s >= 0.118, "{:?}", trial.load);
}

#[test]
fn without_addresses_clients_differ_by_their_ports() {
    let clients: Vec<SocketAddr> = (1..=9).map(|number| client([10, 0, number, 1], 4000)).collect();
    let captured = Captured::of_clients(54, &clients);
    for threads in [1, 2] {
        let plan = |target| Plan { threads, ..plan(target, None, ReplayPlan::default()) };
        let (trial, seen) = played(&captured.dataset, plan, right);
        assert_eq!(trial.accounts.correct, 54, "{:?}", trial.accounts);
        let by_client = by_client(&seen, 9);
        assert!(by_client.values().all(|addresses| addresses.len() == 1), "{by_client:?}");
        assert_eq!(by_client.values().flatten().collect::<BTreeSet<_>>().len(), 9);
        assert_eq!(trial.replay.unwrap().sockets, 9);
    }
}

#[test]
fn slices_passes_and_threads_play_every_query_as_often_as_they_should() {
    let clients = [client([10, 0, 0, 1], 4000), client([10, 0, 0, 2], 4000)];
    let captured = Captured::of_clients(40, &clients);
    let closed = LoadPlan::Closed { outstanding: 6 };
    for load in [None, Some(closed)] {
        let replay = ReplayPlan {
            pile: 4,
            repeat: 3,
            gap: Duration::from_millis(1),
            speed: 2.0,
            ..ReplayPlan::default()
        };
        let plan = |target| {
            let plan = plan(target, Some("127.1.56.0/24"), replay.clone());
            Plan { threads: 2, load: load.unwrap_or(plan.load), ..plan }
        };
        let (trial, seen) = played(&captured.dataset, plan, right);
        assert_eq!((trial.accounts.intended, trial.accounts.correct), (120, 120), "{:?}", trial.accounts);
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for one in &seen {
            *times.entry(&one.name).or_default() += 1;
        }
        assert!(times.len() == 40 && times.values().all(|count| *count == 3), "{times:?}");
        // Two clients of each of four slices.
        assert_eq!(seen.iter().map(|one| one.from).collect::<BTreeSet<_>>().len(), 8);
        assert_eq!(trial.replay.unwrap().clients, 8);
    }
}

#[test]
fn a_reply_to_another_client_is_no_reply() {
    let clients = [client([10, 0, 0, 1], 4000), client([10, 0, 0, 2], 4000)];
    let captured = Captured::of_clients(20, &clients);
    let plan = |target| {
        let plan = plan(target, Some("127.1.57.0/24"), ReplayPlan::default());
        Plan { timeout: TIMEOUT, drain: TIMEOUT, ..plan }
    };
    let (trial, _) = played(&captured.dataset, plan, |seen, earlier, _| {
        let other = earlier.iter().find(|one| one.from != seen.from);
        let goes_astray = ["q5", "q8", "q13"].contains(&&*seen.name);
        other.filter(|_| goes_astray).map(|other| other.from).or(Some(seen.from))
    });
    let accounts = trial.accounts;
    assert_eq!((accounts.correct, accounts.lost, accounts.unsolicited), (17, 3, 3), "{accounts:?}");
}

#[test]
fn answers_that_differ_from_the_captured_ones_are_listed() {
    let asked = client([10, 0, 0, 1], 4000);
    let captured = Captured::new(|writer| {
        for number in 0..10_u64 {
            let query = query(&format!("q{number}"));
            let mut reply = query.clone();
            reply[2] |= 0x80;
            writer.udp(number * 2 * MS, asked, SERVER, &query).unwrap();
            writer.udp(number * 2 * MS + MS, SERVER, asked, &reply).unwrap();
        }
    });
    assert_eq!(captured.dataset.check(), Check::Off);
    let dataset = captured.dataset.checked(Check::Answers);
    let plan = |target| {
        let plan = plan(target, None, ReplayPlan::default());
        Plan { timeout: TIMEOUT, drain: TIMEOUT, ..plan }
    };
    let (trial, _) = played(&dataset, plan, |seen, _, reply| match &*seen.name {
        "q3" | "q4" => {
            reply[3] |= 2;
            Some(seen.from)
        }
        "q6" => None,
        // The answer is from an authority, which the captured one is not.
        "q7" => {
            reply[2] |= 0x04;
            Some(seen.from)
        }
        _ => Some(seen.from),
    });
    assert_eq!((trial.accounts.correct, trial.accounts.wrong, trial.accounts.lost), (6, 3, 1));
    let kinds: Vec<(&str, u64)> = trial.differences.iter().map(|one| (&*one.kind, one.count)).collect();
    assert_eq!(kinds, [("rcode NOERROR→SERVFAIL", 2), ("answer", 1), ("lost", 1)]);
    let got = &trial.differences[1].examples[0].got;
    assert!(got == "NOERROR, no record, AA alone differs", "{got}");
    let example = &trial.differences[0].examples[0];
    assert_eq!((&*example.name, &*example.rtype, &*example.got), ("q3.test.", "A", "SERVFAIL, 0 records"));
}

#[test]
fn a_capture_needs_a_replay_and_a_replay_a_capture() {
    let captured = Captured::of_clients(2, &[client([10, 0, 0, 1], 4000)]);
    let target = "127.0.0.1:9".parse().unwrap();
    let error = |dataset: &Dataset, plan: &Plan| match play(plan, dataset, &Control::new(1), no_subject) {
        Err(PlayError::Plan(error)) => error,
        other => panic!("{other:?}"),
    };
    let usual = plan(target, None, ReplayPlan::default());
    let unplanned = Plan { replay: None, ..usual.clone() };
    assert_eq!(error(&captured.dataset, &unplanned), PlanError::UnplannedCapture);
    let queries = Queries::new("a.test A\n", Format::Text);
    assert_eq!(error(&queries.dataset, &usual), PlanError::NoCapture);
}

#[test]
fn queries_without_a_lane_are_counted_by_their_transport() {
    let asked = client([10, 0, 0, 1], 5000);
    let captured = Captured::new(|writer| {
        writer.udp(0, asked, SERVER, &query("u")).unwrap();
        for number in 1..5_u64 {
            let from = client([10, 0, 0, 2], 5000 + number as u16);
            writer.tcp_query(number * MS, from, SERVER, &query("t"), None).unwrap();
        }
    });
    let lane = |wire| vec![Lane::as_captured(Carried::Udp, wire, 1)];
    let plan = |target| {
        let plan = plan(target, None, ReplayPlan { repeat: 2, ..ReplayPlan::default() });
        Plan { wire: Wire::Captured(lane(plan.wire.clone())), ..plan }
    };
    let (trial, seen) = played(&captured.dataset, plan, right);
    assert_eq!((trial.accounts.intended, trial.accounts.correct, seen.len()), (2, 2, 2));
    let replayed = trial.replay.unwrap();
    assert_eq!(replayed.not_played, [("tcp".to_owned(), 8)].into());
    assert_eq!(replayed.played, [("udp".to_owned(), 2)].into());
}

#[test]
fn one_client_may_have_more_queries_outstanding_than_its_share() {
    // The table of IDs has room for 1,024 queries at first.
    let asked = client([10, 0, 0, 1], 4000);
    let captured = Captured::new(|writer| {
        for number in 0..5000_u64 {
            writer.udp(number * 10_000, asked, SERVER, &query(&format!("q{number}"))).unwrap();
        }
    });
    let patience = Duration::from_millis(500);
    let plan = |target| {
        let plan = plan(target, Some("127.1.62.0/24"), ReplayPlan::default());
        Plan { timeout: patience, drain: patience, ..plan }
    };
    // The last queries are answered, and those before them are not.
    let (trial, _) = played(&captured.dataset, plan, |seen, _, _| {
        (seen.name.len() == 5 && seen.name.starts_with("q49")).then_some(seen.from)
    });
    assert_eq!(trial.accounts.intended, 5000);
    assert_eq!(trial.unsent_causes.get("ids"), None, "{:?}", trial.unsent_causes);
    assert_eq!((trial.accounts.unsolicited, trial.accounts.duplicate), (0, 0), "{:?}", trial.accounts);
}
