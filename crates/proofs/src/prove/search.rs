//! A run of `kqps find` at a target, with its figure in units that do not depend on the host's speed, and one of
//! `kqps compare`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kqps_observation::Trial;
use kqps_verdict::bottleneck::Bottleneck;
use kqps_verdict::compare::Comparison;
use kqps_verdict::grade::Grade;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::SearchVerdict;
use kqps_verdict::speed::{Spoiled, usual_of};

use super::Bench;
use crate::child::{Running, pinned};

/// The longest time of a search.
const END_WITHIN: Duration = Duration::from_mins(10);

pub(super) struct SearchOutcome {
    /// Its figure in the gauge's units, queries for a turn, or in queries a second if nothing was gauged, or why there is none.
    figure: Result<Interval, String>,
    pub(super) spoiled: Spoiled,
    /// Whether the host set its wall clock during a trial.
    pub(super) clock_was_set: bool,
    pub(super) bottleneck: Bottleneck,
    pub(super) grade: Grade,
    /// The share of the echo, if its ceiling was measured.
    pub(super) share: Option<Interval>,
}

impl SearchOutcome {
    /// Reads the output of `kqps find --json`: the trials, and the verdict as the last line.
    fn parse(output: &str) -> Result<Self> {
        let (trials, verdict) = output.trim().rsplit_once('\n').context("kqps find printed no trial")?;
        let trials: Vec<Trial> = trials
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .context("kqps find printed what is no trial")?;
        let verdict: SearchVerdict =
            serde_json::from_str(verdict).context("kqps find printed what is not a verdict")?;
        let speed = trials.iter().find_map(|trial| trial.speed.as_ref());
        let reference_turns_per_s = speed.map_or(1.0, |speed| speed.reference_turns_per_s);
        let turns_per_s = usual_of(&trials) * reference_turns_per_s;
        Ok(Self {
            figure: verdict
                .figure_qps
                .map(|figure| figure.times(1.0 / turns_per_s))
                .ok_or_else(|| verdict.reasons.join(" ")),
            spoiled: verdict.host_spoiled,
            clock_was_set: trials.iter().any(|trial| trial.players.first.wall_clock.is_some()),
            bottleneck: verdict.bottleneck,
            grade: verdict.grade,
            share: verdict.share,
        })
    }

    /// Its figure in words, or why there is none.
    pub(super) fn figure(&self) -> String {
        self.figure.as_ref().map_or_else(String::clone, |figure| {
            format!("{:.4} queries a turn ({:.4} to {:.4})", figure.median, figure.low, figure.high)
        })
    }

    /// Its figure, queries for a turn of the gauge. An error if it has none.
    pub(super) fn per_turn(&self) -> Result<f64> {
        self.figure.as_ref().map(|figure| figure.median).map_err(|why| anyhow!("no figure: {why}"))
    }
}

/// A quick search at a target on the subject's core, with these additional flags.
pub(super) fn find(
    bench: &Bench,
    queries: &Path,
    target: SocketAddr,
    flags: &[&str],
) -> Result<SearchOutcome> {
    let (player, subject) = (bench.kqps.player_cpu.to_string(), bench.kqps.subject_cpu.to_string());
    let mut command = pinned(&format!("{player},{subject}"), &bench.kqps.program);
    command.args(["find", &target.to_string(), "--goal", "quick", "--json", "-d"]);
    command.arg(queries).args(["--cpus", &player, "--subject-cpus", &subject]).args(flags);
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    SearchOutcome::parse(&ended.output)
}

/// Runs `kqps compare --json` to its end, which comes within this time of its comparison.
pub(super) fn compare(command: &mut Command, within: Duration) -> Result<Comparison> {
    let mut running = Running::start(command)?;
    let comparison = running.json_line().context("kqps compare printed no comparison")?;
    running.wait(within)?;
    Ok(comparison)
}
