//! The judgement of one search, which `kqps find` prints.

use std::borrow::Cow;

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::case::{Case, CutShort};
use super::moment::Moment;
use super::outer_bounds::OuterBounds;
use super::start::{Played, Start};
use super::weigh::weigh;
use crate::advice::Advice;
use crate::bottleneck::Bottleneck;
use crate::breaking::{self, BreakingPoint};
use crate::estimate::{self, Estimate, Speed};
use crate::evidence::is_spoiled;
use crate::grade::Grade;
use crate::interval::Interval;
use crate::search::{Bounds, Goal, Probe};
use crate::speed::{self, Spoiled};
use crate::warning::{self, Surroundings, Warning};

/// The verdict on one search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchVerdict {
    /// The schema version, [`kqps_observation::SCHEMA`].
    pub schema: u32,
    /// The kind of the record, always `"verdict"`.
    pub kind: String,
    /// The goal of the search.
    pub goal: Goal,
    /// The Relevant Lower Bound, queries a second; `None` if the figure is refused, or if it does not
    /// lie between the bounds.
    pub lower_bound_qps: Option<f64>,
    /// The Relevant Upper Bound, queries a second; `None` if the search found none, if the figure is
    /// refused, or if it does not lie between the bounds.
    pub upper_bound_qps: Option<f64>,
    /// The bounds that the trials showed, also if the figure is refused.
    #[serde(default)]
    pub seen: Bounds,
    /// The greatest load of the goal, queries a second, if even that met the goal: the subject answers at least this rate.
    /// Nothing shows how much more it answers, and there is no figure. `None` otherwise.
    #[serde(default)]
    pub at_least_qps: Option<f64>,
    /// Answers a second if the subject's busiest thread had a core all the time, by its CPU time for an answer near its
    /// limit. A refused figure leaves it as it is. `None` if too few trials show it, and in older records.
    #[serde(default)]
    pub whole_core_qps: Option<f64>,
    /// The figure, queries a second: the median of `figure_qps`. `None` if it is refused, and beside `at_least_qps`.
    pub throughput_qps: Option<f64>,
    /// The figure with its interval, at the host's usual speed. It is the estimate from the trials without
    /// spoiled and without long ones, or the conditional throughput if these do not bound it. `None` if the
    /// figure is refused.
    #[serde(default)]
    pub figure_qps: Option<Interval>,
    /// The figure at the speed that the cores had, with the trials that the host spoiled. `None` if it is not
    /// known.
    #[serde(default)]
    pub as_it_came_qps: Option<Interval>,
    /// The host's usual speed as a multiple of the reference. Rates here are at the usual speed, except `as_it_came_qps`,
    /// which is at the speed that the cores had, and `trials` and the limits of `goal`, which are at the reference speed.
    #[serde(default = "speed::ungauged")]
    pub usual_speed: f64,
    /// How many trials the host spoiled, by cause.
    #[serde(default)]
    pub host_spoiled: Spoiled,
    /// Whether the search ran out of time or trials before its bounds were close enough.
    pub incomplete: bool,
    /// Whether the user or an error ended the search before it was over. The verdict then states what the search knew so
    /// far, and `incomplete` is false.
    #[serde(default)]
    pub interrupted: bool,
    /// The cause that ended the search before it was over; `None` if nothing did, and in older records.
    #[serde(default)]
    pub cut_short: Option<CutShort>,
    /// The figure as a share of the echo's ceiling, if that was measured.
    pub ceiling_share: Option<f64>,
    /// The share of the echo's ceiling with the interval of the figure.
    #[serde(default)]
    pub share: Option<Interval>,
    /// The load of the subject's busiest worker as a multiple of the workers' mean, at the lower bound: the
    /// median over its trials. `None` if the workers are not known, or were too idle to compare.
    #[serde(default)]
    pub busiest_to_mean: Option<f64>,
    /// The resource that ended the climb.
    pub bottleneck: Bottleneck,
    /// How far the figure can be trusted.
    pub grade: Grade,
    /// The reasons for the grade, the gravest first, each a sentence.
    pub reasons: Vec<String>,
    /// The action for each of the reasons, in their order; `None` if no action helps.
    #[serde(default)]
    pub advice: Vec<Option<Advice>>,
    /// The warnings about the figure.
    pub warnings: Vec<Warning>,
    /// The good clients whose breaking point the figure is; `None` for a search without an attack, and in records older than
    /// the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaking: Option<BreakingPoint>,
    /// The facts that the search used of each trial, in the order in which they were made.
    pub trials: Vec<Probe>,
    /// Indices of the trials that the player spoiled, and that were therefore repeated.
    #[serde(default)]
    pub spoiled: Vec<usize>,
}

/// The context in which one search is judged.
#[derive(Clone, Debug, Default)]
pub struct SearchContext {
    /// The facts about the surroundings of its trials.
    pub surroundings: Surroundings,
    /// Ceiling (a), correct answers a second, if it was measured.
    pub player_qps: Option<f64>,
    /// Ceiling (b), correct answers a second, if it was measured.
    pub echo_qps: Option<f64>,
    /// Ceiling (b) as an estimate, so that the share of it reflects how little one trial shows.
    pub echo: Option<Estimate>,
    /// The host's usual speed as a multiple of the reference, if more trials than those of the search show it.
    /// In a run, the trials of the ceilings do.
    pub usual_speed: Option<f64>,
    /// The cause that ended the search before it was over; `None` if nothing did.
    pub cut_short: Option<CutShort>,
}

fn busiest_to_mean(start: &Start<'_>, surroundings: &Surroundings) -> Option<f64> {
    let workers = surroundings.workers?;
    let mut shares: Vec<f64> =
        start.at_lower.iter().filter_map(|trial| warning::busiest_to_mean(trial, workers)).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

/// Judges the trials of one search, given in the order in which they were made.
pub fn judge_search(goal: &Goal, trials: &[(Purpose, &Trial)], known: &SearchContext) -> SearchVerdict {
    let seen: Vec<(Purpose, Cow<'_, Trial>)> =
        trials.iter().map(|(purpose, trial)| (*purpose, breaking::seen(trial))).collect();
    let trials: Vec<(Purpose, &Trial)> = seen.iter().map(|(purpose, trial)| (*purpose, &**trial)).collect();
    judge_seen(goal, &trials, known)
}

/// As [`judge_search`], of trials as the search saw them.
fn judge_seen(goal: &Goal, trials: &[(Purpose, &Trial)], known: &SearchContext) -> SearchVerdict {
    let played: Vec<Played<'_>> =
        trials.iter().map(|(purpose, trial)| Played { number: 0, purpose: *purpose, trial }).collect();
    let mut start = Start::of_search(goal, &played);
    if known.cut_short.is_some() {
        start.interrupt();
    }
    let sought: Vec<(Purpose, &Trial)> =
        trials.iter().filter(|(purpose, _)| *purpose != Purpose::WarmUp).copied().collect();
    let estimate = estimate::of_search(goal, &sought, Speed::Reference);
    let estimate = estimate.and_then(|estimate| estimate.up_to(goal.max_qps));
    let as_it_came = estimate::of_search(goal, &sought, Speed::AsItCame).map(|estimate| estimate.interval());
    let of_search = || speed::usual_of(trials.iter().map(|(_, trial)| *trial));
    let usual_speed = known.usual_speed.unwrap_or_else(of_search);
    let mut starts = [start];
    let mut weighed = weigh(&Case {
        usual_speed,
        surroundings: &known.surroundings,
        hidden_most: goal.hidden_most(),
        most_qps: goal.max_qps,
        width: goal.width,
        starts: &starts,
        estimate: estimate.as_ref(),
        echo: known.echo.clone(),
        player_qps: known.player_qps,
        echo_qps: known.echo_qps,
        canary: None,
        was_running: false,
        names_flags: true,
        cut_short: known.cut_short,
        moment: Moment::AtEnd,
    });
    starts[0].convert_to(usual_speed);
    let bounds: Bounds = starts[0].bounds().cloned().unwrap_or_default();
    if let Some(by) = known.cut_short {
        let how = match by {
            CutShort::User => "The search was interrupted",
            CutShort::Error => "An error ended the search",
            CutShort::Player => "The player ended the search",
        };
        weighed.reasons.push(format!("{how}: this is what it knew by then."));
        weighed.advice.push(None);
    }
    let spoiled = trials.iter().enumerate().filter(|(_, (_, trial))| is_spoiled(trial));
    let figure_qps = weighed.figure_qps.map(|figure| figure.times(usual_speed));
    let outer = OuterBounds { lower_qps: bounds.lower_qps, upper_qps: bounds.upper_qps };
    let shown = if weighed.has_bounds { outer } else { OuterBounds::default() };
    SearchVerdict {
        schema: kqps_observation::SCHEMA,
        kind: "verdict".into(),
        goal: goal.clone(),
        lower_bound_qps: shown.lower_qps,
        upper_bound_qps: shown.upper_qps,
        at_least_qps: weighed.at_least_qps.map(|qps| qps * usual_speed),
        whole_core_qps: weighed.whole_core_qps.map(|qps| qps * usual_speed),
        throughput_qps: figure_qps.map(|figure| figure.median),
        figure_qps,
        as_it_came_qps: as_it_came.filter(|_| figure_qps.is_some()),
        usual_speed,
        host_spoiled: Spoiled::count(trials.iter().map(|(_, trial)| *trial)),
        incomplete: bounds.incomplete,
        seen: bounds,
        interrupted: known.cut_short.is_some(),
        cut_short: known.cut_short,
        spoiled: spoiled.map(|(index, _)| index).collect(),
        ceiling_share: weighed.share.map(|share| share.median),
        share: weighed.share,
        busiest_to_mean: busiest_to_mean(&starts[0], &known.surroundings),
        bottleneck: weighed.bottleneck,
        grade: weighed.grade,
        reasons: weighed.reasons,
        advice: weighed.advice,
        warnings: weighed.warnings,
        breaking: BreakingPoint::from_trials(goal, trials, usual_speed),
        trials: trials.iter().map(|(purpose, trial)| Probe::from_trial(trial, goal, *purpose)).collect(),
    }
}
