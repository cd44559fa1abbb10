//! Known answers for the accounts. The subject treats every query as its name says, so the right count of each bucket
//! is known exactly, for every I/O model and both loops.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_dataset::Format;
use kqps_observation::{Accounts, Trial};
use kqps_player::{Arrivals, Control, Io, LoadPlan, Plan, Stop, play};

use crate::offered::offered_io;
use crate::sockets::is_nothing;
use crate::support::{Queries, no_subject};

/// Longer than a busy host keeps the subject from its core.
const TIMEOUT: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answer,
    Truncate,
    Drop,
    Double,
    WrongId,
    OtherQuestion,
    CaseChanged,
    NoReply,
    OtherRcode,
    Short,
    OtherPort,
    Late,
}

/// The first label of a query's name and what becomes of it.
const FATES: [(&str, Fate); 12] = [
    ("answer", Fate::Answer),
    ("truncate", Fate::Truncate),
    ("drop", Fate::Drop),
    ("double", Fate::Double),
    ("wrongid", Fate::WrongId),
    ("question", Fate::OtherQuestion),
    ("case", Fate::CaseChanged),
    ("noreply", Fate::NoReply),
    ("rcode", Fate::OtherRcode),
    ("short", Fate::Short),
    ("port", Fate::OtherPort),
    ("late", Fate::Late),
];

/// The number of queries of each fate in a pass. All numbers differ, so that no two buckets can be confused.
fn copies(index: usize) -> u64 {
    3 + index as u64
}

fn passes_of(fate: Fate) -> u64 {
    copies(FATES.iter().position(|(_, other)| *other == fate).unwrap()) * PASSES
}

const PASSES: u64 = 5;

/// Serves until `stop` is set. Late replies leave soon after the timeout.
fn subject(socket: &UdpSocket, stop: &AtomicBool) {
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut later: Vec<(Instant, Vec<u8>, SocketAddr)> = Vec::new();
    let mut buffer = [0; 512];
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    while !stop.load(Relaxed) {
        let now = Instant::now();
        for (_, reply, from) in later.extract_if(.., |(due, ..)| *due <= now) {
            socket.send_to(&reply, from).unwrap();
        }
        let (bytes, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if is_nothing(&error) => continue,
            Err(error) => panic!("{error}"),
        };
        let mut reply = buffer[..bytes].to_vec();
        let label = String::from_utf8(reply[13..13 + usize::from(reply[12])].to_vec()).unwrap();
        let fate = FATES.iter().find(|(name, _)| *name == label).unwrap().1;
        reply[2] |= 0x80;
        match fate {
            Fate::Drop => continue,
            Fate::Late => {
                later.push((now + TIMEOUT * 11 / 10, reply, from));
                continue;
            }
            Fate::OtherPort => {
                stranger.send_to(&reply, from).unwrap();
                continue;
            }
            Fate::Double => assert_eq!(socket.send_to(&reply, from).unwrap(), reply.len()),
            Fate::Truncate => reply[2] |= 0x02,
            // The player counts IDs upwards, so half of all IDs away none is outstanding.
            Fate::WrongId => reply[0] ^= 0x80,
            Fate::OtherQuestion => reply[14] ^= 0x01,
            Fate::CaseChanged => reply[14] ^= 0x20,
            Fate::NoReply => reply[2] &= 0x7f,
            Fate::OtherRcode => reply[3] |= 2,
            Fate::Short => reply.truncate(20),
            Fate::Answer => (),
        }
        socket.send_to(&reply, from).unwrap();
    }
}

fn plan(target: SocketAddr, load: LoadPlan, io: Io) -> Plan {
    Plan {
        stop: Stop { after: None, passes: Some(PASSES) },
        timeout: TIMEOUT,
        // Late replies come long before the drain ends.
        drain: TIMEOUT * 2,
        lag_allowed: Duration::from_secs(5),
        coalesce: Duration::from_micros(25),
        threads: 2,
        ..crate::support::plan(target, 3, load, io)
    }
}

fn played(load: LoadPlan, io: Io) -> Trial {
    let mut text = String::new();
    for (index, (label, _)) in FATES.iter().enumerate() {
        for _ in 0..copies(index) {
            text += label;
            text += ".example A NOERROR\n";
        }
    }
    let queries = Queries::new(text, Format::Auto);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = plan(socket.local_addr().unwrap(), load, io);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| subject(&socket, &stop));
        let trial = play(&plan, &queries.dataset, &Control::new(plan.threads), no_subject);
        stop.store(true, Relaxed);
        trial.unwrap()
    })
}

fn check(trial: &Trial) {
    let all: u64 = (0..FATES.len()).map(copies).sum::<u64>() * PASSES;
    let wrong =
        [Fate::OtherQuestion, Fate::NoReply, Fate::OtherRcode, Fate::Short].map(passes_of).iter().sum();
    let correct = [Fate::Answer, Fate::Truncate, Fate::Double, Fate::CaseChanged].map(passes_of).iter().sum();
    let expected = Accounts {
        intended: all,
        unsent: 0,
        send_failed: 0,
        sent: all,
        correct,
        wrong,
        late: passes_of(Fate::Late),
        lost: [Fate::Drop, Fate::WrongId, Fate::OtherPort].map(passes_of).iter().sum(),
        truncated: passes_of(Fate::Truncate),
        // Every reply to these queries is cut, so their size may be the reason.
        slipped: 0,
        duplicate: passes_of(Fate::Double),
        unsolicited: passes_of(Fate::WrongId) + passes_of(Fate::OtherPort),
    };
    assert_eq!(trial.accounts, expected, "{} {:?}", trial.players.first.io, trial.load.mode);
    let causes = [
        ("question", Fate::OtherQuestion),
        ("not-a-response", Fate::NoReply),
        ("rcode", Fate::OtherRcode),
        ("short", Fate::Short),
    ];
    assert_eq!(trial.wrong_causes, causes.map(|(cause, fate)| (cause.to_string(), passes_of(fate))).into());
    let wrong_rcodes = [("expected NOERROR, got SERVFAIL".to_string(), passes_of(Fate::OtherRcode))];
    assert_eq!(trial.wrong_rcodes, wrong_rcodes.into());
    let rcodes = [("NOERROR", correct), ("SERVFAIL", passes_of(Fate::OtherRcode))];
    assert_eq!(trial.response_rcodes, rcodes.map(|(rcode, count)| (rcode.to_string(), count)).into());
    assert_eq!(trial.intervals.iter().map(|interval| interval.sent).sum::<u64>(), all);
    assert_eq!(trial.intervals.iter().map(|interval| interval.correct).sum::<u64>(), correct);
}

/// Runs every I/O model that this host offers, all at the same time, since a trial mostly waits.
fn every_io(load: LoadPlan) {
    std::thread::scope(|scope| {
        for io in offered_io() {
            scope.spawn(move || check(&played(load, io)));
        }
    });
}

#[test]
fn an_open_loop_accounts_for_every_query() {
    every_io(LoadPlan::Open { rate_qps: 2_000.0, arrivals: Arrivals::Even, window: None });
}

#[test]
fn poisson_arrivals_are_accounted_for_too() {
    check(&played(LoadPlan::Open { rate_qps: 2_000.0, arrivals: Arrivals::Poisson, window: None }, Io::Auto));
}

#[test]
fn a_closed_loop_accounts_for_every_query() {
    // A lost query keeps its place for the timeout.
    every_io(LoadPlan::Closed { outstanding: 200 });
}

/// The last window is answered when no query leaves any more. It is not part of the rate.
#[test]
fn a_closed_loop_is_as_fast_as_what_was_answered_while_it_lasted() {
    let queries = Queries::new("answer.example A\n", Format::Auto);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(server.local_addr().unwrap(), LoadPlan::Closed { outstanding: 8 }, Io::Auto);
    plan.stop = Stop { after: Some(Duration::from_millis(50)), passes: None };
    let control = Control::new(plan.threads);
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut asked: Vec<([u8; 512], usize, SocketAddr)> = Vec::new();
            while asked.len() < 8 {
                let mut query = [0; 512];
                let (length, from) = server.recv_from(&mut query).unwrap();
                asked.push((query, length, from));
            }
            std::thread::sleep(Duration::from_millis(150));
            for (mut reply, length, to) in asked {
                reply[2] |= 0x80;
                server.send_to(&reply[..length], to).unwrap();
            }
        });
        play(&plan, &queries.dataset, &control, no_subject).unwrap()
    });
    assert_eq!((trial.accounts.sent, trial.accounts.correct), (8, 8), "{:?}", trial.accounts);
    assert_eq!((trial.load.correct_in_time, trial.load.answered_qps), (Some(0), 0.0));
}

#[test]
fn a_trial_that_is_stopped_accounts_for_what_it_did() {
    let queries = Queries::new("answer.example A\n", Format::Auto);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    let mut plan = plan(silent.local_addr().unwrap(), load, Io::Auto);
    plan.stop = Stop { after: Some(Duration::from_hours(1)), passes: None };
    let control = Control::new(plan.threads);
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 512];
            // Stop once the trial is under way: at the tenth query.
            for _ in 0..10 {
                silent.recv_from(&mut buffer).unwrap();
            }
            control.stop.ask();
        });
        play(&plan, &queries.dataset, &control, no_subject).unwrap()
    });
    assert!(trial.interrupted);
    assert!(trial.accounts.intended >= 10 && trial.accounts.lost == trial.accounts.sent);
    assert!(trial.load.duration_s < 3600.0);
}
