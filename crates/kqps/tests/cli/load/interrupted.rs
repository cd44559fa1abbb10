//! Signals: the first ends a load early, and what is under way is still heard; the second ends it at once.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kqps_kernel::process::{Signal, signal};

use super::bench::{Bench, words};
use super::trouble::{Stopper, answer_later, trial_of, under_way};

#[test]
fn a_signal_ends_it_early_and_it_says_so() {
    let bench = Bench::new();
    let child = under_way(&mut bench.load(&["-Q", "1k", "-l", "1h"]));
    signal(child.id(), Signal::Interrupt).unwrap();
    let trial = trial_of(child);
    assert!(trial.interrupted);
    assert!(trial.accounts.sent > 0 && trial.load.duration_s < 3600.0);
}

#[test]
fn what_is_under_way_at_a_signal_is_still_heard() {
    let bench = Bench::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap().to_string();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // At 500 a second some hundred and fifty queries wait for their answer at any time.
        scope.spawn(|| answer_later(&socket, Duration::from_millis(300), &stop));
        let _stopper = Stopper(&stop);
        let child = under_way(&mut bench.load_of(&target, &["-Q", "500", "-l", "1h", "-t", "5s"]));
        signal(child.id(), Signal::Interrupt).unwrap();
        let trial = trial_of(child);
        trial.accounts.check().unwrap();
        assert!(trial.interrupted);
        let accounts = trial.accounts;
        assert!(accounts.sent > 0 && accounts.correct == accounts.sent, "{accounts:?}");
        assert!(trial.load.drain_s > 0.0, "{:?}", trial.load);
    });
}

#[test]
fn a_second_signal_does_not_wait_for_answers() {
    let bench = Bench::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    // Without the second signal it would listen for an hour.
    let mut load = bench.load_of(&target, &["-Q", "1k", "-l", "1h", "-t", "1h", "-S", "100ms", "--json"]);
    let mut child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.any(|line| !line.contains("sent 0.0 kqps")));
    signal(child.id(), Signal::Interrupt).unwrap();
    // It has taken the first one when it sends no more.
    assert!(told.any(|line| line.contains("sent 0.0 kqps")));
    signal(child.id(), Signal::Interrupt).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, _) = words(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
}
