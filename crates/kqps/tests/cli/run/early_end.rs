//! Runs whose searches end early: a subject that answers wrongly, and a user who interrupts.

use std::process::Stdio;
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal};
use kqps_observation::run::Purpose;

use super::{ECHO_AS_SUBJECT, Lab, soon, stderr};

/// A server with nothing but the apex of the zone: it becomes ready, and most of its answers are NXDOMAIN.
const APEX_ALONE: &str = r#"
name = "hollow"
title = "The hollow"
programs = []
io = "mmsg"
[files]
"apex.zone" = """
$ORIGIN {origin}
$TTL 3600
@ IN SOA ns hostmaster 1 7200 3600 1209600 3600
@ IN NS ns
ns IN A 198.18.0.1
"""
[start]
command = ["{kqps}", "serve", "auth", "--listen", "127.0.0.1:{port}", "--zone", "{origin}={dir}/apex.zone"]
[ready]
kind = "soa"
within_s = 20
[stop]
signal = "TERM"
within_s = 5
"#;

#[test]
fn a_subject_that_answers_wrongly_costs_one_trial_a_start_and_the_reason_is_printed() {
    let lab = Lab::new(APEX_ALONE);
    let output = lab.command().output().unwrap();
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}{}", stderr(&output));
    assert!(said.contains("of the answers were NXDOMAIN instead of NOERROR"), "{said}");
    assert!(said.contains("ended early") && !said.contains("used up before"), "{said}");
    let run = lab.stored().unwrap();
    let subject = run.cells.iter().position(|cell| cell.name == "hollow").unwrap();
    let judged = run.trials_of(subject).filter(|trial| trial.purpose != Purpose::WarmUp);
    let starts: std::collections::BTreeSet<u64> = run.trials_of(subject).map(|trial| trial.start).collect();
    assert_eq!(judged.count(), starts.len(), "the overload, or the first trial, is enough");
    assert!(
        stderr(&output).contains("hollow  ") && stderr(&output).contains("answered wrongly"),
        "{}",
        stderr(&output)
    );
    let page = std::fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(page.contains("of the answers were NXDOMAIN instead of NOERROR"), "{page}");
}

#[test]
fn an_interrupted_run_says_how_far_its_search_came() {
    let lab = Lab::new(ECHO_AS_SUBJECT);
    let child = lab.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let of_search = |trials: &[kqps_observation::RunTrial]| {
        trials.iter().filter(|trial| trial.purpose == Purpose::Search).count()
    };
    soon("a trial of the search", || lab.stored().is_some_and(|run| of_search(&run.trials) >= 1));
    signal(child.id(), Signal::Interrupt).unwrap();
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(20));
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    // The run may have gone on by the time that the signal arrives, and a trial with a growing queue gives a
    // rate.
    let seen = if said.contains("  refused ") { ", seen" } else { "" };
    let bounds = said.lines().find(|line| line.starts_with(&format!("  bounds{seen} ")));
    assert!(bounds.is_some_and(|bounds| bounds.contains("interrupted")), "{said}");
    assert!(!said.contains("ran out of time"), "{said}");
    let page = std::fs::read_to_string(lab.out().join("report.html")).unwrap();
    assert!(page.contains("did not finish"), "{page}");
    assert!(page.contains(&format!("start 1{seen}: ")), "{page}");
}
