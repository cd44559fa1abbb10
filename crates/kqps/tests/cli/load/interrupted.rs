//! Signals: the first ends a load early, and the player still awaits outstanding replies. The second ends it
//! at once. Before the load has begun, the first signal ends the program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kqps_kernel::process::{Signal, signal};
use kqps_observation::Trial;

use super::bench::{Bench, kqps, words};
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
        // At 500 queries a second, some hundred and fifty are outstanding at any time.
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

/// The signals that end a load, with their exit statuses.
const ENDING: [(Signal, i32); 3] =
    [(Signal::Interrupt, 130), (Signal::Terminate, 143), (Signal::HangUp, 129)];

#[test]
fn the_status_is_that_of_the_signal() {
    let bench = Bench::new();
    for (how, status) in ENDING {
        let child = under_way(&mut bench.load(&["-Q", "1k", "-l", "1h"]));
        signal(child.id(), how).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{how:?}");
        let trial: Trial = serde_json::from_slice(&output.stdout).unwrap();
        assert!(trial.interrupted && trial.accounts.sent > 0);
    }
}

#[test]
fn a_signal_while_queries_are_read_leaves_nothing() {
    let bench = Bench::new();
    for (how, status) in ENDING {
        let mut load = kqps(&["load", &bench.echo.address, "-Q", "1k", "-l", "1h", "-d", "-"]);
        load.env("XDG_CACHE_HOME", bench.folder.path()).stdin(Stdio::piped());
        let mut child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // More than a pipe buffers, so kqps is reading it, and more is to come.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&b"name.example.test A\n".repeat(20_000)).unwrap();
        let kept = bench.folder.path().join("kqps/datasets");
        assert!(std::fs::read_dir(&kept).unwrap().count() > 0, "it is being written");
        signal(child.id(), how).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let (out, err) = words(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(status), ""), "{err}");
        assert!(err.starts_with("kqps: ended by SIG") && err.lines().count() == 1, "{err}");
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    }
}

#[test]
fn a_second_signal_does_not_wait_for_answers() {
    let bench = Bench::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    // Without the second signal it would listen for an hour.
    let mut load = bench.load_of(&target, &["-Q", "1k", "-l", "1h", "-t", "1h", "-S", "100ms", "--json"]);
    let mut child = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines_of_progress = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines_of_progress.any(|line| !line.contains("sent 0.0k q/s")));
    signal(child.id(), Signal::Interrupt).unwrap();
    // It has handled the first signal once it sends no more.
    assert!(lines_of_progress.any(|line| line.contains("sent 0.0k q/s")));
    signal(child.id(), Signal::Interrupt).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, _) = words(&output);
    assert_eq!(output.status.code(), Some(130));
    // All that was measured is still reported.
    let trial: Trial = serde_json::from_str(&out).unwrap();
    trial.accounts.check().unwrap();
    assert!(trial.interrupted && trial.accounts.sent > 0);
    assert_eq!(trial.accounts.lost, trial.accounts.sent);
    let note = format!("{} of the lost queries were given up before their timeout", trial.accounts.lost);
    assert!(
        trial.players.first.notes.iter().any(|one| one.starts_with(&note)),
        "{:?}",
        trial.players.first.notes
    );
}
