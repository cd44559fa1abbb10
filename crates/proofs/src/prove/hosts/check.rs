//! Conditions for every trial that players on several hosts made together.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use kqps_observation::accounts::Accounts;
use kqps_observation::{Run, Trial};

use super::lab::Lab;

/// A stated uncertainty above this says nothing, nanoseconds.
pub(super) const UNCERTAINTY_MOST_NS: u64 = 100_000_000;

/// Counts and extremes of all trials.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked {
    pub(super) trials: usize,
    /// Players' parts of trials.
    pub(super) parts: usize,
    /// How many players trials had.
    pub(super) players: BTreeSet<usize>,
    /// The largest difference between a recorded offset of clocks and the true one, nanoseconds.
    pub(super) error_ns: u64,
    /// The uncertainties that were stated, nanoseconds.
    uncertainties_ns: Vec<u64>,
    /// The largest stated skew of starts, microseconds.
    pub(super) skew_us: f64,
}

impl Checked {
    /// Prints what was seen, in one line.
    pub(super) fn print(&mut self, what: &str) {
        self.uncertainties_ns.sort_unstable();
        let median_ns =
            self.uncertainties_ns.get(self.uncertainties_ns.len() / 2).copied().unwrap_or_default();
        eprintln!(
            "{what}: {} trials with {} parts of players; every offset of clocks is right within its uncertainty \
             (median {:.0} µs), the worst by {:.0} µs; starts were {:.0} µs apart at most",
            self.trials,
            self.parts,
            median_ns as f64 / 1e3,
            self.error_ns as f64 / 1e3,
            self.skew_us
        );
    }
}

/// Checks all measured trials of a run.
pub(super) fn run(lab: &Lab, run: &Run) -> Result<Checked> {
    let mut checked = Checked::default();
    for one in &run.trials {
        if let Some(trial) = one.measured() {
            of_trial(lab, trial, &mut checked)
                .map_err(|error| error.context(format!("trial {}", one.number)))?;
        }
    }
    ensure!(checked.trials > 0, "no trial was measured");
    Ok(checked)
}

/// How far an offset of a host's clock is off, nanoseconds. An error if that is more than the stated uncertainty.
pub(super) fn offset_error_ns(host: &str, truth_ns: i64, offset_ns: i64, uncertainty_ns: u64) -> Result<u64> {
    let error_ns = offset_ns.abs_diff(truth_ns);
    ensure!(
        error_ns <= uncertainty_ns,
        "the clock of {host} is {truth_ns} ns ahead, and not {offset_ns} ns ± {uncertainty_ns} ns"
    );
    Ok(error_ns)
}

fn of_trial(lab: &Lab, trial: &Trial, checked: &mut Checked) -> Result<()> {
    ensure!(!trial.parts.is_empty(), "it has no parts of players");
    let mut sum = Accounts::default();
    for part in &trial.parts {
        part.accounts.check()?;
        sum.add(&part.accounts);
        let truth_ns = lab.host(&part.host)?.ahead_ns;
        let error_ns =
            offset_error_ns(&part.host, truth_ns, part.start.offset_ns, part.start.uncertainty_ns)?;
        ensure!(
            part.start.uncertainty_ns <= UNCERTAINTY_MOST_NS,
            "an uncertainty of {} ns says nothing",
            part.start.uncertainty_ns
        );
        checked.error_ns = checked.error_ns.max(error_ns);
        checked.uncertainties_ns.push(part.start.uncertainty_ns);
    }
    trial.accounts.check()?;
    ensure!(sum == trial.accounts, "the parts sum up to {sum:?}, and the trial has {:?}", trial.accounts);
    let hosts: BTreeSet<&str> = trial.parts.iter().map(|part| part.host.as_str()).collect();
    ensure!(hosts.len() == trial.parts.len(), "a host has two parts: {hosts:?}");
    if trial.parts.len() > 1 {
        let skew_us =
            trial.start_skew_us.ok_or_else(|| anyhow::anyhow!("it states no skew of its starts"))?;
        checked.skew_us = checked.skew_us.max(skew_us);
    }
    checked.trials += 1;
    checked.parts += trial.parts.len();
    checked.players.insert(trial.parts.len());
    Ok(())
}
