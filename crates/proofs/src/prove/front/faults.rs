//! A back end among several begins to misbehave under load, in every way and by every transport.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;
use fastrand::Rng;

use super::super::{Bench, Size, side_by_side};
use super::counts::BackEndCounts;
use super::servers::{Front, back_ends, failures, half_of_capacity, urls};
use crate::program::finish;
use kqps_faults::back_end::{BackEnd, Fault, Transport};

/// Names, each of which a trial asks for once at most. If a wrong ID happens to be that of another query, the
/// question then shows the fault.
const SMALL_NAMES: u32 = 10_000;
const WHOLE_NAMES: u32 = 1_000_000;

/// The load in the small form, where several trials share a busy host.
const SMALL_QPS: f64 = 2000.0;

/// Trials of each fault by each transport in the whole form.
const REPETITIONS: u64 = 20;

/// Trials that the small form makes at the same time, since each mostly waits. There each fault has one
/// transport.
const AT_A_TIME: usize = 4;

const POLICIES: [&str; 4] = ["random", "round-robin", "least-outstanding", "hash"];

#[derive(Clone, Copy)]
struct Case {
    fault: Fault,
    transport: Transport,
    load_qps: f64,
    seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {:?}, seed {}", self.fault, self.transport, self.seed)
    }
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let queries = bench.queries_with_answers(bench.choose(SMALL_NAMES, WHOLE_NAMES))?;
    let mut loads = Vec::new();
    for transport in [Transport::Tcp, Transport::Unix, Transport::Udp] {
        loads.push((transport, load_qps(bench, transport, &queries)?));
    }
    let mut cases = Vec::new();
    for repetition in 0..bench.choose(1, REPETITIONS) {
        for &fault in Fault::value_variants() {
            let seed = bench.seed + repetition;
            let mut fitting = loads.clone();
            fitting.retain(|&(by, _)| by != Transport::Udp || fault.is_for_datagrams());
            if bench.size == Size::Small {
                fitting = vec![fitting[(fault as usize + seed as usize) % fitting.len()]];
            }
            let case = |(transport, load_qps)| Case { fault, transport, load_qps, seed };
            cases.extend(fitting.into_iter().map(case));
        }
    }
    let play = |case: &Case| trial(bench, *case, &queries).with_context(|| case.to_string());
    side_by_side(&cases, bench.choose(AT_A_TIME, 1), play).map(drop)
}

/// The load before back ends of this transport, queries a second: half of the capacity in the whole form.
fn load_qps(bench: &Bench, transport: Transport, queries: &Path) -> Result<f64> {
    if bench.size == Size::Small {
        return Ok(SMALL_QPS);
    }
    let back_ends = back_ends(bench, transport, &format!("capacity-{transport:?}"), 2)?;
    half_of_capacity(bench, &urls(&back_ends), queries)
}

/// Plays at a front with two to four back ends. One of them misbehaves from somewhere in the middle on, and
/// in some trials recovers before the end.
fn trial(bench: &Bench, case: Case, queries: &Path) -> Result<()> {
    let Case { fault, transport, load_qps, seed } = case;
    let mut rng = Rng::with_seed(seed << 8 | fault as u64);
    let name = format!("{fault:?}-{transport:?}-{seed}");
    let back_ends = back_ends(bench, transport, &name, rng.usize(2..=4))?;
    let policy = POLICIES[rng.usize(..POLICIES.len())];
    let front = Front::start(bench, &name, &urls(&back_ends), &["--policy", policy, "--timeout", "1s"])?;
    front.is_ready(back_ends.len())?;

    let trial_s = bench.choose(1.5, 3.0);
    let (rate, duration) = (format!("{load_qps:.0}"), format!("{trial_s}s"));
    // Longer than the front lets any client wait.
    let flags = ["-T", "1", "-c", "8", "-Q", &rate, "-l", &duration, "-t", "1500ms", "--check", "answers"];
    let player = bench.kqps.start_load(front.address, queries, &flags)?;
    let part = |share: f64| Duration::from_secs_f64(trial_s * share);
    std::thread::sleep(part(0.3 + 0.2 * rng.f64()));
    let victim = rng.usize(..back_ends.len());
    back_ends[victim].set(fault);
    std::thread::sleep(part(0.2 + 0.1 * rng.f64()));
    if rng.bool() {
        back_ends[victim].set(Fault::None);
    }

    let played = finish(player)?.measured()?;
    let counts = front.stop()?;
    let failed = failures(&played)?;
    let sent = played.accounts.sent;
    ensure!(sent > 0 && counts.received <= sent, "{} of {sent} queries came to the front", counts.received);
    let servfail = counts.replies("SERVFAIL");
    ensure!(failed >= servfail, "{servfail} queries were refused, and the player knows of {failed}");
    for (number, back_end) in back_ends.iter().enumerate() {
        let at = counts.back_ends.get(&format!("b{number}")).context("every back end is reported")?;
        agrees(back_end, at).with_context(|| format!("back end {number}, {at:?}"))?;
    }
    let at = &counts.back_ends[&format!("b{victim}")];
    noticed(fault, back_ends[victim].truth().spoiled, at)?;
    eprintln!(
        "{case}, {policy}: {sent} sent, {failed} failed; unsolicited {}, mismatched {}, garbled {}, cut off {}, downs {}",
        at.unsolicited, at.mismatched, at.garbled, at.cut_off, at.downs
    );
    Ok(())
}

/// Checks a front's counts of a back end against the back end's own.
fn agrees(back_end: &BackEnd, at: &BackEndCounts) -> Result<()> {
    let truth = back_end.truth();
    ensure!(truth.received <= at.sent, "it received more than was sent: {truth:?}");
    ensure!(at.answered <= truth.right, "it gave fewer right answers than were taken for such: {truth:?}");
    Ok(())
}

/// Checks that wrong replies appear in the right counts.
fn noticed(fault: Fault, spoiled: u64, at: &BackEndCounts) -> Result<()> {
    let mark = match fault {
        // All its replies are correct, or there are none.
        Fault::None | Fault::Slow | Fault::Closing | Fault::Refusing | Fault::HalfOpen => return Ok(()),
        Fault::WrongIds => at.unsolicited + at.mismatched,
        Fault::WrongQuestions => at.mismatched,
        Fault::MidFrame => at.connections.saturating_sub(1),
        // The front takes such bytes for a length, and waits for a message that never comes.
        Fault::Garbage | Fault::Truncated => {
            at.mismatched + at.unsolicited + at.garbled + at.cut_off + at.timed_out + at.unsettled
        }
    };
    ensure!(spoiled == 0 || mark > 0, "{spoiled} wrong replies left no mark: {at:?}");
    Ok(())
}
