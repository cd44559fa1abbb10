//! The queries of a capture that each thread plays, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kqps_capture::write::Writer;
use kqps_dataset::{Carried, Options};

use super::super::{mean_rate_qps, source_addresses};
use super::*;
use crate::plan::tests::{plan, tcp, udp};
use crate::plan::{Arrivals, Io, Lane, LoadPlan, Plan, ReplayPlan, Stop, Wire};
use crate::team::teams;

const MS: u64 = 1_000_000;
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53);

/// A capture, and the folder that holds it.
struct Made {
    dataset: Dataset,
    _folder: tempfile::TempDir,
}

/// A query of a capture: when it was sent, by the client with which number, and whether over UDP. Over TCP it has a
/// connection of its own.
type Sent = (u64, u32, bool);

fn made(sent: impl IntoIterator<Item = Sent>) -> Made {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for ((at_ns, client, is_udp), number) in sent.into_iter().zip(0_u32..) {
        let label = format!("q{number}");
        let header = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
        let query = [&header[..], label.as_bytes(), b"\x04test\0\0\x01\0\x01"].concat();
        let port = 1024 + (number % 60_000) as u16;
        let from = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + client), port));
        let at_ns = 1_700_000_000_000_000_000 + at_ns;
        if is_udp {
            writer.udp(at_ns, from, SERVER, &query).unwrap();
        } else {
            writer.tcp_query(at_ns, from, SERVER, &query, None).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture");
    std::fs::write(&file, writer.finish().unwrap()).unwrap();
    let options = Options { cache_dir: Some(folder.path().join("cache")), ..Options::default() };
    Made { dataset: Dataset::open(&file, &options).unwrap(), _folder: folder }
}

/// A plan of this many threads over UDP.
fn planned(threads: usize, replay: ReplayPlan) -> Plan {
    let load = LoadPlan::Open { rate_qps: 1000.0, arrivals: Arrivals::Captured, window: None };
    let stop = Stop { after: None, passes: None };
    let plan = plan(SERVER);
    Plan { wire: udp(Io::Auto, 1), load, stop, threads, replay: Some(replay), ..plan }
}

/// The name of a query.
fn name(dataset: &Dataset, query: Position) -> String {
    let message = dataset.query(query).message;
    String::from_utf8(message[13..13 + usize::from(message[12])].to_vec()).unwrap()
}

/// The queries that each thread plays, and how many queries no thread does.
fn played(made: &Made, plan: &Plan) -> (Vec<Vec<ReplayQuery>>, u64) {
    plan.check().unwrap();
    plan.check_against(&made.dataset).unwrap();
    let (mut all, mut not_played) = (Vec::new(), 0);
    for team in teams(plan, &made.dataset) {
        for thread in 0..team.threads.len() {
            let replay = team.replay.as_ref().unwrap();
            let mut cursor = replay.cursor(&made.dataset, &team.plan, thread);
            let mut of_thread = Vec::new();
            while !cursor.is_over() {
                let bound_ns = cursor.next_due_ns();
                let Some(asked) = cursor.next() else { continue };
                assert!(bound_ns <= asked.due_ns, "{bound_ns} {asked:?}");
                of_thread.push(asked);
                cursor.take();
            }
            assert_eq!(cursor.next_due_ns(), u64::MAX);
            not_played += cursor.not_played().iter().sum::<u64>();
            all.push(of_thread);
        }
    }
    (all, not_played)
}

/// The names and due times of all threads, in the order of the due times.
fn dues(made: &Made, plan: &Plan) -> Vec<(String, u64)> {
    let (all, _) = played(made, plan);
    let mut dues: Vec<(u64, Position)> =
        all.into_iter().flatten().map(|asked| (asked.due_ns, asked.query)).collect();
    dues.sort_unstable();
    dues.into_iter().map(|(due_ns, query)| (name(&made.dataset, query), due_ns)).collect()
}

/// A query every millisecond, of seven clients in turn.
fn every_ms(count: u64) -> Made {
    made((0..count).map(|number| (number * MS, number as u32 % 7, true)))
}

#[test]
fn the_threads_together_play_each_query_once_at_its_captured_time() {
    let made = every_ms(100);
    for threads in [1, 2, 5] {
        let dues = dues(&made, &planned(threads, ReplayPlan::default()));
        let expected: Vec<(String, u64)> =
            (0..100).map(|number| (format!("q{number}"), number * MS)).collect();
        assert_eq!(dues, expected, "{threads} threads");
    }
    let (all, _) = played(&made, &planned(3, ReplayPlan::default()));
    let mut owners: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (thread, asked) in all.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |one| (at, one))) {
        owners.entry(asked.client).or_default().insert(thread);
        assert!(asked.connection == 0 && asked.idle_ns.is_none(), "datagrams have no connections");
    }
    assert_eq!(owners.len(), 7);
    assert!(owners.values().all(|threads| threads.len() == 1), "{owners:?}");
}

#[test]
fn a_window_begins_at_its_beginning_and_ends_before_its_end() {
    let made = every_ms(10);
    let ms = Duration::from_millis;
    for (from, to, expected) in [
        (ms(0), None, 0..10),
        (ms(3), None, 3..10),
        (ms(3), Some(ms(6)), 3..6),
        (Duration::from_micros(2500), Some(Duration::from_micros(6500)), 3..7),
    ] {
        let dues = dues(&made, &planned(2, ReplayPlan { from, to, ..ReplayPlan::default() }));
        let from_ns = from.as_nanos() as u64;
        let expected: Vec<(String, u64)> =
            expected.map(|number| (format!("q{number}"), number * MS - from_ns)).collect();
        assert_eq!(dues, expected);
    }
}

#[test]
fn a_speed_divides_the_captured_times() {
    let made = every_ms(50);
    for speed in [0.5, 2.0, 3.0] {
        let dues = dues(&made, &planned(2, ReplayPlan { speed, ..ReplayPlan::default() }));
        for ((_, due_ns), number) in dues.iter().zip(0_u64..) {
            assert_eq!(*due_ns, ((number * MS) as f64 / speed) as u64);
        }
    }
}

#[test]
fn passes_follow_each_other_after_the_gap() {
    let made = every_ms(4);
    let gap = Duration::from_millis(10);
    let replay = ReplayPlan { repeat: 3, gap, speed: 2.0, ..ReplayPlan::default() };
    let dues = dues(&made, &planned(2, replay));
    // The capture lasts 3 ms, of which 1.5 ms remain.
    let expected: Vec<(String, u64)> = (0..3_u64)
        .flat_map(|pass| (0..4_u64).map(move |number| (pass, number)))
        .map(|(pass, number)| (format!("q{number}"), pass * 11_500_000 + number * MS / 2))
        .collect();
    assert_eq!(dues, expected);
}

#[test]
fn slices_are_laid_over_each_other_with_clients_of_their_own() {
    let made = every_ms(100);
    for (threads, pile) in [(1, 4), (3, 4), (2, 7)] {
        let plan = planned(threads, ReplayPlan { pile, ..ReplayPlan::default() });
        let (all, _) = played(&made, &plan);
        let of_slice_ns = (99 * MS).div_ceil(u64::from(pile));
        let mut names = BTreeSet::new();
        for of_thread in &all {
            assert!(of_thread.is_sorted_by_key(|asked| asked.due_ns), "{threads} {pile}");
            for asked in of_thread {
                let name = name(&made.dataset, asked.query);
                let number: u64 = name[1..].parse().unwrap();
                let slice = (number * MS / of_slice_ns).min(u64::from(pile) - 1);
                assert_eq!(asked.due_ns, number * MS - slice * of_slice_ns);
                let client = made.dataset.captured(asked.query).client;
                assert_eq!(asked.client, slice as u32 * 7 + client);
                assert!(names.insert(name));
            }
        }
        assert_eq!(names.len(), 100);
    }
}

#[test]
fn a_rate_keeps_the_captured_order_for_all_threads_together() {
    let made = every_ms(60);
    for (pile, threads) in [(1, 1), (1, 3), (4, 3)] {
        let rate = LoadPlan::Open { rate_qps: 500.0, arrivals: Arrivals::Even, window: None };
        let replay = ReplayPlan { pile, repeat: 2, ..ReplayPlan::default() };
        let stop = Stop { after: None, passes: Some(1) };
        let dues = dues(&made, &Plan { load: rate, stop, ..planned(threads, replay) });
        let times: Vec<u64> = dues.iter().map(|(_, due_ns)| *due_ns).collect();
        assert_eq!(times, (0..120).map(|number| number * 2 * MS).collect::<Vec<u64>>());
        if pile == 1 {
            let names: Vec<&str> = dues.iter().map(|(name, _)| &**name).collect();
            let expected: Vec<String> = (0..120).map(|number| format!("q{}", number % 60)).collect();
            assert_eq!(names, expected);
        }
    }
}

#[test]
fn random_arrivals_are_those_of_one_process_for_all_threads() {
    let made = every_ms(60);
    let rate = LoadPlan::Open { rate_qps: 500.0, arrivals: Arrivals::Poisson, window: None };
    let stop = Stop { after: None, passes: Some(1) };
    let of = |threads| {
        let plan = planned(threads, ReplayPlan::default());
        dues(&made, &Plan { load: rate, stop, ..plan })
    };
    assert_eq!(of(1), of(4));
}

#[test]
fn skipping_takes_what_is_due_of_this_thread_and_nothing_else() {
    let made = every_ms(200);
    let replay = ReplayPlan { pile: 3, repeat: 2, ..ReplayPlan::default() };
    let plan = planned(2, replay);
    for thread in 0..2 {
        let teams = teams(&plan, &made.dataset);
        let cursor = || teams[0].replay.as_ref().unwrap().cursor(&made.dataset, &teams[0].plan, thread);
        let all = &played(&made, &plan).0[thread];
        for before_ns in [0, 1, 7 * MS, 50 * MS, 70 * MS, u64::MAX] {
            let mut skipped = cursor();
            let count = skipped.skip(before_ns);
            let expected = all.iter().filter(|asked| asked.due_ns < before_ns).count();
            assert_eq!(count, expected as u64, "{before_ns}");
            assert_eq!(skipped.next(), all.get(expected).copied());
        }
    }
}

#[test]
fn a_thread_passes_many_queries_of_others_in_several_steps() {
    // Client 0 asks first and last, and client 1 all between.
    let made = made((0..5000_u64).map(|number| (number * 1000, u32::from(number % 4999 != 0), true)));
    let threads = 2;
    let plan = planned(threads, ReplayPlan::default());
    let teams = teams(&plan, &made.dataset);
    let replay = teams[0].replay.as_ref().unwrap();
    let owner = replay.flows.owner(0);
    assert_ne!(owner, replay.flows.owner(1), "the two clients have different threads");
    let mut cursor = replay.cursor(&made.dataset, &plan, owner);
    assert_eq!(cursor.next().map(|asked| asked.due_ns), Some(0));
    cursor.take();
    let (mut looks, mut bound_ns) = (0, 0);
    let last = loop {
        assert!(cursor.next_due_ns() >= bound_ns && !cursor.is_over());
        bound_ns = cursor.next_due_ns();
        match cursor.next() {
            Some(asked) => break asked,
            None => looks += 1,
        }
    };
    assert_eq!(last.due_ns, 4999 * 1000);
    assert!((2..=5).contains(&looks), "{looks}");
    cursor.take();
    assert!(cursor.is_over());
}

#[test]
fn an_hour_and_a_thousand_of_them_lose_no_nanosecond() {
    let hour_ns = 3_600_000_000_007;
    let made = made([(0, 1, true), (1_234_567_890_123, 2, true), (hour_ns, 1, true)]);
    let gap = Duration::from_nanos(3);
    let plan = planned(1, ReplayPlan { repeat: 1000, gap, ..ReplayPlan::default() });
    let (all, _) = played(&made, &plan);
    assert_eq!(all[0].len(), 3000);
    for (asked, number) in all[0].iter().zip(0_u64..) {
        let captured_ns = [0, 1_234_567_890_123, hour_ns][number as usize % 3];
        assert_eq!(asked.due_ns, (number / 3) * (hour_ns + 3) + captured_ns);
    }
}

#[test]
fn queries_without_a_lane_are_counted_and_the_others_go_by_theirs() {
    let made = made((0..40_u64).map(|number| (number * MS, number as u32 % 4, number % 4 != 0)));
    let lane = Lane::as_captured;
    let only_udp = Plan {
        wire: Wire::Captured(vec![lane(Carried::Udp, udp(Io::Auto, 1), 2)]),
        ..planned(2, ReplayPlan::default())
    };
    let (all, not_played) = played(&made, &only_udp);
    assert_eq!((all.concat().len(), not_played), (30, 10));
    let lanes = vec![lane(Carried::Udp, udp(Io::Auto, 1), 1), lane(Carried::Tcp, tcp(1), 2)];
    let both = Plan { wire: Wire::Captured(lanes), ..planned(3, ReplayPlan::default()) };
    let (all, not_played) = played(&made, &both);
    assert_eq!((all[0].len(), all[1].len() + all[2].len(), not_played), (30, 10, 0));
    for of_thread in &all[1..] {
        let connections: Vec<u64> = of_thread.iter().map(|asked| asked.connection).collect();
        assert_eq!(
            connections,
            (1..=of_thread.len() as u64).collect::<Vec<u64>>(),
            "each has one of its own"
        );
        assert!(of_thread.iter().all(|asked| asked.idle_ns == Some(0)), "{of_thread:?}");
    }
    // A URL sends all queries by one transport, by clients.
    let (all, not_played) = played(&made, &Plan { wire: tcp(1), ..planned(2, ReplayPlan::default()) });
    assert_eq!((all.concat().len(), not_played), (40, 0));
    assert!(all.concat().iter().all(|asked| asked.connection == 0));
    assert_eq!(TRANSPORTS.map(Carried::number), [0, 1, 2, 3, 4]);
}

#[test]
fn a_mix_gives_each_client_one_transport_whatever_its_queries_came_by() {
    let made = made((0..400_u64).map(|number| (number * MS, number as u32 % 20, number / 20 % 2 == 0)));
    let lane = |carried, wire, threads, share| Lane {
        share: Some(share),
        ..Lane::as_captured(carried, wire, threads)
    };
    let lanes = vec![lane(Carried::Udp, udp(Io::Auto, 1), 1, 0.6), lane(Carried::Tcp, tcp(1), 2, 0.4)];
    let replay = ReplayPlan { pile: 2, ..ReplayPlan::default() };
    let plan = Plan { wire: Wire::Captured(lanes), ..planned(3, replay) };
    let (all, not_played) = played(&made, &plan);
    assert_eq!((all.concat().len(), not_played), (400, 0));
    let clients = |played: &[ReplayQuery]| played.iter().map(|asked| asked.client).collect::<BTreeSet<u32>>();
    let (by_udp, by_tcp) = (clients(&all[0]), clients(&all[1..].concat()));
    assert_eq!((by_udp.len(), by_tcp.len()), (24, 16), "of 20 clients of each slice");
    assert!(by_udp.is_disjoint(&by_tcp));
    assert_eq!(all[0].len(), 240, "all of ten queries of each client");
    assert!(all.concat().iter().all(|asked| asked.connection == 0), "none follows the capture");
    let teams = teams(&plan, &made.dataset);
    let queries = teams[0].replay.as_ref().unwrap().queries;
    assert_eq!(queries, [240, 160, 0, 0, 0]);
    let LoadPlan::Open { rate_qps: all_qps, .. } = plan.load else { panic!("{:?}", plan.load) };
    let LoadPlan::Open { rate_qps, .. } = teams[1].plan.load else { panic!("{:?}", teams[1].plan.load) };
    assert!((rate_qps / all_qps - 0.4).abs() < 1e-9, "{rate_qps}");
}

#[test]
fn the_mean_rate_is_that_of_the_window_and_the_speed() {
    let made = every_ms(101);
    let rate = |replay: ReplayPlan| mean_rate_qps(&replay, &made.dataset, None);
    assert!((rate(ReplayPlan::default()) - 1010.0).abs() < 1e-6);
    assert!((rate(ReplayPlan { speed: 2.0, pile: 4, ..ReplayPlan::default() }) - 8080.0).abs() < 1e-6);
    let half = ReplayPlan { from: Duration::from_millis(50), ..ReplayPlan::default() };
    assert!((rate(half) - 1020.0).abs() < 1e-6);
    // Three of four came by UDP.
    let made = self::made((0..41_u64).map(|number| (number * MS, 1, number % 4 != 1)));
    let of = |carried: &[Carried]| mean_rate_qps(&ReplayPlan::default(), &made.dataset, Some(carried));
    assert!((of(&[Carried::Udp]) - 775.0).abs() < 1e-6);
    assert!((of(&[Carried::Udp, Carried::Tcp]) - 1025.0).abs() < 1e-6);
    assert!((of(&[Carried::Quic]) - 1.0).abs() < 1e-6, "none came by it");
}

#[test]
fn a_window_plays_the_clients_that_ask_in_it_alone() {
    // Ten clients, each for ten queries.
    let made = made((0..100_u64).map(|number| (number * MS, number as u32 / 10, true)));
    let ms = Duration::from_millis;
    for (from, to, pile, clients) in [(0, 99, 1, 10), (20, 40, 1, 2), (15, 45, 1, 4), (20, 60, 2, 4)] {
        let replay = ReplayPlan { from: ms(from), to: Some(ms(to)), pile, ..ReplayPlan::default() };
        let plan = Plan { local: Some("127.1.61.0/24".parse().unwrap()), ..planned(1, replay) };
        let teams = teams(&plan, &made.dataset);
        let crowd = &teams[0].replay.as_ref().unwrap().crowd;
        assert_eq!((crowd.all(), crowd.used()), (clients, clients), "{from}..{to}");
        let used = source_addresses(&plan, &made.dataset, 1000);
        assert_eq!(used.len(), clients as usize);
        let some = source_addresses(&plan, &made.dataset, 2);
        assert_eq!(some, [used[0], used[used.len() - 1]]);
        // Without addresses each client that asks has a socket.
        let plan = Plan { local: None, ..plan };
        assert_eq!(self::teams(&plan, &made.dataset)[0].sockets(), clients as usize);
        assert!(source_addresses(&plan, &made.dataset, 1000).is_empty());
    }
}

#[test]
fn addresses_are_those_of_the_blocks_and_not_the_first_ones() {
    // Five clients of one network: their block has eight addresses, and begins at a multiple of eight.
    let made = made((0..5_u64).map(|number| (number * MS, number as u32, true)));
    let local = Some("127.1.61.0/24".parse().unwrap());
    let plan = Plan { local, ..planned(1, ReplayPlan::default()) };
    let used: Vec<String> =
        source_addresses(&plan, &made.dataset, 1000).iter().map(ToString::to_string).collect();
    assert_eq!(used, (8..13).map(|last| format!("127.1.61.{last}")).collect::<Vec<String>>());
}

#[test]
fn a_query_that_is_given_up_begins_its_connection_all_the_same() {
    // Two clients, one after the other on connections of their own, at the same place.
    let made = made((0..6_u64).map(|number| (number * 10 * MS, number as u32 % 2, false)));
    let lanes = vec![Lane::as_captured(Carried::Tcp, tcp(1), 1)];
    let replay = ReplayPlan { repeat: 2, ..ReplayPlan::default() };
    let plan = Plan { wire: Wire::Captured(lanes), ..planned(1, replay) };
    let teams = teams(&plan, &made.dataset);
    let replayed = teams[0].replay.as_ref().unwrap();
    let mut cursor = replayed.cursor(&made.dataset, &teams[0].plan, 0);
    assert_eq!(cursor.next().map(|asked| asked.connection), Some(1));
    assert_eq!(cursor.skip(30 * MS), 3);
    let next = cursor.next().unwrap();
    assert_eq!((next.connection, next.client, next.flow), (4, 1, 0));
    assert_eq!(cursor.skip(50 * MS), 2);
    assert_eq!(cursor.next().map(|asked| asked.connection), Some(6));
    cursor.take();
    assert_eq!(cursor.next().unwrap().connection, 7, "the second pass has connections of its own");
}

#[test]
fn a_window_beyond_the_capture_is_refused_and_so_are_too_many_clients() {
    use crate::plan::PlanError;
    let made = every_ms(11);
    let checked = |replay| planned(1, replay).check_against(&made.dataset);
    let at = Duration::from_millis(10);
    assert_eq!(checked(ReplayPlan { to: Some(at), ..ReplayPlan::default() }), Ok(()));
    let beyond = Duration::from_micros(10_001);
    let error = Err(PlanError::WindowBeyondCapture { at: beyond, capture: at });
    assert_eq!(checked(ReplayPlan { to: Some(beyond), ..ReplayPlan::default() }), error);
    assert_eq!(checked(ReplayPlan { from: beyond, ..ReplayPlan::default() }), error);
    let plan = Plan { replay: None, ..planned(1, ReplayPlan::default()) };
    assert_eq!(plan.check_against(&made.dataset), Err(PlanError::UnplannedCapture));
}
