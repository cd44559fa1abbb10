//! Turns the starts of one cell into a figure and a grade. A warning counts if most trials at the lower bounds
//! carry it, since the search itself forgives a share of bad ones. A wrong answer always counts, and so does a
//! trial at a bound that the player spoiled as often as it was made.

use std::collections::BTreeMap;

use kqps_observation::Trial;

use super::case::{Case, CutShort};
use super::doubt::Doubt;
use super::outer_bounds::OuterBounds;
use super::start::Start;
use crate::advice::Advice;
use crate::bottleneck::{Bottleneck, Resource, bottleneck};
use crate::core_time::CoreTime;
use crate::estimate::Estimate;
use crate::grade::Grade;
use crate::interval::{Interval, median_interval};
use crate::search::Bounds;
use crate::unsteady::Unsteady;
use crate::warning::{self, Code, Effect, Surroundings, Warning};

/// A figure with its grade and the reasons.
pub(super) struct Weighed {
    pub(super) figure_qps: Option<Interval>,
    /// The greatest load that may be tried, if even that met the goal; there is then no figure.
    pub(super) at_least_qps: Option<f64>,
    /// Answers a second if the subject's busiest thread had a core all the time, whether the figure is refused or not.
    pub(super) whole_core_qps: Option<f64>,
    pub(super) player_headroom: Option<f64>,
    pub(super) share: Option<Interval>,
    /// Whether the bounds stand: the figure is not refused, and lies between them.
    pub(super) has_bounds: bool,
    pub(super) bottleneck: Bottleneck,
    pub(super) grade: Grade,
    pub(super) reasons: Vec<String>,
    /// The action for each of the reasons.
    pub(super) advice: Vec<Option<Advice>>,
    pub(super) warnings: Vec<Warning>,
}

pub(super) fn weigh(case: &Case<'_>) -> Weighed {
    let bounds = OuterBounds::from_starts(case.starts);
    let estimated = case.figured().map(Estimate::interval);
    let found = estimated.or_else(|| figure(case.starts));
    let rounded = |figure: &Interval| estimated.map_or(*figure, |_| bounds.round(*figure, case.width));
    let (core_time, unsteady) = (
        found.and_then(|figure| CoreTime::from_trials(all_trials(case), figure.median)),
        Unsteady::from_trials(all_trials(case)),
    );
    let widened = |figure: Interval| {
        let figure = unsteady.widen(figure);
        core_time.map_or(figure, |core_time| core_time.widen(figure))
    };
    let figure_qps = found.as_ref().map(rounded).map(widened);
    // The share moves with its figure.
    let moved = found.zip(figure_qps).map_or(1.0, |(found, figure)| figure.median / found.median);
    let (share, share_rests_on_spoiled) = share(case, found);
    let share = share.map(|share| widened(Interval { median: share.median * moved, ..share }));
    let at_least_qps = case.at_least_qps();
    let times = |ceiling_qps: Option<f64>| Some(ceiling_qps? / figure_qps?.median);
    let player_headroom = times(case.player_qps);
    let mut bottleneck = bottleneck(case.starts.iter().flat_map(|start| start.failed.iter().copied()));
    if bottleneck.trials == 0 && figure_qps.is_some() && !case.starts.iter().any(|start| start.gave_way) {
        bottleneck.resource = Resource::NoneSaturated;
    }

    let mut warnings = warnings(case, &bottleneck, player_headroom);
    let doubt = |warning: &Warning| Doubt::of_warning(warning, bottleneck.player_lack);
    // A load that held is a lower limit of the rate, whatever the host did.
    let against = figure_qps.filter(|_| at_least_qps.is_none()).and_then(|figure| {
        Doubt::of_waits(case, &figure, core_time.as_ref())
            .or_else(|| Doubt::of_unsteady(unsteady))
            .or_else(|| Doubt::of_trials(case, &figure))
    });
    let is_refused =
        against.is_some() || warnings.iter().any(|warning| doubt(warning).weight() == Doubt::REFUSES);
    if is_refused {
        // The warning that the subject may be faster needs a figure, and there is none.
        warnings.retain(|warning| warning.code != Code::Irregular);
    }
    warnings.sort_by_key(|warning| warning.code);
    if case.names_flags {
        warnings = warnings.into_iter().map(Warning::with_flags).collect();
    }
    let outside = figure_qps
        .filter(|_| estimated.is_some() && at_least_qps.is_none())
        .is_some_and(|figure| !bounds.hold(figure.median));
    let mut doubts: Vec<Doubt> = warnings.iter().map(doubt).chain(against).collect();
    match (figure_qps, at_least_qps) {
        (Some(figure), Some(_)) => doubts.extend(Doubt::of_starts(case, &figure)),
        _ => doubts.extend(Doubt::of_figure(case, (figure_qps, share), is_refused)),
    }
    if let Some(figure) = figure_qps.filter(|_| !is_refused && at_least_qps.is_none()) {
        doubts.extend(core_time.and_then(|core_time| Doubt::of_wider_range(&core_time)));
        doubts.extend(Doubt::of_unsteady_range(unsteady));
        doubts.extend(Doubt::of_bounds(&bounds, &figure, case).filter(|_| outside));
        doubts.extend(Doubt::of_limit(&bottleneck));
        if estimated.is_some() && case.starts.iter().all(|start| start.throughput_qps().is_none()) {
            doubts.push(Doubt::without_bound());
        }
        if share_rests_on_spoiled || case.figured().is_some_and(Estimate::rests_on_spoiled) {
            doubts.push(Doubt::on_spoiled());
        }
    }
    doubts.sort_by_key(Doubt::weight);
    let grade = grade(&doubts);
    let is_figure = !grade.refuses() && at_least_qps.is_none();
    Weighed {
        figure_qps: figure_qps.filter(|_| is_figure),
        at_least_qps: at_least_qps.filter(|_| !grade.refuses()),
        whole_core_qps: core_time.and_then(|core_time| core_time.whole_qps),
        player_headroom: player_headroom.filter(|_| !grade.refuses()),
        share: share.filter(|_| is_figure),
        has_bounds: !grade.refuses() && !outside,
        bottleneck,
        grade,
        advice: doubts.iter().map(Doubt::advice).collect(),
        reasons: doubts.into_iter().map(|doubt| doubt.reason).collect(),
        warnings,
    }
}

fn all_trials<'a>(case: &'a Case<'_>) -> impl Iterator<Item = &'a Trial> {
    let measured = case.starts.iter().filter(|start| start.verdict.failure.is_none());
    measured.flat_map(|start| start.all.iter().copied())
}

/// The figure as a share of its echo's rate, and whether it rests on spoiled trials of either. If the trials of both give an
/// estimate, the interval covers the scatter of both.
fn share(case: &Case<'_>, figure_qps: Option<Interval>) -> (Option<Interval>, bool) {
    let estimated = case.figured();
    let over = estimated.zip(case.echo.as_ref()).map(|(estimate, echo)| estimate.over(echo));
    let plain = || Some(figure_qps?.times(1.0 / case.echo_qps?));
    let rests_on_spoiled = over.as_ref().is_some_and(Estimate::rests_on_spoiled);
    (over.map_or_else(plain, |over| Some(over.interval())), rests_on_spoiled)
}

/// The median of the starts' conditional throughputs. The range of order statistics begins at these figures and
/// extends to the upper bounds, since the truth of a start lies between its bounds. Otherwise starts whose
/// searches all ended at the same loads would seem to agree to the last digit.
fn figure(starts: &[Start<'_>]) -> Option<Interval> {
    let figures: Vec<f64> = starts.iter().filter_map(Start::throughput_qps).collect();
    let highest = |start: &Start<'_>| {
        let figure_qps = start.throughput_qps()?;
        Some(start.bounds()?.upper_qps.unwrap_or(figure_qps).max(figure_qps))
    };
    let highest: Vec<f64> = starts.iter().filter_map(highest).collect();
    let high = median_interval(&highest)?.high;
    median_interval(&figures).map(|interval| Interval { high, ..interval })
}

/// The grade that the doubts allow: the worst cap, lowered by one grade for each doubt that lowers.
fn grade(doubts: &[Doubt]) -> Grade {
    let caps = doubts.iter().filter_map(|doubt| match doubt.effect {
        Some(Effect::Cap(grade)) => Some(grade),
        Some(Effect::Refuse | Effect::RedoThenRefuse) => Some(Grade::F),
        Some(Effect::DownOne | Effect::Mention) | None => None,
    });
    let capped = caps.max().unwrap_or(Grade::A);
    let lowered = doubts.iter().filter(|doubt| doubt.effect == Some(Effect::DownOne));
    lowered.fold(capped, |grade, _| grade.down_one())
}

fn is_most(some: usize, all: usize) -> bool {
    some * 2 > all
}

/// Whether at least half are so: the median of all then rests on one of them.
fn is_half(some: usize, all: usize) -> bool {
    some > 0 && some * 2 >= all
}

fn warnings(case: &Case<'_>, bottleneck: &Bottleneck, player_headroom: Option<f64>) -> Vec<Warning> {
    let at_lower: Vec<&Trial> = case.starts.iter().flat_map(|start| start.at_lower.iter().copied()).collect();
    let all: Vec<&Trial> = all_trials(case).collect();
    // Without a lower bound, the warnings that most trials carry explain why there is none.
    let mut warnings = prevailing(if at_lower.is_empty() { &all } else { &at_lower }, case.surroundings);
    let mut replace = |warning: Warning| {
        let others = warnings.iter().position(|other: &Warning| other.code == warning.code);
        match others {
            Some(index) if is_graver(&warning, &warnings[index]) => warnings[index] = warning,
            Some(_) => {}
            None => warnings.push(warning),
        }
    };

    if let Some(warning) = player_headroom.and_then(warning::player_headroom) {
        replace(warning);
    }
    let failed: Vec<&Trial> = case.starts.iter().flat_map(|start| start.failed.iter().copied()).collect();
    if bottleneck.resource == Resource::Player {
        failed
            .iter()
            .filter_map(|trial| warning::player_limited(trial))
            .max_by_key(Warning::effect)
            .map(&mut replace);
    }
    if bottleneck.resource == Resource::Places {
        failed.iter().filter_map(|trial| warning::few_places(trial)).next_back().map(&mut replace);
    }
    warning::noisy_host(all.iter().copied(), case.surroundings).map(&mut replace);
    all.iter().find_map(|trial| warning::wrong_answers(trial)).map(&mut replace);
    let spoiled = || case.starts.iter().flat_map(|start| start.spoiled.iter().copied());
    spoiled().find_map(warning::lagging).map(&mut replace);
    spoiled().find_map(warning::send_failed).map(&mut replace);
    spoiled().find_map(warning::client_drops).map(&mut replace);
    spoiled().find_map(warning::late_player).map(&mut replace);
    spoiled().find_map(warning::skewed_start).map(&mut replace);
    case.starts.iter().find_map(|start| warning::no_steady_state(start.warm_up)).map(&mut replace);

    let at_usual_speed = |bounds: &Bounds| {
        let mut bounds = bounds.clone();
        bounds.convert_to(case.usual_speed);
        bounds
    };
    let searched: Vec<Bounds> = case.starts.iter().filter_map(Start::bounds).map(at_usual_speed).collect();
    let drifted: Vec<Warning> = searched.iter().filter_map(|bounds| drifted(bounds, case.what())).collect();
    if is_half(drifted.len(), searched.len()) {
        replace(drifted[0].clone());
    }
    let irregular: Vec<f64> =
        searched.iter().filter(|bounds| bounds.irregular).filter_map(|bounds| bounds.lower_qps).collect();
    if is_half(irregular.len(), searched.len()) {
        replace(Warning::irregular(irregular[0], case.what()));
    }
    case.canary.clone().map(&mut replace);
    if case.cut_short == Some(CutShort::Player) {
        replace(warning::player_without_cpu_time());
    }
    warnings
}

/// The warning about a search whose lower bound drifted.
fn drifted(bounds: &Bounds, what: &str) -> Option<Warning> {
    let in_part =
        |lower_qps: &f64| Warning::drifted_in_part(*lower_qps, what, bounds.retests_good, bounds.retests);
    bounds
        .refuted_qps
        .map(|refuted_qps| Warning::drifted(refuted_qps, what))
        .or_else(|| bounds.lower_qps.as_ref().filter(|_| bounds.is_shaky()).map(in_part))
}

fn is_graver(one: &Warning, other: &Warning) -> bool {
    one.effect() > other.effect()
}

/// The warnings that most of these trials carry, each in its gravest form. Noise is left out: one trial is too
/// short to show it, so the sum of all trials does.
fn prevailing(trials: &[&Trial], surroundings: &Surroundings) -> Vec<Warning> {
    let mut by_code: BTreeMap<Code, Vec<Warning>> = BTreeMap::new();
    for warning in trials.iter().flat_map(|trial| warning::of_trial(trial, surroundings)) {
        by_code.entry(warning.code).or_default().push(warning);
    }
    let prevail = by_code
        .into_iter()
        .filter(|(code, found)| *code != Code::NoisyHost && is_most(found.len(), trials.len()));
    prevail.filter_map(|(_, found)| found.into_iter().max_by_key(Warning::effect)).collect()
}
