//! Another program floods the player's socket faster than the player can read it. The trial goes on, and ends
//! on time. This test is alone in its process, because its floods leave other tests little of the cores.

mod offered;
mod support;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_dataset::Format;
use kqps_kernel::batch::{SEGMENTS, SendBatch};
use kqps_kernel::{UdpOptions, UdpSocket as Sender};
use kqps_observation::Trial;
use kqps_player::{Arrivals, Control, Io, LoadPlan, Plan, Stop, play};
use offered::offered_io;
use support::{Queries, no_subject, plan};

const TIMEOUT: Duration = Duration::from_millis(100);

/// Floods the first sender to this socket until `is_over` is set.
fn flood(subject: &UdpSocket, is_over: &AtomicBool) {
    let (_, player) = subject.recv_from(&mut [0; 512]).unwrap();
    let sender = Sender::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()).unwrap();
    let mut batch = SendBatch::new(16, 16 * SEGMENTS * 40);
    for _ in 0..16 {
        batch.add(&player.into(), SEGMENTS * 40, Some(40)).fill(0);
    }
    let began = Instant::now();
    while !is_over.load(Relaxed) {
        assert!(began.elapsed() < Duration::from_mins(1), "the trial does not end");
        // At the end the player is gone, and the kernel returns errors for what was sent to it.
        let _ = batch.send(&sender, 0);
    }
}

fn flooded(load: LoadPlan, io: Io) -> Trial {
    let queries = Queries::new("a.test A\n", Format::Auto);
    let subject = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = Plan {
        stop: Stop { after: Some(TIMEOUT), passes: None },
        timeout: TIMEOUT,
        drain: TIMEOUT,
        ..plan(subject.local_addr().unwrap(), 1, load, io)
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&subject, &is_over));
        scope.spawn(|| flood(&subject, &is_over));
        let trial = play(&plan, &queries.dataset, &Control::new(1), no_subject);
        is_over.store(true, Relaxed);
        trial.unwrap()
    })
}

/// The flood ends after the trial. If a look at a socket had no end, the trial would not end either.
#[test]
fn a_trial_ends_though_its_socket_is_never_empty() {
    let open = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    for io in offered_io() {
        for load in [open, LoadPlan::Closed { outstanding: 10 }] {
            let trial = flooded(load, io);
            let accounts = trial.accounts;
            assert!(accounts.sent > 0 && accounts.lost == accounts.sent, "{} {accounts:?}", io.word());
            assert!(accounts.unsolicited > 0, "{} {accounts:?}", io.word());
            println!("{} {:?}: {accounts:?}, {} s of drain", io.word(), trial.load.mode, trial.load.drain_s);
        }
    }
}
