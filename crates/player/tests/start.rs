//! A trial that is given a time to begin: no query leaves before it, the record says how late the trial began, and an
//! interrupt ends the wait.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_dataset::Format;
use kqps_host::{PlayerWatched, Watch};
use kqps_kernel::clock;
use kqps_observation::Trial;
use kqps_player::{Control, Io, LoadPlan, Plan, play};

use crate::support::{Queries, no_subject};

const MS: u64 = 1_000_000;

/// How often a trial is played whose times a busy host may change.
const TRIES: usize = 5;

/// Plays one query at a subject that answers it, and returns the record and when the query came.
fn played(start_at_ns: Option<u64>) -> (Trial, u64) {
    watched(start_at_ns, no_subject)
}

/// Plays as [`played`] does, with this watch.
fn watched(start_at_ns: Option<u64>, watch: impl Fn(&PlayerWatched) -> Watch) -> (Trial, u64) {
    let queries = Queries::new("a.example.test A\n", Format::Text);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let target = socket.local_addr().unwrap();
    let plan = Plan {
        start_at_ns,
        ..crate::support::plan(target, 1, LoadPlan::Closed { outstanding: 1 }, Io::Plain)
    };
    std::thread::scope(|scope| {
        let subject = scope.spawn(|| {
            let mut buffer = [0; 512];
            let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
            let came_ns = clock::now_ns();
            buffer[2] |= 0x80;
            socket.send_to(&buffer[..bytes], from).unwrap();
            came_ns
        });
        let trial = play(&plan, &queries.dataset, &Control::new(1), watch).unwrap();
        (trial, subject.join().unwrap())
    })
}

#[test]
fn no_query_leaves_before_the_given_start() {
    let at_ns = clock::now_ns() + 300 * MS;
    let (trial, came_ns) = played(Some(at_ns));
    let late_ns = trial.late_start_ns.expect("it was given a start");
    assert_eq!(trial.started_monotonic_ns, at_ns + late_ns);
    assert!(came_ns >= at_ns, "{} ns early", at_ns - came_ns);
    assert_eq!(trial.accounts.correct, 1);
}

#[test]
fn a_reading_that_takes_long_makes_no_start_late() {
    let slow = |player: &PlayerWatched| {
        std::thread::sleep(Duration::from_millis(100));
        no_subject(player)
    };
    // A host that takes the core at the start makes it late. It does not do so each time.
    let mut late_ns = Vec::new();
    while late_ns.last().is_none_or(|late_ns| *late_ns >= 50 * MS) {
        assert!(late_ns.len() < TRIES, "{late_ns:?}");
        late_ns.push(watched(Some(clock::now_ns() + 900 * MS), slow).0.late_start_ns.unwrap());
    }
}

#[test]
fn the_wait_for_a_start_is_no_time_of_the_trial() {
    // A reading that a busy host holds up counts as a long one, and the next one begins earlier by that.
    let mut before_ns = Vec::new();
    while before_ns.last().is_none_or(|before_ns| *before_ns >= 15 * MS) {
        assert!(before_ns.len() < TRIES, "the reading was over so many ns before the start: {before_ns:?}");
        let read_ns = AtomicU64::new(0);
        let noted = |player: &PlayerWatched| {
            let watch = no_subject(player);
            read_ns.store(clock::now_ns(), Relaxed);
            watch
        };
        let at_ns = clock::now_ns() + 500 * MS;
        watched(Some(at_ns), noted);
        before_ns.push(at_ns.saturating_sub(read_ns.load(Relaxed)));
    }
}

#[test]
fn a_start_that_is_over_is_late_by_all_of_it() {
    let at_ns = clock::now_ns() - 500 * MS;
    let (trial, _) = played(Some(at_ns));
    assert!(trial.late_start_ns.unwrap() >= 500 * MS, "{:?}", trial.late_start_ns);
    assert_eq!(trial.started_monotonic_ns, at_ns + trial.late_start_ns.unwrap());
    assert_eq!(played(None).0.late_start_ns, None);
}

#[test]
fn an_interrupt_ends_the_wait() {
    let queries = Queries::new("a.example.test A\n", Format::Text);
    let target = "127.0.0.1:9".parse().unwrap();
    let in_an_hour = Some(clock::now_ns() + 3_600_000 * MS);
    let plan = Plan {
        start_at_ns: in_an_hour,
        ..crate::support::plan(target, 1, LoadPlan::Closed { outstanding: 1 }, Io::Plain)
    };
    let control = Control::new(1);
    let (stop, began) = (control.stop.clone(), Instant::now());
    let trial = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            stop.ask();
        });
        play(&plan, &queries.dataset, &control, no_subject).unwrap()
    });
    assert!(trial.interrupted && began.elapsed() < Duration::from_mins(1));
    assert_eq!(trial.accounts.sent, 0);
}
