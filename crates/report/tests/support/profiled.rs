//! A run of one server with one worker and with two, both profiled, beside the echo.

use kqps_observation::profile::{LockFacts, ProfileFacts, StackNode, ThreadProfile, ThreadTimes};
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::{Accounts, Cell, Run, RunTrial, SubjectFacts, Trial};

fn cell(name: &str, role: Role, workers: u32) -> Cell {
    Cell {
        name: name.into(),
        role,
        subject: if role == Role::Subject { "nsd" } else { "echo" }.into(),
        io: "mmsg".into(),
        workers,
        load: CellLoad::Closed(1.0),
        profile: true,
        ..Cell::default()
    }
}

/// With two workers, a lock takes as much time as all else.
fn profile(times: ThreadTimes) -> ProfileFacts {
    let node = |name: &str, kernel, parent, own_s| StackNode {
        name: name.into(),
        kernel,
        parent,
        seconds: own_s,
        own_s,
    };
    let thread =
        |tid, name: &str| ThreadProfile { tid, name: name.into(), times, ..ThreadProfile::default() };
    ProfileFacts {
        hz: 100_000.0,
        threads: vec![thread(7, "worker"), thread(8, "worker")],
        locks: vec![LockFacts {
            kind: "spinlock".into(),
            place: "udp_queue_rcv_skb".into(),
            callers: vec!["udp_recvmsg".into(), "recvmmsg".into()],
            address: None,
            waits: 10,
            seconds: times.spinning_s,
        }],
        stacks: vec![
            node("main", false, None, times.user_s),
            node("udp_recvmsg", true, Some(0), times.system_s),
            node("queued_spin_lock_slowpath", true, Some(1), times.spinning_s),
        ],
        ..ProfileFacts::default()
    }
}

pub(crate) fn run() -> Run {
    let alone = ThreadTimes { user_s: 0.4, system_s: 0.6, ..ThreadTimes::default() };
    let both = ThreadTimes { spinning_s: 1.0, ..alone };
    let mut run = Run {
        study: "default".into(),
        blocks: 1,
        cells: vec![
            cell("echo mmsg", Role::EchoCeiling, 1),
            cell("nsd, 1 worker", Role::Subject, 1),
            cell("nsd, 2 workers", Role::Subject, 2),
        ],
        ..Run::default()
    };
    let mut push = |cell: u32, purpose, profile| {
        let mut trial = Trial {
            accounts: Accounts { intended: 100_000, sent: 100_000, correct: 100_000, ..Accounts::default() },
            subject: Some(SubjectFacts { profile, ..SubjectFacts::default() }),
            ..Trial::default()
        };
        (trial.load.answered_qps, trial.load.duration_s) = (100_000.0, 1.0);
        let number = run.trials.len() as u64 + 1;
        let outcome = Outcome::Measured(Box::new(trial));
        run.trials.push(RunTrial { number, cell, block: 0, start: u64::from(cell), purpose, outcome });
    };
    push(0, Purpose::Ceiling, None);
    for (cell, times) in [(0, alone), (1, alone), (2, both)] {
        push(cell, Purpose::Closed, None);
        push(cell, Purpose::Profile { sampled: false }, None);
        push(cell, Purpose::Profile { sampled: true }, Some(profile(times)));
    }
    run
}
