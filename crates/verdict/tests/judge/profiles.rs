//! Where the time goes, by profiles whose shares are known.

use kqps_observation::profile::{LockFacts, ProfileFacts, StackNode, ThreadProfile, ThreadTimes};
use kqps_observation::run::{Cell, Outcome, Purpose, Role, Run, RunTrial};
use kqps_observation::{Accounts, SubjectFacts, Trial};
use kqps_verdict::judge::{CellProfile, echo_beside, judge};

fn cell(name: &str, role: Role, workers: u32) -> Cell {
    let subject = if role == Role::Subject { "nsd" } else { "echo" };
    Cell {
        name: name.into(),
        role,
        subject: subject.into(),
        io: "mmsg".into(),
        workers,
        profile: true,
        ..Cell::default()
    }
}

/// A trial with 1000 answers; its threads spent these times.
fn trial(cell: u32, sampled: bool, answered_qps: f64, profile: Option<ProfileFacts>) -> RunTrial {
    let mut trial = Trial {
        accounts: Accounts { correct: 1000, ..Accounts::default() },
        subject: Some(SubjectFacts { profile, ..SubjectFacts::default() }),
        ..Trial::default()
    };
    trial.load.answered_qps = answered_qps;
    let purpose = Purpose::Profile { sampled };
    RunTrial { number: 7, cell, block: 0, start: 1, purpose, outcome: Outcome::Measured(Box::new(trial)) }
}

fn profile(times: ThreadTimes, lock_s: f64, spin_s: f64) -> ProfileFacts {
    let node = |name: &str, kernel, parent, own_s| StackNode {
        name: name.into(),
        kernel,
        parent,
        seconds: own_s,
        own_s,
    };
    let lock = |callers: &[&str], seconds| LockFacts {
        kind: "spinlock".into(),
        place: "inet_csk_accept".into(),
        callers: callers.iter().map(ToString::to_string).collect(),
        address: None,
        waits: 10,
        seconds,
    };
    ProfileFacts {
        hz: 100_000.0,
        threads: vec![ThreadProfile { times, ..ThreadProfile::default() }],
        locks: vec![lock(&["accept4"], lock_s), lock(&["accept"], lock_s)],
        stacks: vec![
            node("main", false, None, times.user_s),
            node("udp_recvmsg", true, Some(0), times.system_s),
            node("queued_spin_lock_slowpath", true, Some(1), spin_s),
        ],
        ..ProfileFacts::default()
    }
}

fn run() -> Run {
    let one = ThreadTimes { user_s: 0.004, system_s: 0.006, io_s: 0.01, ..ThreadTimes::default() };
    let two = ThreadTimes { user_s: 0.004, system_s: 0.006, spinning_s: 0.01, ..ThreadTimes::default() };
    let echo = ThreadTimes { user_s: 0.001, system_s: 0.005, ..ThreadTimes::default() };
    Run {
        cells: vec![
            cell("echo mmsg", Role::EchoCeiling, 1),
            cell("nsd, 1 worker", Role::Subject, 1),
            cell("nsd, 2 workers", Role::Subject, 2),
        ],
        trials: vec![
            trial(0, true, 100.0, Some(profile(echo, 0.0, 0.0))),
            trial(1, false, 100.0, None),
            trial(1, true, 90.0, Some(profile(one, 0.0001, 0.0))),
            trial(1, false, 80.0, None),
            trial(2, true, 90.0, Some(profile(two, 0.005, 0.01))),
        ],
        ..Run::default()
    }
}

fn profiles(run: &Run) -> Vec<CellProfile> {
    judge(run).profiles
}

fn is(found: Option<f64>, wanted: f64) -> bool {
    found.is_some_and(|found| (found - wanted).abs() < 1e-9)
}

#[test]
fn time_is_given_per_query_beside_that_of_the_echo() {
    let profiles = profiles(&run());
    assert_eq!(profiles.len(), 2, "echoes stand beside their subjects");
    let one = &profiles[0];
    assert_eq!((one.name.as_str(), one.echo.as_deref()), ("nsd, 1 worker", Some("echo mmsg")));
    let user = &one.states[0];
    assert_eq!(user.state, "user");
    assert!(is(Some(user.us), 4.0) && is(user.echo_us, 1.0) && is(Some(user.share), 0.2));
    // The echo needs 5 µs in the kernel, of the 10 µs that the server uses in all.
    assert!(is(one.both_us, 5.0) && is(one.own_us, 5.0), "{one:?}");
    assert!(is(one.overhead, 0.0));
    assert_eq!(profiles[1].overhead, None, "no trial without samples");
}

#[test]
fn a_lock_is_named_if_much_time_is_spent_waiting_for_it() {
    let profiles = profiles(&run());
    assert!(profiles[0].locks.is_empty(), "0.2 ms of 20 ms is in every server");
    let lock = &profiles[1].locks[0];
    assert_eq!(
        (profiles[1].locks.len(), lock.lock.place.as_str(), lock.lock.waits),
        (1, "inet_csk_accept", 20)
    );
    assert!(is(Some(lock.us), 10.0) && is(Some(lock.share), 0.5), "{lock:?}");
}

#[test]
fn what_grew_with_the_workers_is_found() {
    let profiles = profiles(&run());
    assert_eq!(profiles[0].growth, None);
    let growth = profiles[1].growth.as_ref().unwrap();
    assert_eq!((growth.from_workers, growth.to_workers), (1, 2));
    let found = |grown: &[kqps_verdict::judge::Grown]| {
        let round = |us: f64| us.round() as u64;
        grown.iter().map(|one| (one.what.clone(), round(one.from_us), round(one.to_us))).collect::<Vec<_>>()
    };
    assert_eq!(found(&growth.states), [("spinning".to_owned(), 0, 10)]);
    assert_eq!(found(&growth.functions), [("queued_spin_lock_slowpath".to_owned(), 0, 10)]);
    assert_eq!(found(&growth.locks), [("spinlock in inet_csk_accept".to_owned(), 0, 10)]);
}

/// A thousand answers and 499 samples a second: 10 ms more are 5 samples, which chance may add.
#[test]
fn what_grew_by_less_than_chance_is_not_shown() {
    let mut run = run();
    for one in &mut run.trials {
        let Outcome::Measured(trial) = &mut one.outcome else { panic!() };
        if let Some(facts) = trial.subject.as_mut().and_then(|subject| subject.profile.as_mut()) {
            facts.hz = 499.0;
            facts.locks.iter_mut().for_each(|lock| lock.waits = 2);
        }
    }
    let profiles = profiles(&run);
    let growth = profiles[1].growth.as_ref().unwrap();
    assert!(growth.states.is_empty() && growth.functions.is_empty() && growth.locks.is_empty(), "{growth:?}");
}

/// A program without callers, as those without frame pointers: its locks lie at addresses.
#[test]
fn locks_without_callers_are_told_apart_by_their_address() {
    let mut run = run();
    let Outcome::Measured(trial) = &mut run.trials[4].outcome else { panic!() };
    let facts = trial.subject.as_mut().and_then(|subject| subject.profile.as_mut()).unwrap();
    for (lock, address) in facts.locks.iter_mut().zip([1, 2]) {
        (lock.callers, lock.address) = (Vec::new(), Some(address));
    }
    assert_eq!(profiles(&run)[1].locks.len(), 2);
}

#[test]
fn the_echo_beside_a_cell_has_the_nearest_workers() {
    let mut cells = vec![
        cell("echo, 1", Role::EchoCeiling, 1),
        cell("echo, 2", Role::EchoCeiling, 2),
        cell("nsd", Role::Subject, 4),
        cell("running", Role::Subject, 1),
    ];
    cells[3].io = String::new();
    assert_eq!([2, 3].map(|index| echo_beside(&cells, index, |_| true)), [Some(1), Some(0)]);
    assert_eq!(echo_beside(&cells, 2, |echo| echo == 0), Some(0));
    cells[2].io = "epoll".into();
    assert_eq!(echo_beside(&cells, 2, |_| true), None, "of other I/O");
}

#[test]
fn profiles_bear_on_no_figure_and_say_why_they_failed() {
    let mut run = run();
    assert_eq!(run.trials_of(1).count(), 0);
    run.trials[2].outcome = Outcome::Failed { reason: "it died".into(), output: Vec::new() };
    run.trials[4] = trial(2, true, 90.0, Some(ProfileFacts::default()));
    let profiles = profiles(&run);
    assert_eq!(profiles[0].failure.as_deref(), Some("it died"));
    assert!(profiles[1].failure.as_deref().unwrap().contains("no thread"));
}
