//! A start of a subject: the trials of its search, and the bounds that follow from them. The start is the unit of
//! repetition.

use kqps_observation::Trial;
use kqps_observation::run::{CellLoad, Purpose, Run, RunTrial};
use kqps_observation::trial::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disturbed::disturbed;
use crate::estimate::is_growing;
use crate::evidence::{counted, counted_at_last, is_spoiled, speed};
use crate::narrow::narrow;
use crate::search::{self, Bounds, Goal, Next, Probe, bounds_found, next_trial};
use crate::steady::full_bins;
use crate::warning::refuting;

/// The verdict on one start of a subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartVerdict {
    /// The number of the start in the run.
    pub start: u64,
    /// The block of the start, from 0.
    pub block: u32,
    /// The bounds that its search found, at the usual speed, also if the figure is refused; `None` if it made
    /// no trial.
    pub bounds: Option<Bounds>,
    /// Why the start could not be measured; its bounds then do not count.
    pub failure: Option<String>,
    /// Numbers of the trials at its bounds, re-tests included.
    pub trials: Vec<u64>,
    /// Whether its load was searched for; false if it was given.
    #[serde(default)]
    pub is_searched: bool,
}

/// A start with the records that its judgement needs.
pub(super) struct Start<'a> {
    pub(super) verdict: StartVerdict,
    /// Trials at the lower bound, re-tests included.
    pub(super) at_lower: Vec<&'a Trial>,
    /// Trials at either bound that were spoiled each time they were made.
    pub(super) spoiled: Vec<&'a Trial>,
    /// Trials that missed the goal at and just above the upper bound.
    pub(super) failed: Vec<&'a Trial>,
    /// Whether a load above its lower bound failed, or the queue grew throughout a trial that was answered.
    pub(super) gave_way: bool,
    /// The load that each undisturbed trial of a search played, queries a second at the reference speed, and whether it met
    /// the goal. Empty for given loads.
    pub(super) outcomes: Vec<(f64, bool)>,
    /// All trials except the warm-ups of the subject.
    pub(super) all: Vec<&'a Trial>,
    /// The time bins of the last warm-up.
    pub(super) warm_up: &'a [Interval],
}

/// A trial of a search with its number in the run (0 outside of one).
#[derive(Clone, Copy)]
pub(super) struct Played<'a> {
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    pub(super) trial: &'a Trial,
}

impl Played<'_> {
    pub(super) fn facts(&self) -> (Purpose, &Trial) {
        (self.purpose, self.trial)
    }
}

/// Leaves out warm-ups. The search that asked for the trials never saw them, and a warm-up between a trial and
/// its repetition would separate the two.
pub(super) fn without_warm_ups<'a>(played: &[Played<'a>]) -> Vec<Played<'a>> {
    played.iter().filter(|one| one.purpose != Purpose::WarmUp).copied().collect()
}

/// "Just above" the upper bound means up to this factor.
const JUST_ABOVE: f64 = 1.1;

/// Whether a trial tried a load.
fn is_of_load(probe: &Probe) -> bool {
    matches!(probe.purpose, Purpose::Search | Purpose::Retest | Purpose::Refine)
}

/// The trials that show the cause of failure: the failed ones just above the upper bound. If the host disturbed
/// all of them, it is any other trials in open loop that failed undisturbed.
fn failed<'a>(
    probes: &[(Probe, &Played<'a>)],
    goal: &Goal,
    is_near: impl Fn(&Probe) -> bool,
) -> Vec<&'a Trial> {
    let failed = |is_wanted: &dyn Fn(&Probe) -> bool| -> Vec<&'a Trial> {
        let wanted = probes.iter().filter(|(probe, _)| probe.is_bad(goal) && is_wanted(probe));
        wanted.map(|(_, one)| one.trial).collect()
    };
    let undisturbed = |trials: &[&'a Trial]| -> Vec<&'a Trial> {
        trials.iter().copied().filter(|trial| disturbed(trial).is_none()).collect()
    };
    let near = failed(&is_near);
    let open = failed(&is_of_load);
    let chosen = [undisturbed(&near), undisturbed(&open)].into_iter().find(|trials| !trials.is_empty());
    chosen.filter(|_| !near.is_empty()).unwrap_or(near)
}

impl<'a> Start<'a> {
    /// Judges one search. The caller adds which start and block it was.
    pub(super) fn of_search(goal: &Goal, played: &[Played<'a>]) -> Self {
        let warm_up = played.iter().rev().find(|one| one.purpose == Purpose::WarmUp);
        let played = without_warm_ups(played);
        let counted_at_last = counted_at_last(&played, Played::facts);
        let probes: Vec<(Probe, &Played<'a>)> = counted_at_last
            .iter()
            .map(|one| (Probe::from_trial(one.trial, goal, one.purpose), *one))
            .collect();
        let is_search = |probe: &Probe| matches!(probe.purpose, Purpose::Search | Purpose::Retest);
        // A trial that the host disturbed bounds nothing. No host excuses a wrong answer.
        let is_sound = |trial: &Trial| disturbed(trial).is_none() || refuting(trial) > 0;
        let sound: Vec<Probe> =
            probes.iter().filter(|(_, one)| is_sound(one.trial)).map(|(probe, _)| *probe).collect();
        let bounds = (!probes.is_empty())
            .then(|| Bounds { trials: narrow(probes.len()), ..bounds_found(goal, &sound) });
        // The search itself went by all trials that count. What failed, and what was spoiled, is near its bounds.
        let facts: Vec<Probe> = probes.iter().map(|(probe, _)| *probe).collect();
        let searched = bounds_found(goal, &facts);
        // Whatever spoiled its trials, a search that ended early ended for its own reason.
        let bounds = bounds.map(|bounds| {
            let futile = bounds.futile.or(searched.futile);
            Bounds { incomplete: searched.incomplete, futile, ..bounds }
        });
        let Bounds { lower_qps, upper_qps, .. } = searched;

        let is_at =
            |load_qps: f64, bound: Option<f64>| bound.is_some_and(|qps| qps.total_cmp(&load_qps).is_eq());
        let select = |wanted: &dyn Fn(&Probe) -> bool| {
            let of_search = probes.iter().filter(|(probe, _)| is_search(probe));
            of_search.filter(|(probe, _)| wanted(probe)).map(|(_, one)| one.trial).collect()
        };
        let is_just_above = |probe: &Probe| {
            upper_qps.is_some_and(|qps| probe.load_qps >= qps && probe.load_qps <= qps * JUST_ABOVE)
        };
        let is_behind = |probe: &Probe| is_at(probe.load_qps, lower_qps) || is_at(probe.load_qps, upper_qps);
        let failed = failed(&probes, goal, |probe| is_search(probe) && is_just_above(probe));
        let is_above = |probe: &Probe| lower_qps.is_none_or(|qps| probe.load_qps > qps);
        let gave_way =
            probes.iter().any(|(probe, one)| probe.is_bad(goal) && is_above(probe) || is_growing(one.trial));
        let behind = probes.iter().filter(|(probe, _)| is_search(probe) && is_behind(probe));
        // A spoiled trial counts only if it was repeated as often as allowed.
        let spoiled =
            counted(&played, Played::facts).into_iter().filter(|one| is_spoiled(one.trial)).filter(|one| {
                let probe = Probe::from_trial(one.trial, goal, one.purpose);
                is_search(&probe) && is_behind(&probe)
            });
        // A buffer that fills hides that a load is too great.
        let shows = |(probe, one): &&(Probe, &Played<'a>)| {
            is_of_load(probe) && is_sound(one.trial) && !is_growing(one.trial)
        };
        let outcome = |(probe, one): &(Probe, &Played<'_>)| {
            let played_qps = one.trial.load.intended_qps? / speed(one.trial);
            Some((played_qps, !probe.is_bad(goal)))
        };
        let outcomes = probes.iter().filter(shows).filter_map(outcome).collect();
        Self {
            verdict: StartVerdict {
                start: 0,
                block: 0,
                trials: behind.map(|(_, one)| one.number).collect(),
                bounds,
                failure: None,
                is_searched: true,
            },
            at_lower: select(&|probe| is_at(probe.load_qps, lower_qps)),
            spoiled: spoiled.map(|one| one.trial).collect(),
            failed,
            gave_way,
            outcomes,
            all: played.iter().map(|one| one.trial).collect(),
            warm_up: warm_up.map_or(&[], |one| full_bins(one.trial)),
        }
    }

    /// Notes that the user or an error ended this search, unless the search was over. Its gaps then
    /// mean nothing, since it had no chance to fill them.
    pub(super) fn interrupt(&mut self) {
        let Some(bounds) = &mut self.verdict.bounds else { return };
        let is_untested = bounds.lower_qps.is_some() && bounds.drifted.is_none();
        if bounds.incomplete || is_untested {
            bounds.irregular &= !bounds.incomplete;
            (bounds.interrupted, bounds.incomplete) = (true, false);
        }
    }

    /// Converts its bounds from the reference speed to a speed of this multiple of it.
    pub(super) fn convert_to(&mut self, speed: f64) {
        if let Some(bounds) = &mut self.verdict.bounds {
            bounds.convert_to(speed);
        }
    }

    /// Its conditional throughput, unless it failed.
    pub(super) fn throughput_qps(&self) -> Option<f64> {
        self.bounds()?.throughput_qps
    }

    /// Its bounds, unless it failed.
    pub(super) fn bounds(&self) -> Option<&Bounds> {
        self.verdict.bounds.as_ref().filter(|_| self.verdict.failure.is_none())
    }
}

/// All starts of a cell in order, one for every block. If a run was killed and resumed, a search goes on in
/// another start of the same block. Both parts are then one start, however much was measured between them.
pub(super) fn of_cell<'a>(run: &'a Run, cell: usize, goal: &Goal) -> Vec<Start<'a>> {
    run.trials_by_block(cell)
        .values()
        .map(|trials| {
            let measured = trials.iter().filter_map(|one| one.measured().map(|trial| (one, trial)));
            let played: Vec<Played<'a>> = measured
                .map(|(one, trial)| Played { number: one.number, purpose: one.purpose, trial })
                .collect();
            let mut start = match &run.cells[cell].load {
                CellLoad::Search => Start::of_search(goal, &played),
                CellLoad::Closed(_) => Start::of_closed(&played),
                CellLoad::Rates { .. } => Start::of_rates(goal, &played),
            };
            start.verdict.start = trials[0].start;
            start.verdict.block = trials[0].block;
            start.verdict.failure = trials.iter().find_map(|one| one.failure()).map(str::to_owned);
            if start.verdict.is_searched
                && is_interrupted(run, trials)
                && !is_over(goal, &played, start.bounds())
            {
                start.interrupt();
            }
            start
        })
        .collect()
}

/// Whether a search had ended by itself, so that the user could no longer interrupt it: a run may end while the
/// next subject is starting.
fn is_over(goal: &Goal, played: &[Played<'_>], found: Option<&Bounds>) -> bool {
    let played = without_warm_ups(played);
    let counted = counted(&played, Played::facts);
    let probes: Vec<Probe> =
        counted.into_iter().map(|one| Probe::from_trial(one.trial, goal, one.purpose)).collect();
    // Without an overload trial, the search began with the bounds of another start.
    let has_overload = probes.iter().any(|probe| probe.purpose == Purpose::Ceiling);
    let begun_with = found.filter(|_| !has_overload);
    let bounds_qps = begun_with.and_then(|found| Some((found.lower_qps?, found.upper_qps?)));
    let next = next_trial(goal, &search::Start { bounds_qps }, &probes);
    matches!(next, Next::Done(_))
}

/// Whether the run was interrupted during the search with these trials, if the search was not over: the search is of the
/// block that the run came to, in which searches side by side take turns. The run was not interrupted if it is finished,
/// or if this search was cut short because it took too long.
fn is_interrupted(run: &Run, trials: &[&RunTrial]) -> bool {
    let (Some(last), Some(newest)) = (trials.last(), run.trials.last()) else { return false };
    let cut_short = format!("block {}: the rest of the search of ", last.block + 1);
    let name = &run.cells[last.cell as usize].name;
    let is_cut_short = run.skipped.keys().any(|what| what.strip_prefix(&cut_short) == Some(name.as_str()));
    run.finished_unix_ms.is_none() && last.block == newest.block && !is_cut_short
}
