//! The judgement of one search: what `kqps find` prints.

use kqps_observation::Trial;
use kqps_observation::run::Purpose;
use serde::{Deserialize, Serialize};

use super::start::{Played, Start};
use super::weigh::{Case, weigh};
use crate::advice::Advice;
use crate::bottleneck::Bottleneck;
use crate::estimate::{self, Estimate, Speed};
use crate::evidence::is_spoiled;
use crate::grade::Grade;
use crate::interval::Interval;
use crate::search::{Bounds, Goal, Probe};
use crate::speed::{self, Spoiled};
use crate::warning::{self, Setting, Warning};

/// What one search means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchVerdict {
    /// [`kqps_observation::SCHEMA`].
    pub schema: u32,
    /// `"verdict"`.
    pub kind: String,
    /// What was searched for.
    pub goal: Goal,
    /// The Relevant Lower Bound, queries a second; none when the figure is refused.
    pub lower_bound_qps: Option<f64>,
    /// The Relevant Upper Bound, queries a second; none when the figure is refused or there is none.
    pub upper_bound_qps: Option<f64>,
    /// What the trials showed of the bounds, whether or not the figure is refused.
    #[serde(default)]
    pub seen: Bounds,
    /// The figure in queries a second, the median of `figure_qps`; none when it is refused.
    pub throughput_qps: Option<f64>,
    /// The figure with its interval, at the host's usual speed: the estimate from its trials without those that host or player spoiled and without long ones, or the conditional
    /// throughput where these do not bound it. None when it is refused.
    #[serde(default)]
    pub figure_qps: Option<Interval>,
    /// The same as the host came: at the speed that its cores had, with what it spoiled. None where it is not known.
    #[serde(default)]
    pub as_it_came_qps: Option<Interval>,
    /// How many trials the host spoiled.
    #[serde(default)]
    pub host_spoiled: Spoiled,
    /// Whether the search ran out of time or trials before its bounds were close enough.
    pub incomplete: bool,
    /// Whether the user ended it: then this is what it knew by then, and `incomplete` is false.
    #[serde(default)]
    pub interrupted: bool,
    /// The figure as a share of the echo's ceiling, where that was measured.
    pub ceiling_share: Option<f64>,
    /// The same with the interval of the figure.
    #[serde(default)]
    pub share: Option<Interval>,
    /// What the busiest of the subject's workers did as a multiple of their mean, at the lower bound: the median
    /// of its trials. None where the workers are not known, or were too idle to compare.
    #[serde(default)]
    pub busiest_to_mean: Option<f64>,
    /// What ended the climb.
    pub bottleneck: Bottleneck,
    /// How far the figure can be trusted.
    pub grade: Grade,
    /// Why, the gravest first, each a sentence.
    pub reasons: Vec<String>,
    /// What to do about each of the reasons, in their order; none where nothing can be done.
    #[serde(default)]
    pub advice: Vec<Option<Advice>>,
    /// What casts doubt on it.
    pub warnings: Vec<Warning>,
    /// What the search saw of each trial, in the order in which they were made.
    pub trials: Vec<Probe>,
    /// Indices of those that the player spoiled, so that they were made again.
    #[serde(default)]
    pub spoiled: Vec<usize>,
}

/// What is known when one search is judged.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The surroundings of its trials.
    pub setting: Setting,
    /// Ceiling (a), correct answers a second, where it was measured.
    pub player_qps: Option<f64>,
    /// Ceiling (b), correct answers a second, where it was measured.
    pub echo_qps: Option<f64>,
    /// The same as an estimate, so that the share of it says how little one trial shows.
    pub echo: Option<Estimate>,
    /// The host's usual speed as a multiple of the reference, where more trials than those of the search show it: as in a run, those of
    /// the ceilings do.
    pub usual_speed: Option<f64>,
    /// Whether the user ended the search before it was over.
    pub interrupted: bool,
}

fn busiest_to_mean(start: &Start<'_>, setting: &Setting) -> Option<f64> {
    let workers = setting.workers?;
    let mut shares: Vec<f64> =
        start.at_lower.iter().filter_map(|trial| warning::busiest_to_mean(trial, workers)).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

/// Judges the trials of one search, given in the order in which they were made.
pub fn judge_search(goal: &Goal, trials: &[(Purpose, &Trial)], known: &Known) -> SearchVerdict {
    let played: Vec<Played<'_>> =
        trials.iter().map(|(purpose, trial)| Played { number: 0, purpose: *purpose, trial }).collect();
    let mut start = Start::of_search(goal, &played);
    if known.interrupted {
        start.interrupt();
    }
    let sought: Vec<(Purpose, &Trial)> =
        trials.iter().filter(|(purpose, _)| *purpose != Purpose::WarmUp).copied().collect();
    let estimate = estimate::of_search(goal, &sought, Speed::Reference);
    let as_it_came = estimate::of_search(goal, &sought, Speed::AsItCame).map(|estimate| estimate.interval());
    let of_search = || speed::usual_of(trials.iter().map(|(_, trial)| *trial));
    let usual_speed = known.usual_speed.unwrap_or_else(of_search);
    let mut starts = [start];
    let mut weighed = weigh(&Case {
        setting: &known.setting,
        hidden_most: goal.hidden_most(),
        starts: &starts,
        estimate: estimate.as_ref(),
        echo: known.echo.clone(),
        player_qps: known.player_qps,
        echo_qps: known.echo_qps,
        canary: None,
        was_running: false,
        names_flags: true,
    });
    starts[0].tell_at(usual_speed);
    let bounds: Bounds = starts[0].bounds().cloned().unwrap_or_default();
    if known.interrupted {
        weighed.reasons.push("The search was interrupted: this is what it knew by then.".into());
        weighed.advice.push(None);
    }
    let spoiled = trials.iter().enumerate().filter(|(_, (_, trial))| is_spoiled(trial));
    let refuses = weighed.grade.refuses();
    let unless_refused = |figure: Option<f64>| figure.filter(|_| !refuses);
    SearchVerdict {
        schema: kqps_observation::SCHEMA,
        kind: "verdict".into(),
        goal: goal.clone(),
        lower_bound_qps: unless_refused(bounds.lower_qps),
        upper_bound_qps: unless_refused(bounds.upper_qps),
        throughput_qps: weighed.figure_qps.map(|figure| figure.median * usual_speed),
        figure_qps: weighed.figure_qps.map(|figure| figure.times(usual_speed)),
        as_it_came_qps: as_it_came.filter(|_| weighed.figure_qps.is_some()),
        host_spoiled: Spoiled::count(trials.iter().map(|(_, trial)| *trial)),
        incomplete: bounds.incomplete,
        seen: bounds,
        interrupted: known.interrupted,
        spoiled: spoiled.map(|(index, _)| index).collect(),
        ceiling_share: weighed.share.map(|share| share.median),
        share: weighed.share,
        busiest_to_mean: busiest_to_mean(&starts[0], &known.setting),
        bottleneck: weighed.bottleneck,
        grade: weighed.grade,
        reasons: weighed.reasons,
        advice: weighed.advice,
        warnings: weighed.warnings,
        trials: trials.iter().map(|(purpose, trial)| Probe::of(trial, goal, *purpose)).collect(),
    }
}
