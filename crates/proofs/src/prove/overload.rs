//! Overload: an authoritative server with twice the queries that it can answer still answers nearly as many
//! as it can, and recovers as soon as the flood is over.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, ensure};
use kqps_observation::Trial;

use super::{Bench, Size};

/// The flood, as a share of the peak.
const TWICE: f64 = 2.0;
/// The least that the player must have sent, as a share of the peak. Less would be no flood.
const OFFERED_LEAST: f64 = 1.8;
/// The least goodput during the flood, as a share of the peak.
const GOODPUT_LEAST: f64 = 0.9;
/// A load that is easy to carry, as a share of the peak.
const HALF: f64 = 0.5;
/// Seconds after which the server must have recovered.
const BACK_WITHIN_S: usize = 1;
/// The least share of a second's queries that it must answer then.
const ANSWERED_LEAST: f64 = 0.999;

/// Few flows with long bursts, so that one core of the player can send the flood.
const FLOOD: &[&str] = &["-c", "8", "-T", "1", "--io", "gso", "--burst", "64", "-t", "100ms"];
const PEAK: &[&str] = &["-c", "8", "-q", "500", "-T", "1"];

/// Finds the peak before and after the flood, so that a change of the host's speed meanwhile does not decide.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (zone, queries) = bench.zone(10_000)?;
    let (_auth, address) = bench.kqps.auth(&zone, "mmsg")?;
    let play = |flags: &[&str], more: &[&str]| play(bench, address, &queries, &[flags, more].concat());

    let length = bench.choose("1s", "5s");
    let before_qps = play(PEAK, &["-l", length])?.load.answered_qps;
    let flood = play(FLOOD, &["-Q", &rate(before_qps * TWICE), "-l", bench.choose("2s", "60s")])?;
    let calm = play(FLOOD, &["-Q", &rate(before_qps * HALF), "-l", "4s"])?;
    let after_qps = play(PEAK, &["-l", length])?.load.answered_qps;

    let peak_qps = f64::midpoint(before_qps, after_qps);
    let (offered, goodput) = (flood.load.offered_qps / peak_qps, flood.load.answered_qps / peak_qps);
    eprintln!(
        "peak {before_qps:.0} and {after_qps:.0} q/s; offered {offered:.2} of it for {:.0} s, goodput {goodput:.3} of it",
        flood.load.duration_s
    );
    if bench.size == Size::Small {
        // The part of a second that a busy host leaves to the server is no fact about the server.
        ensure!(flood.accounts.correct > 0 && calm.accounts.correct > 0, "it no longer answers");
        return Ok(());
    }
    ensure!(offered >= OFFERED_LEAST, "the player sent only {offered:.2} of the peak, which is no flood");
    ensure!(goodput >= GOODPUT_LEAST, "goodput fell to {goodput:.3} of the peak");
    for second in calm.intervals.iter().skip(BACK_WITHIN_S).filter(|second| second.sent > 0) {
        let answered = second.correct as f64 / second.sent as f64;
        ensure!(
            answered >= ANSWERED_LEAST,
            "in second {} after the flood only {answered:.4} were answered",
            second.at_s
        );
    }
    Ok(())
}

fn play(bench: &Bench, target: SocketAddr, queries: &Path, flags: &[&str]) -> Result<Trial> {
    let trial = bench.kqps.trial(target, queries, flags)?;
    trial.accounts.check()?;
    ensure!(trial.accounts.wrong == 0, "wrong answers: {:?}", trial.wrong_rcodes);
    Ok(trial)
}

fn rate(qps: f64) -> String {
    format!("{qps:.0}")
}
