//! How the starts of one cell become a figure and a grade. A warning stands when most of the trials at the
//! lower bounds carry it, for the search itself forgives a share of bad ones; a wrong answer counts wherever it
//! is found.

use std::collections::BTreeMap;

use kqps_observation::Trial;

use super::start::Start;
use crate::bottleneck::{Bottleneck, Resource, bottleneck};
use crate::grade::Grade;
use crate::interval::{Interval, median_interval};
use crate::warning::{self, Code, Effect, Setting, Warning};

/// All that a figure is weighed by.
pub(super) struct Case<'a> {
    pub(super) setting: &'a Setting,
    pub(super) starts: &'a [Start<'a>],
    pub(super) player_qps: Option<f64>,
    pub(super) echo_qps: Option<f64>,
}

/// A figure and what it is worth.
pub(super) struct Weighed {
    pub(super) figure_qps: Option<Interval>,
    pub(super) player_headroom: Option<f64>,
    pub(super) ceiling_share: Option<f64>,
    pub(super) bottleneck: Bottleneck,
    pub(super) grade: Grade,
    pub(super) reasons: Vec<String>,
    pub(super) warnings: Vec<Warning>,
}

pub(super) fn weigh(case: &Case<'_>) -> Weighed {
    let figures: Vec<f64> = case.starts.iter().filter_map(Start::throughput_qps).collect();
    let figure_qps = median_interval(&figures);
    let times = |ceiling_qps: Option<f64>| Some(ceiling_qps? / figure_qps?.median);
    let player_headroom = times(case.player_qps);
    let bottleneck = bottleneck(case.starts.iter().flat_map(|start| start.failed.iter().copied()));

    let mut warnings = warnings(case, &bottleneck, player_headroom);
    warnings.sort_by_key(|warning| warning.code);
    let mut doubts: Vec<Doubt> = warnings.iter().map(Doubt::of_warning).collect();
    doubts.extend(Doubt::of_figure(case, figure_qps));
    doubts.sort_by_key(Doubt::weight);
    let grade = grade(&doubts);
    let shown = |figure: Option<f64>| figure.filter(|_| !grade.refuses());
    Weighed {
        figure_qps: figure_qps.filter(|_| !grade.refuses()),
        player_headroom: shown(player_headroom),
        ceiling_share: shown(times(case.echo_qps).map(|times| 1.0 / times)),
        bottleneck,
        grade,
        reasons: doubts.into_iter().map(|doubt| doubt.reason).collect(),
        warnings,
    }
}

/// One reason for a grade.
struct Doubt {
    effect: Option<Effect>,
    reason: String,
}

/// Starts that a verdict should rest on: fewer cannot reach an interval of 95 %.
const ENOUGH_STARTS: u32 = 6;

impl Doubt {
    fn of_warning(warning: &Warning) -> Self {
        Self { effect: Some(warning.effect()), reason: warning.to_string() }
    }

    /// The gravest first: the grade that it leaves at best.
    fn weight(&self) -> u8 {
        match self.effect {
            Some(Effect::Refuse | Effect::RedoThenRefuse) => 0,
            Some(Effect::Cap(grade)) => 3 - grade as u8,
            Some(Effect::DownOne) => 4,
            None => 5,
        }
    }

    fn of_figure(case: &Case<'_>, figure_qps: Option<Interval>) -> Vec<Self> {
        let mut doubts = Vec::new();
        let mut add = |effect: Option<Effect>, reason: String| doubts.push(Self { effect, reason });
        let all = case.starts.len();
        let failures: Vec<&str> =
            case.starts.iter().filter_map(|start| start.verdict.failure.as_deref()).collect();
        if let Some(first) = failures.first() {
            add(None, format!("{} of {all} starts failed: {first}", failures.len()));
        }
        let Some(interval) = figure_qps else {
            let was_loaded = case.starts.iter().any(|start| start.bounds().is_some());
            let reason = if was_loaded {
                "No load met the goal in any start, so there is no figure."
            } else {
                "No start was measured, so there is no figure."
            };
            add(Some(Effect::Refuse), reason.into());
            return doubts;
        };
        if interval.count == 1 {
            let reason = "The figure rests on one start, so how much starts differ is not known.";
            add(Some(Effect::Cap(Grade::C)), reason.into());
        } else if interval.count < ENOUGH_STARTS {
            let (starts, covers) = (interval.count, interval.coverage * 100.0);
            let reason = format!(
                "The figure rests on {starts} starts: its range covers the truth with {covers:.0} %, and with 97 % \
                 if there were six."
            );
            add(Some(Effect::Cap(Grade::B)), reason);
        }
        let spread = interval.half_width().max(half_gap(case.starts));
        let share = spread * 100.0;
        match spread {
            ..=0.01 => {}
            ..=0.05 => add(Some(Effect::Cap(Grade::B)), format!("The figure is known to ± {share:.1} %.")),
            _ => add(Some(Effect::Cap(Grade::C)), format!("The figure is known to ± {share:.1} % only.")),
        }
        let incomplete = count(case.starts, |bounds| bounds.incomplete);
        if incomplete > 0 {
            let reason =
                format!("{incomplete} of {all} searches ran out of time before their bounds were close.");
            add(None, reason);
        }
        doubts
    }
}

/// Half of the distance between the bounds, in the median of the starts, as a share of the upper one.
fn half_gap(starts: &[Start<'_>]) -> f64 {
    let gaps = starts.iter().filter_map(Start::bounds).filter_map(|bounds| {
        let (lower_qps, upper_qps) = (bounds.lower_qps?, bounds.upper_qps?);
        Some((upper_qps - lower_qps) / upper_qps / 2.0)
    });
    median_interval(&gaps.collect::<Vec<f64>>()).map_or(0.0, |interval| interval.median)
}

fn count(starts: &[Start<'_>], holds: impl Fn(&crate::search::Bounds) -> bool) -> usize {
    starts.iter().filter_map(Start::bounds).filter(|bounds| holds(bounds)).count()
}

/// The grade that the doubts leave, beginning with an A.
fn grade(doubts: &[Doubt]) -> Grade {
    let is_warned = |doubt: &&Doubt| doubt.effect.is_some();
    let best = if doubts.iter().any(|doubt| is_warned(&doubt)) { Grade::B } else { Grade::A };
    let lowered = doubts.iter().filter(|doubt| doubt.effect == Some(Effect::DownOne)).count();
    let lowered = (0..lowered).fold(Grade::A, |grade, _| grade.down_one());
    let capped = doubts.iter().filter_map(|doubt| match doubt.effect {
        Some(Effect::Cap(grade)) => Some(grade),
        Some(Effect::Refuse | Effect::RedoThenRefuse) => Some(Grade::F),
        Some(Effect::DownOne) | None => None,
    });
    capped.chain([best, lowered]).max().unwrap_or(Grade::A)
}

/// Whether most of some things are so.
fn is_most(some: usize, all: usize) -> bool {
    some * 2 > all
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
    case.starts.iter().find_map(|start| warning::no_steady_state(start.warm_up)).map(&mut replace);

    let searched: Vec<_> = case.starts.iter().filter_map(Start::bounds).collect();
    let drifted: Vec<f64> =
        searched.iter().filter(|bounds| bounds.drifted).filter_map(|bounds| bounds.lower_qps).collect();
    if is_most(drifted.len(), searched.len()) {
        replace(Warning::drifted(drifted[0]));
    }
    let irregular: Vec<f64> =
        searched.iter().filter(|bounds| bounds.irregular).filter_map(|bounds| bounds.lower_qps).collect();
    if is_most(irregular.len(), searched.len()) {
        replace(Warning::irregular(irregular[0]));
    }
    warnings
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
