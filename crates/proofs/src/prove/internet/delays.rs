//! Delays: an answer leaves as long after its query as its server says, while many others are under way, as the player
//! measures it. No answer is early, and every query is counted by the server as the player counts it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::{Histogram, Trial};
use serde::Deserialize;

use super::super::patience::{ATTEMPTS, until_proved};
use super::super::{Bench, Size};
use crate::child::Running;

const DELAYS_MS: [u64; 3] = [1, 20, 200];

/// The largest error of the median, and of the 99th percentile, µs.
const P50_WITHIN_US: u64 = 100;
const P99_WITHIN_US: u64 = 1_000;

/// The largest error of the median in the small form, which other programs may disturb, µs.
const SMALL_WITHIN_US: u64 = 5_000;

/// The address of the server, one of loopback.
const SERVER: [u8; 4] = [127, 53, 53, 53];

/// How long the server may take to print its counts after a signal.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The counts that the server prints at its end.
#[derive(Deserialize)]
struct Report {
    received: u64,
    answered: u64,
    internet: Counted,
}

#[derive(Deserialize)]
struct Counted {
    /// By level and kind.
    udp: BTreeMap<String, BTreeMap<String, u64>>,
    delayed: u64,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let files = bench.zone(bench.choose(1_000, 100_000))?;
    match bench.size {
        Size::Small => until_proved(ATTEMPTS, |_| medians(bench, &files)),
        Size::Whole => DELAYS_MS.into_iter().try_for_each(|delay_ms| quantiles(bench, &files, delay_ms)),
    }
}

/// Compares the median of each delay with that of a server without a delay.
fn medians(bench: &Bench, files: &Files) -> Result<Result<(), String>> {
    let path_us = played(bench, files, 0)?.0;
    for delay_ms in DELAYS_MS {
        let p50_us = played(bench, files, delay_ms)?.0;
        let error_us = p50_us.abs_diff(delay_ms * 1000 + path_us);
        let seen = format!("{delay_ms} ms: p50 {p50_us} µs, beside {path_us} µs without a delay");
        if error_us > SMALL_WITHIN_US {
            return Ok(Err(seen));
        }
        eprintln!("{seen}");
    }
    Ok(Ok(()))
}

/// Compares the quantiles of a delay with those of a server without a delay before and after it, since a host's own latency
/// drifts.
fn quantiles(bench: &Bench, files: &Files, delay_ms: u64) -> Result<()> {
    let before_us = played(bench, files, 0)?.0;
    let (p50_us, p99_us) = played(bench, files, delay_ms)?;
    let p99_us = p99_us.context("there is a p99")?;
    let after_us = played(bench, files, 0)?.0;
    let due_us = delay_ms * 1000 + before_us.midpoint(after_us);
    let (p50_error_us, p99_error_us) = (p50_us.abs_diff(due_us), p99_us.saturating_sub(due_us));
    eprintln!(
        "{delay_ms} ms: p50 {p50_us} µs and p99 {p99_us} µs, beside {before_us} and {after_us} µs without a delay: \
         errors of {p50_error_us} and {p99_error_us} µs"
    );
    ensure!(p50_error_us <= P50_WITHIN_US, "{delay_ms} ms: p50 is wrong by {p50_error_us} µs");
    ensure!(p99_error_us <= P99_WITHIN_US, "{delay_ms} ms: p99 is wrong by {p99_error_us} µs");
    Ok(())
}

/// A zone, and queries for its names.
type Files = (PathBuf, PathBuf);

/// The median and the 99th percentile of a trial at a server with this delay.
fn played(bench: &Bench, (zone, queries): &Files, delay_ms: u64) -> Result<(u64, Option<u64>)> {
    let mut command = bench.kqps.serve("internet");
    let server = SERVER.map(|byte| byte.to_string()).join(".");
    command.args(["--loopback", "0", "--delay", &format!("{delay_ms}ms"), "--for", "1h"]);
    command.args(["--cpus", &bench.kqps.subject_cpu.to_string(), "--buffer", "64MiB"]);
    command.args(["--server", &format!("{server}={}", zone.display())]);
    let (mut running, listening) = Running::server(&mut command)?;
    let target = SocketAddr::from((SERVER, listening.port()));
    // The small form has few queries, since a busy host must send all of them.
    let (rate, duration) = bench.choose(("2k", "500ms"), ("50k", "5s"));
    let flags = ["-T", "1", "-Q", rate, "-l", duration, "-t", "10s", "--lag", "10s"];
    let trial = bench.kqps.trial(target, queries, &flags)?;
    running.signal(Signal::Terminate)?;
    let report: Report = running.json_line()?;
    running.wait(END_WITHIN)?;
    agree(&trial, &report, delay_ms)
}

/// Compares the counts of both sides. Returns the trial's quantiles.
fn agree(trial: &Trial, report: &Report, delay_ms: u64) -> Result<(u64, Option<u64>)> {
    let latency = &trial.latency_us;
    let p50 = latency.p50.context("there is a p50")?;
    let internet = &report.internet;
    let counted: u64 = internet.udp.values().flat_map(|kinds| kinds.values()).sum();
    let (sent, correct) = (trial.accounts.sent, trial.accounts.correct);
    ensure!(
        [report.received, report.answered, counted, correct] == [sent; 4],
        "the player sent {sent} queries, and {correct} came back rightly; the server received {}, answered {} and counted \
         {counted}",
        report.received,
        report.answered
    );
    let delayed = if delay_ms == 0 { 0 } else { sent };
    ensure!(internet.delayed == delayed, "{} answers were delayed instead of {delayed}", internet.delayed);
    let least_us = latency.min.context("there is a least latency")?;
    // A time in the bucket of the delay may be the delay itself.
    let is_due = least_us >= delay_ms * 1000 || Histogram::default().are_same(least_us, delay_ms * 1000);
    ensure!(is_due, "an answer came after {least_us} µs, earlier than its delay");
    Ok((p50, latency.p99))
}
