//! Starts of a cell without a search: a closed loop, or fixed rates. They are turned into what a search gives,
//! a rate with the trials behind it, so that one set of rules weighs them all.

use kqps_observation::Trial;
use kqps_observation::run::Purpose;

use super::start::{Played, Start, StartVerdict, without_warm_ups};
use crate::evidence::{answered_qps, counted, counted_at_last, is_spoiled};
use crate::interval::median_interval;
use crate::narrow::narrow;
use crate::search::{Bounds, Goal, Probe};
use crate::steady::full_bins;

impl<'a> Start<'a> {
    /// A closed loop gives its answered rate. The loop pushes until a resource runs out, so its trials also
    /// show the bottleneck.
    pub(super) fn of_closed(played: &[Played<'a>]) -> Self {
        let asked_for = without_warm_ups(played);
        let counted = counted_at_last(&asked_for, Played::facts);
        let loops: Vec<&Played<'a>> =
            counted.into_iter().filter(|one| one.purpose == Purpose::Closed).collect();
        let rates: Vec<f64> = loops.iter().map(|one| answered_qps(one.trial)).collect();
        let bounds = median_interval(&rates).map(|rate| Bounds {
            throughput_qps: Some(rate.median),
            trials: narrow(loops.len()),
            ..Bounds::default()
        });
        let trials: Vec<&'a Trial> = loops.iter().map(|one| one.trial).collect();
        Self::given(played, bounds, &loops, trials.clone(), trials)
    }

    /// Fixed rates give the highest rate that met the goal's loss ratio, below the lowest that did not.
    /// Nothing is known about rates between them.
    pub(super) fn of_rates(goal: &Goal, played: &[Played<'a>]) -> Self {
        let asked_for = without_warm_ups(played);
        let counted = counted_at_last(&asked_for, Played::facts);
        let mut rates: Vec<(Probe, &Played<'a>)> = counted
            .into_iter()
            .filter(|one| one.purpose == Purpose::Rate)
            .map(|one| (Probe::from_trial(one.trial, goal, one.purpose), one))
            .collect();
        rates.sort_by(|(a, _), (b, _)| a.load_qps.total_cmp(&b.load_qps));
        let met = rates.iter().take_while(|(probe, _)| !probe.is_bad(goal)).count();
        let lower = met.checked_sub(1).map(|index| &rates[index]);
        let upper = rates.get(met);
        let bounds = Bounds {
            lower_qps: lower.map(|(probe, _)| probe.load_qps),
            upper_qps: upper.map(|(probe, _)| probe.load_qps),
            throughput_qps: lower.map(|(_, one)| answered_qps(one.trial)),
            irregular: upper.is_none(),
            trials: narrow(rates.len()),
            ..Bounds::default()
        };
        let bounds = (!rates.is_empty()).then_some(bounds);
        let behind: Vec<&Played<'a>> = lower.into_iter().chain(upper).map(|(_, one)| *one).collect();
        let trial = |found: Option<&(Probe, &Played<'a>)>| found.map(|(_, one)| one.trial);
        let (at_lower, failed) = (trial(lower).into_iter().collect(), trial(upper).into_iter().collect());
        Self::given(played, bounds, &behind, at_lower, failed)
    }

    fn given(
        played: &[Played<'a>],
        bounds: Option<Bounds>,
        behind: &[&Played<'a>],
        at_lower: Vec<&'a Trial>,
        failed: Vec<&'a Trial>,
    ) -> Self {
        let trials = behind.iter().map(|one| one.number).collect();
        let warm_up = played.iter().rev().find(|one| one.purpose == Purpose::WarmUp);
        let judged = without_warm_ups(played);
        let is_behind = |trial: &Trial| behind.iter().any(|one| std::ptr::eq(one.trial, trial));
        let spoiled = counted(&judged, Played::facts).into_iter().map(|one| one.trial);
        Self {
            verdict: StartVerdict { start: 0, block: 0, bounds, failure: None, trials, is_searched: false },
            at_lower,
            spoiled: spoiled.filter(|trial| is_spoiled(trial) && is_behind(trial)).collect(),
            gave_way: !failed.is_empty(),
            failed,
            outcomes: Vec::new(),
            all: judged.iter().map(|one| one.trial).collect(),
            warm_up: warm_up.map_or(&[], |one| full_bins(one.trial)),
        }
    }
}
