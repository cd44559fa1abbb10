//! Which trial to make next. Coarse levels come first: they settle a load with one trial and want bounds
//! only roughly, so that the full sums are spent on two loads rather than on every step. Each call walks the
//! levels from coarse to fine and asks for the first trial that is missing, so a later trial that contradicts
//! a coarse level sends the search back to it.

use kqps_observation::run::Purpose;
use serde::{Deserialize, Serialize};

use super::bounds::{AtLoad, Bounds, Pair, by_load};
use super::class::{Class, classify, conditional_throughput};
use super::goal::Goal;
use super::probe::Probe;

/// What is known before the first trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// A rate that the subject is believed to reach, queries a second. Without it (and without bounds) the
    /// search asks for an overload trial first.
    pub guess_qps: Option<f64>,
    /// The bounds that another start of the same cell ended with: they are tried first.
    pub bounds_qps: Option<(f64, f64)>,
    /// How many packets the subject's buffers hold; they hide that many losses in every trial.
    pub buffer_packets: Option<u64>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Load the subject with more than it can answer (a closed loop, or the greatest load). The probe of
    /// this trial has [`Purpose::Ceiling`]; only its answered rate matters.
    Overload {
        /// Seconds.
        duration_s: f64,
    },
    /// Load the subject in open loop.
    Trial {
        /// Queries a second.
        rate_qps: f64,
        /// Seconds.
        duration_s: f64,
        /// [`Purpose::Search`] or [`Purpose::Retest`]: the probe of this trial must carry it.
        purpose: Purpose,
    },
    /// The search is over.
    Done(Bounds),
}

/// A step of the search: a goal with a wider width and a smaller sum, or the goal itself.
struct Level<'a> {
    goal: Goal,
    /// Set at the last level only: buffers hide loss, so trials there must last longer at low loads.
    buffer: Option<(&'a Goal, f64)>,
}

/// Coarse levels are this many times as wide as the goal.
const COARSE_WIDTHS: [f64; 2] = [8.0, 2.0];

/// A final trial lasts this many times as long as the buffers could hide a relative loss of the width.
const BUFFERS_OUTLASTED: f64 = 5.0;

impl Level<'_> {
    fn all<'a>(goal: &'a Goal, start: &Start) -> Vec<Level<'a>> {
        let mut levels: Vec<Level<'a>> = COARSE_WIDTHS
            .iter()
            .map(|times| (goal.width * times).min(0.5))
            .filter(|width| *width > goal.width)
            .map(|width| Level { goal: Goal { width, sum_s: goal.final_s, ..goal.clone() }, buffer: None })
            .collect();
        let buffer = start.buffer_packets.map(|packets| (goal, packets as f64));
        levels.push(Level { goal: goal.clone(), buffer });
        levels
    }

    /// This level's goal at a load. Trials never become longer than the goal's duration sum.
    fn goal_at(&self, load_qps: f64) -> Goal {
        let mut goal = self.goal.clone();
        if let Some((whole, packets)) = self.buffer {
            let outlasted_s = BUFFERS_OUTLASTED * packets / (whole.width * load_qps);
            goal.final_s = goal.final_s.max(outlasted_s.min(whole.sum_s));
        }
        goal
    }

    fn class_at(&self, loads: &[AtLoad<'_>], load_qps: f64) -> Class {
        let index = loads.binary_search_by(|at| at.load_qps.total_cmp(&load_qps));
        let probes = index.map(|index| loads[index].probes.as_slice()).unwrap_or_default();
        classify(&self.goal_at(load_qps), probes.iter().copied())
    }

    fn close_enough(&self, lower_qps: f64, upper_qps: f64) -> bool {
        // The rounding of loads may make a step of exactly the width a hair wider.
        (upper_qps - lower_qps) / upper_qps <= self.goal.width * 1.000_001
    }
}

/// The most trials that a search makes; it ends with what it has when they are used up.
pub fn most_trials(goal: &Goal) -> usize {
    let per_load = (goal.sum_s / goal.final_s).ceil() as usize;
    60 + 8 * per_load
}

/// Says which trial to make next. `probes` are all trials of this search so far, in any order; those that
/// are neither search, nor re-test, nor overload are passed over. `goal` must pass [`Goal::check`].
pub fn next_trial(goal: &Goal, start: &Start, probes: &[Probe]) -> Next {
    let loads = by_load(probes, |probe| probe.purpose == Purpose::Search);
    let Some(mut hint) = first_hint(goal, start, probes) else {
        return Next::Overload { duration_s: goal.final_s.min(1.0) };
    };
    let exhausted = probes.len() >= most_trials(goal);
    let levels = Level::all(goal, start);
    for level in &levels {
        match step(level, &loads, hint) {
            Step::Ask(rate_qps) if !exhausted => {
                let duration_s = level.goal_at(rate_qps).final_s;
                return Next::Trial { rate_qps, duration_s, purpose: Purpose::Search };
            }
            Step::Ask(_) => break,
            Step::Settled(pair) => hint = pair,
        }
    }
    let last = levels.last().expect("the goal itself is a level");
    finish(last, &loads, probes, exhausted)
}

/// Where to begin: the bounds of an earlier search, or a load a little below the guess and one a little
/// above it.
fn first_hint(goal: &Goal, start: &Start, probes: &[Probe]) -> Option<Pair> {
    if let Some((lower_qps, upper_qps)) = start.bounds_qps {
        let (lower_qps, upper_qps) = (goal.round_load(lower_qps), goal.round_load(upper_qps));
        return Some(Pair { lower_qps: Some(lower_qps), upper_qps: Some(upper_qps) });
    }
    let overload = probes.iter().find(|probe| probe.purpose == Purpose::Ceiling);
    let guess_qps = start.guess_qps.or(overload.map(|probe| probe.answered_qps))?;
    let below_qps = goal.round_load(guess_qps * (1.0 - 2.0 * goal.width));
    Some(Pair { lower_qps: Some(below_qps), upper_qps: None })
}

enum Step {
    /// A trial at this load is missing.
    Ask(f64),
    /// The bounds of this level, one of which is missing where the range of loads ended first.
    Settled(Pair),
}

fn step(level: &Level<'_>, loads: &[AtLoad<'_>], hint: Pair) -> Step {
    let found = Pair::relevant(loads, |load_qps| level.goal_at(load_qps));
    let hinted = [hint.lower_qps, hint.upper_qps].into_iter().flatten();
    for load_qps in hinted.filter(|load_qps| found.holds(*load_qps)) {
        if level.class_at(loads, load_qps) == Class::Undecided {
            return Step::Ask(load_qps);
        }
    }
    let goal = &level.goal;
    match (found.lower_qps, found.upper_qps) {
        (Some(lower_qps), Some(upper_qps)) => {
            if level.close_enough(lower_qps, upper_qps) {
                return Step::Settled(found);
            }
            match between(level, loads, lower_qps, upper_qps) {
                Some(load_qps) => Step::Ask(load_qps),
                None => Step::Settled(found),
            }
        }
        (Some(lower_qps), None) if lower_qps >= goal.max_qps => Step::Settled(found),
        (Some(lower_qps), None) => Step::Ask(expand_up(level, loads, lower_qps)),
        (None, Some(upper_qps)) if upper_qps <= goal.min_qps => Step::Settled(found),
        (None, Some(upper_qps)) => Step::Ask(expand_down(level, loads, upper_qps)),
        (None, None) => Step::Ask(goal.round_load((goal.min_qps * goal.max_qps).sqrt())),
    }
}

/// A load between two bounds: one that was begun already and lies near the middle, else the middle of the
/// logarithms. None when rounding leaves no load between them.
fn between(level: &Level<'_>, loads: &[AtLoad<'_>], lower_qps: f64, upper_qps: f64) -> Option<f64> {
    let whole = (upper_qps / lower_qps).ln();
    let off_middle = |load_qps: f64| ((load_qps / lower_qps).ln() / whole - 0.5).abs();
    let begun = loads
        .iter()
        .map(|at| at.load_qps)
        .filter(|load_qps| *load_qps > lower_qps && *load_qps < upper_qps && off_middle(*load_qps) <= 0.25)
        .filter(|load_qps| level.class_at(loads, *load_qps) == Class::Undecided)
        .min_by(|a, b| off_middle(*a).total_cmp(&off_middle(*b)));
    let middle_qps = level.goal.round_load((lower_qps * upper_qps).sqrt());
    begun.or((middle_qps > lower_qps && middle_qps < upper_qps).then_some(middle_qps))
}

/// No step of an expansion is longer than a factor of four.
const LONGEST_STEP: f64 = 4.0;

/// How far the next step of an expansion goes, as a factor above 1: the width of the level, squared anew for
/// every bound of the same kind that it has found.
fn stride(level: &Level<'_>, loads: &[AtLoad<'_>], class: Class) -> f64 {
    let found = loads.iter().filter(|at| level.class_at(loads, at.load_qps) == class).count();
    let doublings = found.saturating_sub(1).min(16) as f64;
    (1.0 / (1.0 - level.goal.width)).powf(doublings.exp2()).min(LONGEST_STEP)
}

fn expand_up(level: &Level<'_>, loads: &[AtLoad<'_>], lower_qps: f64) -> f64 {
    level.goal.round_load(lower_qps * stride(level, loads, Class::Lower))
}

/// One step down, or further if the answered share of the load that failed says so: what a saturated subject
/// still answers is about what it can.
fn expand_down(level: &Level<'_>, loads: &[AtLoad<'_>], upper_qps: f64) -> f64 {
    let step_qps = upper_qps / stride(level, loads, Class::Upper);
    let at_upper = loads.iter().filter(|at| at.load_qps <= upper_qps).flat_map(|at| &at.probes);
    let answered_qps = at_upper
        .map(|probe| probe.load_qps * (1.0 - probe.bad_ratio) / (1.0 - level.goal.loss))
        .fold(0.0, f64::max);
    let wanted_qps = (answered_qps * (1.0 - level.goal.width / 2.0)).max(upper_qps / LONGEST_STEP);
    level.goal.round_load(step_qps.min(wanted_qps))
}

/// How many final trials the re-test of the lower bound takes at most: one bad trial proves no drift where
/// the goal forgives half of them.
const RETEST_TRIALS: f64 = 3.0;

fn finish(level: &Level<'_>, loads: &[AtLoad<'_>], probes: &[Probe], exhausted: bool) -> Next {
    let found = Pair::relevant(loads, |load_qps| level.goal_at(load_qps));
    let mut bounds = Bounds {
        lower_qps: found.lower_qps,
        upper_qps: found.upper_qps,
        irregular: found.upper_qps.is_none(),
        incomplete: exhausted,
        trials: probes.len() as u32,
        ..Bounds::default()
    };
    let Some(lower_qps) = found.lower_qps else { return Next::Done(bounds) };

    let goal = level.goal_at(lower_qps);
    let at_lower = loads.iter().filter(|at| at.load_qps.total_cmp(&lower_qps).is_eq());
    let at_lower = at_lower.flat_map(|at| at.probes.iter().copied());
    bounds.throughput_qps = Some(conditional_throughput(&goal, lower_qps, at_lower));
    bounds.hidden_share = level.buffer.map(|(_, packets)| packets / (lower_qps * goal.final_s));

    let again = by_load(probes, |probe| probe.purpose == Purpose::Retest);
    let retest_sum_s = goal.sum_s.min(RETEST_TRIALS * goal.final_s);
    let retest = Level { goal: Goal { sum_s: retest_sum_s, ..goal }, buffer: None };
    match retest.class_at(&again, lower_qps) {
        Class::Undecided if !exhausted => {
            Next::Trial { rate_qps: lower_qps, duration_s: retest.goal.final_s, purpose: Purpose::Retest }
        }
        class => {
            bounds.drifted = class == Class::Upper;
            Next::Done(bounds)
        }
    }
}
