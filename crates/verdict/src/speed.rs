//! How fast the host was: its usual speed, which rates are told at, and what its cores did over a run.

use std::collections::BTreeMap;

use kqps_observation::{Run, RunTrial, Trial};
use serde::{Deserialize, Serialize};

use crate::disturbed::{Disturbed, disturbed};

/// The mean speed of a cell's cores over a run as a multiple of the reference, by all trials that were gauged on the same cores;
/// 1 where none was.
pub fn usual(run: &Run, cell: usize) -> f64 {
    let cores = |cell: usize| (&run.cells[cell].player_cpus, &run.cells[cell].subject_cpus);
    let alike = run.trials.iter().filter(|one| cores(one.cell as usize) == cores(cell));
    usual_of(alike.filter_map(RunTrial::measured))
}

/// The same over these trials, which were all made on the same cores.
pub fn usual_of<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> f64 {
    let speeds = trials.into_iter().filter_map(|trial| trial.speed.as_ref()?.speed());
    let (sum, count) = speeds.fold((0.0, 0), |(sum, count), speed| (sum + speed, count + 1));
    if count == 0 { 1.0 } else { sum / f64::from(count) }
}

/// Whether the speed of a cell's cores is known, so that rates can be told at another one.
pub fn is_gauged(run: &Run, cell: usize) -> bool {
    run.trials_of(cell).filter_map(RunTrial::measured).any(|trial| trial.speed.is_some())
}

/// How many trials the host spoiled, by what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoiled {
    /// Of so many trials.
    pub of: u32,
    /// The subject's cores changed their speed.
    pub shifted: u32,
    /// A core of the subject was withheld for longer than its buffers last.
    pub withheld: u32,
    /// Another server, whose turn it was not, took CPU time.
    pub restless: u32,
}

impl Spoiled {
    /// What the host did to these trials.
    pub fn count<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        let mut spoiled = Self::default();
        for trial in trials {
            spoiled.of += 1;
            match disturbed(trial) {
                Some(Disturbed::Shifted(_)) => spoiled.shifted += 1,
                Some(Disturbed::Withheld(_)) => spoiled.withheld += 1,
                Some(Disturbed::Restless(_)) => spoiled.restless += 1,
                None => {}
            }
        }
        spoiled
    }

    /// How many it spoiled in any way.
    pub fn all(&self) -> u32 {
        self.shifted + self.withheld + self.restless
    }

    /// Those that it spoiled, by why: `12 while its cores were withheld`. None where there are none.
    pub fn reasons(&self) -> Option<String> {
        let reasons = [
            (self.shifted, "as the cores changed their speed"),
            (self.withheld, "as a core was withheld for longer than buffers last"),
            (self.restless, "as another server was not idle"),
        ];
        let told =
            reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

impl std::iter::Sum for Spoiled {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            of: sum.of + one.of,
            shifted: sum.shifted + one.shifted,
            withheld: sum.withheld + one.withheld,
            restless: sum.restless + one.restless,
        })
    }
}

/// How fast the cores were at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the first trial of the run.
    pub at_s: f64,
    /// By core, as a share of the fastest that any core was gauged at in the run.
    pub speeds: BTreeMap<u32, f64>,
    /// Milliseconds that cores were withheld in the trial, all of them added.
    pub withheld_ms: f64,
    /// Whether the host spoiled the trial.
    pub spoiled: bool,
}

/// The host's speeds over a run: one moment for each trial that was gauged.
pub fn moments(run: &Run) -> Vec<Moment> {
    let measured: Vec<&Trial> = run.trials.iter().filter_map(RunTrial::measured).collect();
    let began_ms = measured.iter().map(|trial| trial.started_unix_ms).min().unwrap_or(0);
    let gauged = measured.iter().filter_map(|trial| Some((*trial, trial.speed.as_ref()?)));
    let fastest = gauged.clone().flat_map(|(_, speed)| speed.before.cores.iter().chain(&speed.after.cores));
    let fastest = fastest.map(|core| core.turns_per_s).fold(f64::MIN_POSITIVE, f64::max);
    let moment = |(trial, speed): (&Trial, &kqps_observation::SpeedFacts)| {
        let after = |cpu: u32| speed.after.of(&[cpu]);
        let mean = |core: &kqps_observation::CoreGauge| {
            let after = after(core.cpu).unwrap_or(core.turns_per_s);
            (core.cpu, f64::midpoint(core.turns_per_s, after) / fastest)
        };
        Moment {
            at_s: (trial.started_unix_ms - began_ms) as f64 / 1e3,
            speeds: speed.before.cores.iter().map(mean).collect(),
            withheld_ms: trial
                .stalls
                .as_ref()
                .map_or(0.0, |stalls| stalls.stood_s(&trial.sending_ns()) * 1e3),
            spoiled: disturbed(trial).is_some(),
        }
    };
    gauged.map(moment).collect()
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::{Outcome, Purpose};
    use kqps_observation::{Cell, CoreGauge, GaugeFacts, SpeedFacts};

    use super::*;

    fn trial(at_ms: u64, before: f64, after: f64) -> Trial {
        let gauge =
            |turns_per_s| GaugeFacts { cores: vec![CoreGauge { cpu: 1, turns_per_s, stalled_s: 0.0 }] };
        let speed = SpeedFacts {
            before: gauge(before),
            after: gauge(after),
            subject_cpus: vec![1],
            reference_turns_per_s: 100.0,
            wanted_qps: None,
        };
        Trial { started_unix_ms: at_ms, speed: Some(speed), ..Trial::default() }
    }

    fn run(trials: Vec<(u32, Trial)>) -> Run {
        let cell = |cpu| Cell { subject_cpus: vec![cpu], ..Cell::default() };
        let stored = trials.into_iter().zip(1..).map(|((cell, trial), number)| RunTrial {
            number,
            cell,
            block: 0,
            start: 1,
            purpose: Purpose::Search,
            outcome: Outcome::Measured(Box::new(trial)),
        });
        Run { cells: vec![cell(1), cell(1), cell(2)], trials: stored.collect(), ..Run::default() }
    }

    #[test]
    fn the_usual_speed_is_the_mean_over_all_trials_on_the_same_cores() {
        let run =
            run(vec![(0, trial(0, 80.0, 80.0)), (1, trial(5, 120.0, 120.0)), (2, trial(9, 10.0, 10.0))]);
        assert!((usual(&run, 0) - 1.0).abs() < 1e-12);
        assert!((usual(&run, 2) - 0.1).abs() < 1e-12);
        assert!((usual_of(&[Trial::default()]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn every_gauged_trial_is_a_moment() {
        let run = run(vec![
            (0, trial(1000, 80.0, 100.0)),
            (0, Trial { started_unix_ms: 1200, ..Trial::default() }),
        ]);
        let moments = moments(&run);
        assert_eq!((moments.len(), moments[0].at_s, moments[0].spoiled), (1, 0.0, true));
        assert!((moments[0].speeds[&1] - 0.9).abs() < 1e-12);
    }

    #[test]
    fn what_the_host_did_is_counted() {
        let spoiled = Spoiled::count(&[trial(0, 80.0, 100.0), trial(0, 100.0, 100.0)]);
        assert_eq!((spoiled.of, spoiled.shifted, spoiled.all()), (2, 1, 1));
        assert_eq!(spoiled.reasons().unwrap(), "1 as the cores changed their speed");
        assert_eq!(Spoiled::default().reasons(), None);
        let sum: Spoiled = [spoiled, spoiled].into_iter().sum();
        assert_eq!((sum.of, sum.all()), (4, 2));
    }
}
