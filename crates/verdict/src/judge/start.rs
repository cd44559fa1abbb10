//! One start of a subject: the trials of its search, and the bounds that they amount to. The start is the unit
//! of repetition.

use kqps_observation::Trial;
use kqps_observation::run::{CellLoad, Purpose, Run, RunTrial};
use kqps_observation::trial::Interval;
use serde::{Deserialize, Serialize};

use crate::evidence::counted_at_last;
use crate::search::{Bounds, Goal, Probe, bounds_found};

/// What one start of a subject gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartVerdict {
    /// Its number in the run.
    pub start: u64,
    /// Its block.
    pub block: u32,
    /// What its search found; none when it made no trial.
    pub bounds: Option<Bounds>,
    /// Why it could not be measured, in which case its bounds do not count.
    pub failure: Option<String>,
    /// Numbers of the trials at its bounds, re-tests included.
    pub trials: Vec<u64>,
}

/// A start with the records that judging it needs.
pub(super) struct Start<'a> {
    pub(super) verdict: StartVerdict,
    /// Trials at the lower bound, re-tests included.
    pub(super) at_lower: Vec<&'a Trial>,
    /// Trials that missed the goal at and just above the upper bound.
    pub(super) failed: Vec<&'a Trial>,
    /// All trials but those that warmed the subject up.
    pub(super) all: Vec<&'a Trial>,
    /// The bins of the last warm-up.
    pub(super) warm_up: &'a [Interval],
}

/// A trial of a search with its number in the run (0 outside of one).
pub(super) struct Played<'a> {
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    pub(super) trial: &'a Trial,
}

/// "Just above" the upper bound reaches this far, as a factor.
const JUST_ABOVE: f64 = 1.1;

impl<'a> Start<'a> {
    /// Judges one search. The verdict lacks only what the run knows: which start and block it was.
    pub(super) fn of_search(goal: &Goal, buffer_packets: Option<u64>, played: &[Played<'a>]) -> Self {
        let counted = counted_at_last(played, |one| (one.purpose, one.trial));
        let probes: Vec<(Probe, &Played<'a>)> =
            counted.iter().map(|one| (Probe::of(one.trial, goal, one.purpose), *one)).collect();
        let facts: Vec<Probe> = probes.iter().map(|(probe, _)| *probe).collect();
        let is_search = |probe: &Probe| matches!(probe.purpose, Purpose::Search | Purpose::Retest);
        let bounds = facts.iter().any(is_search).then(|| bounds_found(goal, buffer_packets, &facts));
        let (lower_qps, upper_qps) =
            bounds.as_ref().map_or((None, None), |bounds| (bounds.lower_qps, bounds.upper_qps));

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
        let behind = probes.iter().filter(|(probe, _)| is_search(probe) && is_behind(probe));
        let warm_up = played.iter().rev().find(|one| one.purpose == Purpose::WarmUp);
        let is_judged = |one: &&Played<'a>| one.purpose != Purpose::WarmUp;
        Self {
            verdict: StartVerdict {
                start: 0,
                block: 0,
                trials: behind.map(|(_, one)| one.number).collect(),
                bounds,
                failure: None,
            },
            at_lower: select(&|probe| is_at(probe.load_qps, lower_qps)),
            failed: select(&|probe| is_just_above(probe) && probe.is_bad(goal)),
            all: played.iter().filter(is_judged).map(|one| one.trial).collect(),
            warm_up: warm_up.map_or(&[], |one| one.trial.intervals.as_slice()),
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

/// All starts of a cell, in the order of the run: one for every block. Where a run was killed and resumed, a
/// search goes on in another start of the same block, and both parts are one.
pub(super) fn of_cell<'a>(run: &'a Run, cell: usize, goal: &Goal) -> Vec<Start<'a>> {
    let of_cell: Vec<&RunTrial> = run.trials.iter().filter(|trial| trial.cell as usize == cell).collect();
    let of_starts = of_cell.chunk_by(|a, b| a.block == b.block);
    of_starts
        .map(|trials| {
            let measured = trials.iter().filter_map(|one| one.measured().map(|trial| (one, trial)));
            let played: Vec<Played<'a>> = measured
                .map(|(one, trial)| Played { number: one.number, purpose: one.purpose, trial })
                .collect();
            let mut start = match &run.cells[cell].load {
                CellLoad::Search => Start::of_search(goal, None, &played),
                CellLoad::Closed(_) => Start::of_closed(&played),
                CellLoad::Rates { .. } => Start::of_rates(goal, &played),
            };
            start.verdict.start = trials[0].start;
            start.verdict.block = trials[0].block;
            start.verdict.failure = trials.iter().find_map(|one| one.failure()).map(str::to_owned);
            start
        })
        .collect()
}
