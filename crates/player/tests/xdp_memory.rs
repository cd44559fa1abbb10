//! The loop past the kernel without a kernel: a thread of the test is the device. Its accounts are exact here too.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_kernel::xdp::memory::{MemoryDevice, pair};
use kqps_observation::Trial;
use kqps_player::{Arrivals, Control, Io, LoadPlan, Plan, Stop, play_in_memory};
use kqps_stack::{parse, turn_round, udp};

use crate::support::{Queries, no_subject, plan};

const QUERIES: u64 = 5_000;

/// Answers queries whose first label ends in another digit than 7, until `stop` is set. Checks that their frames are
/// whole. Returns how many there were.
fn answer(mut device: MemoryDevice, stop: &AtomicBool) -> usize {
    let mut all = 0;
    while !stop.load(Relaxed) {
        let taken = device.turn(64, |query, room| {
            let parsed = parse(query).expect("a whole frame");
            assert!(parsed.verify(), "a wrong checksum");
            let payload = parsed.payload_range();
            let label_end = payload.start + 13 + usize::from(query[payload.start + 12]);
            if query[label_end - 1] == b'7' {
                return None;
            }
            room[..query.len()].copy_from_slice(query);
            assert!(turn_round(&mut room[..query.len()]));
            room[payload.start + 2] |= 0x80;
            udp::destination(&room[..query.len()]).map(|_| query.len())
        });
        all += taken;
        if taken == 0 {
            std::thread::yield_now();
        }
    }
    all
}

/// Returns the trial, and how many queries came by each queue.
fn played(load: LoadPlan, threads: usize, queues: usize) -> (Trial, Vec<usize>) {
    let text = (0..QUERIES).fold(String::new(), |text, number| text + &format!("q{number}.test A\n"));
    let queries = Queries::new(text, Format::Text);
    // Longer than other programs keep a thread of the test from a core.
    let timeout = Duration::from_secs(1);
    let stop = Stop { after: None, passes: Some(2) };
    let plan = plan("198.18.0.2:53".parse().unwrap(), 5, load, Io::Xdp);
    let plan = Plan { threads, stop, timeout, drain: timeout, ..plan };
    let (sockets, devices): (Vec<_>, Vec<_>) = (0..queues).map(|_| pair(1 << 10).unwrap()).unzip();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut answering = Vec::new();
        for device in devices {
            answering.push(scope.spawn(|| answer(device, &is_over)));
        }
        let control = Control::new(threads);
        let trial = play_in_memory(&plan, &queries.dataset, &control, sockets, no_subject);
        is_over.store(true, Relaxed);
        let taken = answering.into_iter().map(|queue| queue.join().unwrap()).collect();
        (trial.unwrap(), taken)
    })
}

#[test]
fn every_query_is_accounted_for() {
    let open = LoadPlan::Open { rate_qps: 20_000.0, arrivals: Arrivals::Even, window: None };
    let closed = LoadPlan::Closed { outstanding: 500 };
    for (load, threads, queues) in [(open, 1, 1), (closed, 1, 1), (open, 2, 2), (open, 1, 2)] {
        let (trial, taken) = played(load, threads, queues);
        // Flows take turns at the queues of their thread.
        assert_eq!(taken.iter().sum::<usize>() as u64, trial.accounts.sent);
        assert!(taken.iter().all(|taken| *taken > 0), "{taken:?}");
        let accounts = trial.accounts;
        assert_eq!(accounts.intended, 2 * QUERIES, "{accounts:?}");
        assert_eq!((accounts.unsent, accounts.send_failed, accounts.wrong), (0, 0, 0), "{accounts:?}");
        assert_eq!(
            (accounts.lost, accounts.correct),
            (2 * QUERIES / 10, 2 * QUERIES / 10 * 9),
            "{accounts:?}"
        );
        assert_eq!((accounts.duplicate, accounts.unsolicited), (0, 0), "{accounts:?}");
        assert_eq!(trial.players.first.io, "xdp");
    }
}
