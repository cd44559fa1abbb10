//! Signals to a run: it ends early, or at once, with what it has.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal};
use kqps_observation::run::Role;

use super::{ECHO_AS_SUBJECT, Lab, check_numbers, kqps, soon, stderr};

#[test]
fn sigint_ends_it_and_says_how_to_go_on() {
    let lab = Lab::new(ECHO_AS_SUBJECT);
    let mut command = lab.command();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    soon("a trial", || lab.trials() >= 2);
    signal(child.id(), Signal::Interrupt).unwrap();
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("kqps run --resume --out"), "{}", stderr(&output));
    assert!(lab.left_behind().is_empty(), "{:?}", lab.left_behind());
    let run = lab.stored().unwrap();
    check_numbers(&run);
    assert!(run.trials.iter().filter_map(|trial| trial.measured()).all(|trial| !trial.interrupted));
    assert_eq!(run.finished_unix_ms, None);
}

/// An echo that only SIGKILL ends, so that a run would wait for it.
const STUBBORN: &str = r#"
name = "mirror"
title = "The mirror"
programs = []
io = "mmsg"
[start]
command = ["sh", "-c", "trap '' TERM; {kqps} serve echo --listen 127.0.0.1:{port}; while :; do sleep 1; done"]
[ready]
kind = "reply"
within_s = 20
[stop]
signal = "TERM"
within_s = 60
"#;

#[test]
fn a_second_signal_waits_for_nothing_and_the_verdict_is_printed() {
    let lab = Lab::new(STUBBORN);
    let mut command = lab.command();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_tried = || {
        lab.stored().is_some_and(|run| {
            run.trials.iter().any(|trial| run.cells[trial.cell as usize].role == Role::Subject)
        })
    };
    soon("a trial of the subject", is_tried);
    let asked = Instant::now();
    signal(child.id(), Signal::Terminate).unwrap();
    signal(child.id(), Signal::Interrupt).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(50), "it waited for the subject to stop");
    // Both signals may have come before the run read the first.
    assert!(matches!(output.status.code(), Some(130 | 143)), "{}", stderr(&output));
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(words.contains("mirror") && words.contains("grade"), "{words}{}", stderr(&output));
    assert!(!words.contains("time for the search was used up"), "{words}");
    assert!(stderr(&output).contains("kqps run --resume --out"), "{}", stderr(&output));
    assert!(lab.left_behind().is_empty(), "{:?}", lab.left_behind());
}

#[test]
fn a_signal_while_the_zone_is_generated_leaves_nothing_unfinished() {
    let lab = Lab::new(ECHO_AS_SUBJECT);
    let mut command = kqps();
    command.args(["run", "--budget", "4h", "--records", "50M", "--echo", "mmsg", "--out"]).arg(lab.out());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let unfinished = || {
        let inside =
            |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path());
        let found = inside(lab.out().join("dataset")).flat_map(inside);
        found.filter(|path| path.to_string_lossy().contains(".unfinished-")).collect::<Vec<_>>()
    };
    soon("a zone that is generated", || !unfinished().is_empty() || child.try_wait().unwrap().is_some());
    signal(child.id(), Signal::Terminate).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    assert_eq!(unfinished(), Vec::<PathBuf>::new());
}
