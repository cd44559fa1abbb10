//! How the starts of one cell become a figure and a grade. A warning stands when most of the trials at the
//! lower bounds carry it, for the search itself forgives a share of bad ones. A wrong answer counts wherever it
//! is found, and so does a trial at a bound that the player spoiled as often as it was made.

use std::collections::BTreeMap;

use kqps_observation::Trial;

use super::start::Start;
use crate::advice::{Action, Advice};
use crate::bottleneck::{Bottleneck, Resource, bottleneck};
use crate::estimate::Estimate;
use crate::grade::Grade;
use crate::interval::{Interval, median_interval, outlying};
use crate::rate::plain;
use crate::search::{Bounds, Futile};
use crate::warning::{self, Code, Effect, Setting, Warning};

/// All that a figure is weighed by.
pub(super) struct Case<'a> {
    pub(super) setting: &'a Setting,
    /// The share of a load that buffers may hide when trials are as long as the goal wants them.
    pub(super) hidden_most: f64,
    pub(super) starts: &'a [Start<'a>],
    /// What all trials together say of the rate; none where they do not bound it.
    pub(super) estimate: Option<&'a Estimate>,
    /// What all trials of its echo say, where there were any.
    pub(super) echo: Option<Estimate>,
    pub(super) player_qps: Option<f64>,
    pub(super) echo_qps: Option<f64>,
    /// What the canaries of its run say.
    pub(super) canary: Option<Warning>,
    /// Whether the server was running before, so that a start is a session with it and no life of its own.
    pub(super) was_running: bool,
    /// Whether advice names the flags of `kqps find`.
    pub(super) names_flags: bool,
}

/// A figure and what it is worth.
pub(super) struct Weighed {
    pub(super) figure_qps: Option<Interval>,
    pub(super) player_headroom: Option<f64>,
    pub(super) share: Option<Interval>,
    pub(super) bottleneck: Bottleneck,
    pub(super) grade: Grade,
    pub(super) reasons: Vec<String>,
    /// What to do about each of them.
    pub(super) advice: Vec<Option<Advice>>,
    pub(super) warnings: Vec<Warning>,
}

pub(super) fn weigh(case: &Case<'_>) -> Weighed {
    let estimated = case.estimate.filter(|_| is_estimated(case.starts)).map(Estimate::interval);
    let figure_qps = estimated.or_else(|| figure(case.starts));
    let times = |ceiling_qps: Option<f64>| Some(ceiling_qps? / figure_qps?.median);
    let player_headroom = times(case.player_qps);
    let mut bottleneck = bottleneck(case.starts.iter().flat_map(|start| start.failed.iter().copied()));
    if bottleneck.trials == 0 && figure_qps.is_some() {
        // Every load that was tried met the goal.
        bottleneck.resource = Resource::NoneSaturated;
    }

    let mut warnings = warnings(case, &bottleneck, player_headroom);
    let is_refused = warnings.iter().any(|warning| Doubt::of_warning(warning).weight() == Doubt::REFUSES);
    if is_refused {
        // That the subject may be faster still is said of a figure, and there is none.
        warnings.retain(|warning| warning.code != Code::Irregular);
    }
    warnings.sort_by_key(|warning| warning.code);
    if case.names_flags {
        warnings = warnings.into_iter().map(Warning::with_flags).collect();
    }
    let mut doubts: Vec<Doubt> = warnings.iter().map(Doubt::of_warning).collect();
    doubts.extend(Doubt::of_figure(case, figure_qps, is_refused));
    if estimated.is_some() && case.starts.iter().all(|start| start.throughput_qps().is_none()) {
        doubts.push(Doubt::without_bound());
    }
    doubts.sort_by_key(Doubt::weight);
    let grade = grade(&doubts);
    let shown = |figure: Option<f64>| figure.filter(|_| !grade.refuses());
    Weighed {
        figure_qps: figure_qps.filter(|_| !grade.refuses()),
        player_headroom: shown(player_headroom),
        share: share(case, figure_qps).filter(|_| !grade.refuses()),
        bottleneck,
        grade,
        advice: doubts.iter().map(Doubt::advice).collect(),
        reasons: doubts.into_iter().map(|doubt| doubt.reason).collect(),
        warnings,
    }
}

/// Whether the figure is what the trials say together: of a search, unless it shows that no load is any better.
fn is_estimated(starts: &[Start<'_>]) -> bool {
    let is_searched = starts.iter().any(|start| start.verdict.is_searched);
    is_searched && starts.iter().filter_map(Start::bounds).all(|bounds| bounds.futile.is_none())
}

/// The figure as a share of its echo's rate. The interval is that of both, where trials of both give one.
fn share(case: &Case<'_>, figure_qps: Option<Interval>) -> Option<Interval> {
    let estimated = case.estimate.filter(|_| is_estimated(case.starts));
    match estimated.zip(case.echo.as_ref()) {
        Some((estimate, echo)) => Some(estimate.over(echo).interval()),
        None => Some(figure_qps?.times(1.0 / case.echo_qps?)),
    }
}

/// The median of the starts' conditional throughputs. The range is that of order statistics, from those figures
/// up to the upper bounds: the truth of a start lies between its bounds, and starts whose searches all ended at
/// the same loads would otherwise seem to agree to the last digit.
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

/// One reason for a grade.
struct Doubt {
    effect: Option<Effect>,
    reason: String,
    action: Option<Action>,
}

/// Starts that a verdict should rest on: fewer cannot reach an interval of 95 %.
const ENOUGH_STARTS: u32 = 6;

/// A share of the ceiling that rounding does not explain.
const ABOVE: f64 = 1.005;

impl Doubt {
    /// The weight of what leaves no figure.
    const REFUSES: u8 = 0;

    fn of_warning(warning: &Warning) -> Self {
        let action = Some(Action::of_warning(warning.code));
        Self { effect: Some(warning.effect()), reason: warning.to_string(), action }
    }

    fn advice(&self) -> Option<Advice> {
        Some(Advice { gravity: self.weight(), action: self.action? })
    }

    /// The gravest first: the grade that it leaves at best.
    fn weight(&self) -> u8 {
        match self.effect {
            Some(Effect::Refuse | Effect::RedoThenRefuse) => Self::REFUSES,
            Some(Effect::Cap(grade)) => 3 - grade as u8,
            Some(Effect::DownOne) => 4,
            None => 5,
        }
    }

    /// What is to be said of a figure that all trials give together, and no load of them alone.
    fn without_bound() -> Self {
        let reason = "No load met the goal often enough to be a lower bound: the figure is what all trials say together.";
        Self { effect: Some(Effect::Cap(Grade::C)), action: Some(Action::MoreTime), reason: reason.into() }
    }

    /// What is to be said of the figure; of one that is refused nothing of how well it is known.
    fn of_figure(case: &Case<'_>, figure_qps: Option<Interval>, is_refused: bool) -> Vec<Self> {
        let Some(interval) = figure_qps else {
            let reason = why_no_figure(case.starts);
            return vec![Self { effect: Some(Effect::Refuse), action: None, reason }];
        };
        let mut doubts = Self::of_starts(case, &interval);
        doubts.extend(Self::of_echo(case, &interval));
        doubts.extend(Self::of_spread(case, &interval).filter(|_| !is_refused));
        let of_searches = of_searches(case.starts, case.hidden_most, is_refused).into_iter();
        doubts.extend(of_searches.map(|reason| Self { effect: None, action: None, reason }));
        doubts
    }

    /// How many starts there were, how many failed, and which stands out.
    fn of_starts(case: &Case<'_>, interval: &Interval) -> Vec<Self> {
        let mut doubts = Vec::new();
        let mut tell = |reason: String| doubts.push(Self { effect: None, action: None, reason });
        let failures: Vec<&str> = failures(case.starts).collect();
        if let Some(first) = failures.first() {
            tell(format!("{} of {} starts failed: {first}", failures.len(), case.starts.len()));
        }
        if let Some(reason) = outlying_starts(case.starts) {
            tell(reason);
        }
        if case.was_running && interval.count > 1 {
            let reason = "The server was running before: each start is one session with the same life of it. The range \
                          shows how sessions differ, not how a restarted server would.";
            tell(reason.into());
        }
        let covers = interval.coverage * 100.0;
        let (cap, reason) = match interval.count {
            1 => (Grade::C, "The figure rests on one start, so how much starts differ is not known.".into()),
            starts @ ..ENOUGH_STARTS if is_estimated(case.starts) => {
                let few = format!(
                    "The figure rests on {starts} starts, too few to know well how much starts differ."
                );
                (Grade::B, few)
            }
            starts @ ..ENOUGH_STARTS => {
                let reason = format!(
                    "The figure rests on {starts} starts: its range covers the truth with {covers:.0} %, and with 97 % \
                     if there were six."
                );
                (Grade::B, reason)
            }
            _ => return doubts,
        };
        // A search has one start, however long it lasts.
        let action = (!case.names_flags).then_some(Action::MoreTime);
        doubts.push(Self { effect: Some(Effect::Cap(cap)), action, reason });
        doubts
    }

    /// What was not measured of the echo, or does not bound the figure.
    fn of_echo(case: &Case<'_>, interval: &Interval) -> Vec<Self> {
        let unmeasured = case.player_qps.is_none().then(|| Self {
            effect: Some(Effect::Cap(Grade::C)),
            action: Some(Action::MeasureEcho),
            reason: "The player's own ceiling was not measured, so nothing shows that it was not the limit."
                .into(),
        });
        let share = case.echo_qps.map(|echo_qps| interval.median / echo_qps).filter(|it| *it > ABOVE);
        let above = share.map(|share| Self {
            effect: None,
            action: None,
            reason: format!(
                "It is {:.0} % of the echo's rate that it is held against, so that rate is no ceiling of it.",
                share * 100.0
            ),
        });
        unmeasured.into_iter().chain(above).collect()
    }

    /// How well the figure is known; none where that is well enough.
    fn of_spread(case: &Case<'_>, interval: &Interval) -> impl Iterator<Item = Self> {
        let spread = interval.half_width().max(hidden_share(case.starts).unwrap_or(0.0));
        let (cap, only) = match spread {
            ..=0.01 => (None, ""),
            ..=0.05 => (Some(Grade::B), ""),
            _ => (Some(Grade::C), " only"),
        };
        let reason = format!("The figure is known to ± {:.1} %{only}.", spread * 100.0);
        cap.map(|cap| Self { effect: Some(Effect::Cap(cap)), action: Some(Action::MoreTime), reason })
            .into_iter()
    }
}

fn failures<'a>(starts: &'a [Start<'_>]) -> impl Iterator<Item = &'a str> {
    starts.iter().filter_map(|start| start.verdict.failure.as_deref())
}

/// Which starts stand out; none where all are alike.
fn outlying_starts(starts: &[Start<'_>]) -> Option<String> {
    let (blocks, figures): (Vec<u32>, Vec<f64>) =
        starts.iter().filter_map(|start| Some((start.verdict.block, start.throughput_qps()?))).unzip();
    let told: Vec<String> = outlying(&figures)
        .into_iter()
        .map(|at| format!("that of block {} with {} q/s", blocks[at] + 1, plain(figures[at])))
        .collect();
    (!told.is_empty())
        .then(|| format!("Of its starts {} stands far out; it counts like all others.", told.join(" and ")))
}

/// Why there is no figure: nobody tried, nothing could be tried, time was short, or no load met the goal.
fn why_no_figure(starts: &[Start<'_>]) -> String {
    if let Some(first) = failures(starts).next() {
        let (failed, all) = (failures(starts).count(), starts.len());
        return match all {
            1 => format!("Its only start failed, so there is no figure: {first}"),
            _ if failed == all => format!("All of its {all} starts failed, so there is no figure: {first}"),
            _ => format!("No start gave a figure, and {failed} of {all} failed: {first}"),
        };
    }
    let searches: Vec<&Bounds> = starts.iter().filter_map(Start::bounds).collect();
    if searches.is_empty() {
        return "It was never tried: the run or its budget ended before it was begun.".into();
    }
    if let Some(futile) = searches.iter().find_map(|bounds| bounds.futile) {
        return why_futile(futile);
    }
    if let Some(refuted_qps) = searches.iter().filter_map(|bounds| bounds.refuted_qps).reduce(f64::min) {
        return format!(
            "{} queries a second met the goal and failed when they were tried once more, and no lesser load was tried \
             often enough to hold.",
            plain(refuted_qps)
        );
    }
    if searches.iter().any(|bounds| bounds.interrupted) {
        return "The search was interrupted before any load was known to meet the goal.".into();
    }
    if searches.iter().any(|bounds| bounds.incomplete) {
        return "The time for the search was used up before any load was known to meet the goal.".into();
    }
    "No load met the goal in any start, so there is no figure.".into()
}

/// Why a search ended early, and what to look for.
fn why_futile(futile: Futile) -> String {
    match futile {
        Futile::Wrong { .. } => {
            "The search ended early: with so many wrong answers there is no figure, whatever the load.".into()
        }
        Futile::Silent => {
            "The search ended early: not one query of the overload was answered. Look for a packet \
                           filter, and ask the server one of these questions by hand."
                .into()
        }
        Futile::Late { .. } => format!(
            "The search ended early: {futile}. Allow the answers more time (--timeout), as the way to a server far away \
             takes, or look for what delays them."
        ),
        Futile::Lossy { .. } => format!(
            "The search ended early: {futile}. Look for a packet filter or a rate limit, on the path or in the \
             server, and for queries that it does not answer."
        ),
    }
}

/// What is to be said of searches that did not end as they should, when it is not said by a warning.
fn of_searches(starts: &[Start<'_>], hidden_most: f64, is_refused: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    let all = starts.iter().filter_map(Start::bounds).count();
    let mut tell = |holds: fn(&Bounds) -> bool, at_most: usize, what: &str| {
        let some = count(starts, holds);
        if some > 0 && some <= at_most {
            reasons.push(format!("{some} of {all} searches {what}"));
        }
    };
    tell(|bounds| bounds.interrupted, all, "were interrupted before they were over.");
    tell(|bounds| bounds.incomplete, all, "ran out of time before their bounds were close.");
    // If as many as half did there is a warning.
    let few = all.div_ceil(2).saturating_sub(1);
    tell(
        |bounds| bounds.refuted_qps.is_some(),
        few,
        "drifted: a load that had met the goal failed when it was tried once more, and does not count as a bound.",
    );
    tell(
        |bounds| bounds.refuted_qps.is_none() && bounds.is_shaky(),
        few,
        "drifted: their lower bound missed the goal in several trials at the end, though in no more than the goal allows.",
    );
    let irregular_most = if is_refused { 0 } else { few };
    tell(
        |bounds| bounds.irregular,
        irregular_most,
        "were irregular: even the greatest load tried met the goal.",
    );
    let untested = untested(starts);
    if untested > 0 {
        reasons.push(format!(
            "{untested} of {all} searches had no time to try their lower bound once more at the end: whether it drifted \
             is not known."
        ));
    }
    match hidden_share(starts) {
        None if starts.iter().all(|start| !start.verdict.is_searched) => {}
        None => reasons.push(
            "How many packets the subject's buffers hold did not show: they may have hidden a loss in short \
             trials."
                .into(),
        ),
        Some(hidden) if hidden > hidden_most => reasons.push(format!(
            "Trials were shorter than the subject's buffers ask for: these could have hidden {:.1} % of the load.",
            hidden * 100.0
        )),
        Some(_) => {}
    }
    reasons
}

/// How many searches found a lower bound and did not try it once more.
fn untested(starts: &[Start<'_>]) -> usize {
    let searches = starts.iter().filter(|start| start.verdict.is_searched).filter_map(Start::bounds);
    let is_untested =
        |bounds: &&Bounds| bounds.lower_qps.is_some() && bounds.retests == 0 && !bounds.interrupted;
    searches.filter(is_untested).count()
}

/// The greatest share of its load that the buffers could have hidden in any search; none where one is unknown.
fn hidden_share(starts: &[Start<'_>]) -> Option<f64> {
    let searches = starts.iter().filter(|start| start.verdict.is_searched).filter_map(Start::bounds);
    searches
        .filter(|bounds| bounds.lower_qps.is_some())
        .map(|bounds| bounds.hidden_share)
        .reduce(|a, b| Some(a?.max(b?)))
        .flatten()
}

fn count(starts: &[Start<'_>], holds: impl Fn(&Bounds) -> bool) -> usize {
    starts.iter().filter_map(Start::bounds).filter(|bounds| holds(bounds)).count()
}

/// The grade that the doubts leave: the worst cap, and from there a grade lower for each doubt that lowers.
fn grade(doubts: &[Doubt]) -> Grade {
    let caps = doubts.iter().filter_map(|doubt| match doubt.effect {
        Some(Effect::Cap(grade)) => Some(grade),
        Some(Effect::Refuse | Effect::RedoThenRefuse) => Some(Grade::F),
        Some(Effect::DownOne) | None => None,
    });
    let capped = caps.max().unwrap_or(Grade::A);
    let lowered = doubts.iter().filter(|doubt| doubt.effect == Some(Effect::DownOne));
    lowered.fold(capped, |grade, _| grade.down_one())
}

/// Whether most of some things are so.
fn is_most(some: usize, all: usize) -> bool {
    some * 2 > all
}

/// Whether as many are so as are not: then the median of all rests on one that is.
fn is_half(some: usize, all: usize) -> bool {
    some > 0 && some * 2 >= all
}

fn warnings(case: &Case<'_>, bottleneck: &Bottleneck, player_headroom: Option<f64>) -> Vec<Warning> {
    let at_lower: Vec<&Trial> = case.starts.iter().flat_map(|start| start.at_lower.iter().copied()).collect();
    let all: Vec<&Trial> = case.starts.iter().flat_map(|start| start.all.iter().copied()).collect();
    // Without a lower bound the warnings that most trials carry say why there is none.
    let mut warnings = prevailing(if at_lower.is_empty() { &all } else { &at_lower }, case.setting);
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
    warning::noisy_host(all.iter().copied(), case.setting).map(&mut replace);
    all.iter().find_map(|trial| warning::wrong_answers(trial)).map(&mut replace);
    let spoiled = || case.starts.iter().flat_map(|start| start.spoiled.iter().copied());
    spoiled().find_map(warning::lagging).map(&mut replace);
    spoiled().find_map(warning::send_failed).map(&mut replace);
    spoiled().find_map(warning::client_drops).map(&mut replace);
    case.starts.iter().find_map(|start| warning::no_steady_state(start.warm_up)).map(&mut replace);

    let searched: Vec<_> = case.starts.iter().filter_map(Start::bounds).collect();
    let drifted: Vec<Warning> = searched.iter().filter_map(|bounds| drifted(bounds)).collect();
    if is_half(drifted.len(), searched.len()) {
        replace(drifted[0].clone());
    }
    let irregular: Vec<f64> =
        searched.iter().filter(|bounds| bounds.irregular).filter_map(|bounds| bounds.lower_qps).collect();
    if is_half(irregular.len(), searched.len()) {
        replace(Warning::irregular(irregular[0]));
    }
    case.canary.clone().map(&mut replace);
    warnings
}

/// What a search that drifted gives cause to warn of.
fn drifted(bounds: &Bounds) -> Option<Warning> {
    let in_part = |lower_qps: &f64| Warning::drifted_in_part(*lower_qps, bounds.retests_good, bounds.retests);
    bounds
        .refuted_qps
        .map(Warning::drifted)
        .or_else(|| bounds.lower_qps.as_ref().filter(|_| bounds.is_shaky()).map(in_part))
}

fn is_graver(one: &Warning, other: &Warning) -> bool {
    one.effect() > other.effect()
}

/// The warnings that most of these trials carry, each as the gravest of them has it. Noise is left to the sum
/// of all trials, for one alone is too short.
fn prevailing(trials: &[&Trial], setting: &Setting) -> Vec<Warning> {
    let mut by_code: BTreeMap<Code, Vec<Warning>> = BTreeMap::new();
    for warning in trials.iter().flat_map(|trial| warning::of_trial(trial, setting)) {
        by_code.entry(warning.code).or_default().push(warning);
    }
    let prevail = by_code
        .into_iter()
        .filter(|(code, found)| *code != Code::NoisyHost && is_most(found.len(), trials.len()));
    prevail.filter_map(|(_, found)| found.into_iter().max_by_key(Warning::effect)).collect()
}
