//! The speed of the host: its usual speed, at which rates are stated, and the speed of its cores over a run.

use std::collections::BTreeMap;

use kqps_observation::{Run, RunTrial, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disturbed::{Disturbed, disturbed};
use crate::standstill::Remainder;

/// The speed of cores that were not gauged, as a multiple of the reference.
pub(crate) fn ungauged() -> f64 {
    1.0
}

/// The mean speed of a cell's cores over a run as a multiple of the reference, from all trials that were gauged
/// on the same cores; 1 without any.
pub fn usual(run: &Run, cell: usize) -> f64 {
    let cores = |cell: usize| (&run.cells[cell].player_cpus, &run.cells[cell].subject_cpus);
    let alike = run.trials.iter().filter(|one| cores(one.cell as usize) == cores(cell));
    usual_of(alike.filter_map(RunTrial::measured))
}

/// The mean speed over these trials as a multiple of the reference; 1 without a gauged one. All must have run
/// on the same cores.
pub fn usual_of<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> f64 {
    let speeds = trials.into_iter().filter_map(|trial| trial.speed.as_ref()?.speed());
    let (sum, count) = speeds.fold((0.0, 0), |(sum, count), speed| (sum + speed, count + 1));
    if count == 0 { ungauged() } else { sum / f64::from(count) }
}

/// Whether the speed of a cell's cores is known, so that rates can be converted to another speed.
pub fn is_gauged(run: &Run, cell: usize) -> bool {
    run.trials_of(cell).filter_map(RunTrial::measured).any(|trial| trial.speed.is_some())
}

/// How many trials the host spoiled, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spoiled {
    /// The number of trials that were examined.
    pub of: u32,
    /// Trials in which the subject's cores changed their speed.
    pub shifted: u32,
    /// Trials during most of which a core of the subject was withheld, again and again for longer than buffers
    /// last.
    pub withheld: u32,
    /// Trials in which a core was withheld for longer than buffers last, and the rest of which counts.
    #[serde(default)]
    pub in_part: u32,
    /// Trials in which another server, which had to be idle, used CPU time.
    pub restless: u32,
    /// Trials in which the subject waited for its core, while other programs had it.
    #[serde(default)]
    pub waited: u32,
}

impl Spoiled {
    /// Counts the trials that the host spoiled.
    pub fn count<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        let mut spoiled = Self::default();
        for trial in trials {
            spoiled.of += 1;
            match disturbed(trial) {
                Some(Disturbed::Shifted(_)) => spoiled.shifted += 1,
                Some(Disturbed::Withheld(_)) => spoiled.withheld += 1,
                Some(Disturbed::Restless(_)) => spoiled.restless += 1,
                Some(Disturbed::Waited(_)) => spoiled.waited += 1,
                None => spoiled.in_part += u32::from(stood_still(trial)),
            }
        }
        spoiled
    }

    /// The number of trials that were spoiled as a whole, and therefore repeated.
    pub fn whole(&self) -> u32 {
        self.shifted + self.withheld + self.restless + self.waited
    }

    /// The spoiled trials by cause: `2 of 12 trials, by the host: 2 as another server was not idle`. `None` if
    /// there are none.
    pub fn reasons(&self) -> Option<String> {
        let reasons = [
            (self.shifted, "as the cores changed their speed"),
            (self.withheld, "as a core was withheld again and again"),
            (self.restless, "as another server was not idle"),
            (self.waited, "as the server waited for its core"),
        ];
        let reasons =
            reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
        let reasons: Vec<String> = reasons.collect();
        let whole = (self.whole() > 0)
            .then(|| format!("{} of {} trials, by the host: {}", self.whole(), self.of, reasons.join(", ")));
        let in_part = (self.in_part > 0).then(|| {
            format!(
                "in {} of {} trials the hypervisor took a core; those moments do not count",
                self.in_part, self.of
            )
        });
        let said: Vec<String> = whole.into_iter().chain(in_part).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// Whether parts of a trial do not count, since the host stood still in them.
fn stood_still(trial: &Trial) -> bool {
    Remainder::from_trial(trial).is_some_and(|remainder| remainder.still_share > 0.0)
}

impl std::iter::Sum for Spoiled {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            of: sum.of + one.of,
            shifted: sum.shifted + one.shifted,
            withheld: sum.withheld + one.withheld,
            in_part: sum.in_part + one.in_part,
            restless: sum.restless + one.restless,
            waited: sum.waited + one.waited,
        })
    }
}

/// The speed of the cores at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// Seconds since the first trial of the run.
    pub at_s: f64,
    /// The speed by core, as a share of the fastest that any core was gauged at in the run.
    pub speeds: BTreeMap<u32, f64>,
    /// Milliseconds that cores were withheld in the trial, summed over the cores.
    pub withheld_ms: f64,
    /// Whether the host spoiled the trial.
    pub spoiled: bool,
    /// Whether parts of the trial do not count, since a core was withheld in them.
    #[serde(default)]
    pub in_part: bool,
}

/// The host's speed over a run: one moment for each gauged trial.
pub fn moments(run: &Run) -> Vec<Moment> {
    let measured: Vec<&Trial> = run.trials.iter().filter_map(RunTrial::measured).collect();
    let began_ms = measured.iter().map(|trial| trial.started_unix_ms).min().unwrap_or(0);
    let gauged = measured.iter().filter_map(|trial| Some((*trial, trial.speed.as_ref()?)));
    let fastest = gauged.clone().flat_map(|(_, speed)| speed.before.cores.iter().chain(&speed.after.cores));
    let fastest = fastest.map(|core| core.turns_per_s).fold(f64::MIN_POSITIVE, f64::max);
    let moment = |(trial, speed): (&Trial, &kqps_observation::SpeedFacts)| {
        let after = |cpu: u32| speed.after.turns_per_s(&[cpu]);
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
            in_part: disturbed(trial).is_none() && stood_still(trial),
        }
    };
    gauged.map(moment).collect()
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::{Outcome, Purpose};
    use kqps_observation::trial::LoadFacts;
    use kqps_observation::{Cell, CoreGauge, GaugeFacts, SpeedFacts, Stall, StallFacts};

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
    fn a_standstill_that_is_cut_out_spoils_a_trial_in_part() {
        let mut withheld = trial(0, 100.0, 100.0);
        withheld.load = LoadFacts { intended_qps: Some(2e5), duration_s: 0.5, ..LoadFacts::default() };
        let stalls = vec![Stall { cpu: 1, at_ns: 101_000_000, late_us: 3_000 }];
        withheld.stalls =
            Some(StallFacts { period_us: 2_300, cores: vec![1], stalls, ..StallFacts::default() });
        let spoiled = Spoiled::count(&[withheld.clone(), trial(0, 100.0, 100.0)]);
        assert_eq!((spoiled.whole(), spoiled.in_part), (0, 1));
        let said = "in 1 of 2 trials the hypervisor took a core; those moments do not count";
        assert_eq!(spoiled.reasons().unwrap(), said);
        withheld.load.intended_qps = Some(2e3);
        assert_eq!(Spoiled::count(&[withheld]).in_part, 0, "buffers outlast it at this load");
    }

    #[test]
    fn what_the_host_did_is_counted() {
        let spoiled = Spoiled::count(&[trial(0, 80.0, 100.0), trial(0, 100.0, 100.0)]);
        assert_eq!((spoiled.of, spoiled.shifted, spoiled.whole()), (2, 1, 1));
        let said = "1 of 2 trials, by the host: 1 as the cores changed their speed";
        assert_eq!(spoiled.reasons().unwrap(), said);
        assert_eq!(Spoiled::default().reasons(), None);
        let sum: Spoiled = [spoiled, spoiled].into_iter().sum();
        assert_eq!((sum.of, sum.whole()), (4, 2));
    }
}
