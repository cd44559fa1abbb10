//! The judgement of one cell of a run.

use std::cell::RefCell;
use std::collections::BTreeMap;

use kqps_observation::run::Purpose;
use kqps_observation::{Run, RunTrial, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::case::{Case, is_estimated};
use super::ceiling::{self, Ceiling, Ceilings};
use super::depth::Depth;
use super::moment::Moment;
use super::outer_bounds::OuterBounds;
use super::points::{self, LoadPoint, Losses};
use super::reasons::{self, DropReasons};
use super::residence::{self, CellResidence};
use super::start::{self, StartVerdict};
use super::stored_goal::goal_of;
use super::weigh::weigh;
use crate::advice::Advice;
use crate::bottleneck::Bottleneck;
use crate::estimate::{self, Estimate, Speed};
use crate::grade::Grade;
use crate::interval::Interval;
use crate::narrow::narrow;
use crate::search::{Goal, Preset};
use crate::speed::{self, Spoiled};
use crate::warning::{self, Surroundings, Warning};

/// The verdict on one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellVerdict {
    /// Index into the run's cells.
    pub cell: u32,
    /// The cell's name.
    pub name: String,
    /// The goal that the figure meets.
    pub goal: Goal,
    /// Queries a second at the host's usual speed. It is the estimate of the load that half of the trials meet,
    /// or of the rate that is answered in a closed loop. It rests on the trials of all starts, without spoiled
    /// and without long ones. If the goal allows another share of bad trials, or if no load or every load met
    /// it, the figure is the median of the starts' conditional throughputs, and its range reaches up to their
    /// upper bounds. `None` if the figure is refused (grade F).
    pub figure_qps: Option<Interval>,
    /// The greatest load that could be tried, queries a second, if even that met the goal in every start: the subject answers
    /// at least this rate. Nothing shows how much more it answers, and there is no figure. `None` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_qps: Option<f64>,
    /// The figure at the speed that the cores had, with the trials that the host spoiled. `None` if it is not
    /// known.
    #[serde(default)]
    pub as_it_came_qps: Option<Interval>,
    /// The usual speed of the cell's cores as a multiple of the reference. Rates here are at the usual
    /// speed, except `as_it_came_qps`.
    #[serde(default = "speed::ungauged")]
    pub usual_speed: f64,
    /// How many trials the host spoiled, by cause.
    #[serde(default)]
    pub spoiled: Spoiled,
    /// The least lower bound of the starts that gave a figure, queries a second: a load that was played and met
    /// the goal, while other starts met it at more. `None` if the figure is refused, or if it does not lie between the
    /// bounds.
    pub lower_bound_qps: Option<f64>,
    /// The greatest upper bound of these starts, queries a second: no start met the goal there. `None` if a
    /// start found none, if the figure is refused, or if it does not lie between the bounds.
    pub upper_bound_qps: Option<f64>,
    /// Ceiling (a): what the player with the same settings reaches against the cheapest echo, correct answers a
    /// second. `None` if no echo was played with these settings.
    #[serde(default)]
    pub player_ceiling_qps: Option<f64>,
    /// `player_ceiling_qps` divided by the figure. `None` without a ceiling or a figure.
    pub player_headroom: Option<f64>,
    /// Ceiling (b): the name of the echo cell with the subject's I/O model.
    pub ceiling: Option<String>,
    /// The figure as a share of that ceiling, 0 to 1 and rarely above.
    pub ceiling_share: Option<f64>,
    /// The share of that ceiling with its interval, over the rounds and starts of both.
    #[serde(default)]
    pub share: Option<Interval>,
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
    /// Every start of the subject.
    pub starts: Vec<StartVerdict>,
    /// Numbers of the trials behind the figure: those at the starts' bounds.
    pub trials: Vec<u64>,
    /// Latency at every load that was played, start by start, in rising order.
    pub latency: Vec<LoadPoint>,
    /// Where queries were lost, over all trials of the search.
    pub losses: Losses,
    /// Why the kernel dropped packets, from a trial that was repeated to find out.
    #[serde(default)]
    pub drop_reasons: Option<DropReasons>,
    /// How long queries stayed in the server's host, from a trial of its own; `None` if packets were not stamped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residence: Option<CellResidence>,
}

impl CellVerdict {
    /// The starts that could be measured.
    pub fn measured_starts(&self) -> impl Iterator<Item = &StartVerdict> {
        self.starts.iter().filter(|start| start.failure.is_none())
    }
}

/// The goal of a run. A run whose goal this version does not know is judged by the default goal.
pub(super) fn goal_to_judge_by(run: &Run) -> Goal {
    goal_of(run).unwrap_or_else(|| Goal { name: run.goal.clone(), ..Preset::Default.goal() })
}

/// The starts, warnings and figure of one subject's cell, without what only the page of a run shows.
pub(crate) fn judge_cell_of(run: &Run, index: usize) -> CellVerdict {
    let (goal, ceilings) = (goal_to_judge_by(run), ceiling::all(run));
    Judging::new(run, &goal, &ceilings, (Depth::Figures, Moment::AtEnd)).cell(index)
}

/// The data that the judgements of a run's cells share.
pub(super) struct Judging<'a> {
    run: &'a Run,
    goal: &'a Goal,
    ceilings: &'a Ceilings,
    depth: Depth,
    moment: Moment,
    /// Cell of an echo → the estimate of its rate, which is the same for all subjects.
    echoes: RefCell<BTreeMap<u32, Option<Estimate>>>,
}

impl<'a> Judging<'a> {
    pub(super) fn new(
        run: &'a Run,
        goal: &'a Goal,
        ceilings: &'a Ceilings,
        (depth, moment): (Depth, Moment),
    ) -> Self {
        Self { run, goal, ceilings, depth, moment, echoes: RefCell::default() }
    }

    fn echo(&self, echo: &Ceiling) -> Option<Estimate> {
        let mut echoes = self.echoes.borrow_mut();
        echoes.entry(echo.cell).or_insert_with(|| ceiling::estimate(self.run, echo)).clone()
    }

    /// Judges one cell.
    pub(super) fn cell(&self, index: usize) -> CellVerdict {
        let Self { run, goal, .. } = *self;
        let cell = &run.cells[index];
        let mut starts = start::of_cell(run, index, goal);
        let surroundings = Surroundings::from_cell(cell);
        // Good clients and an attack are not one load with a ceiling.
        let is_alone = cell.factors.scenario().is_none();
        let echo = self.ceilings.for_cell(run, index).filter(|_| is_alone);
        let estimated = is_estimated(&starts).then(|| estimate::of_cell(run, index, goal, Speed::Reference));
        let estimate = estimated.flatten().and_then(|estimate| estimate.up_to(goal.max_qps));
        let usual_speed = speed::usual(run, index);
        let case = Case {
            usual_speed,
            surroundings: &surroundings,
            hidden_most: goal.hidden_most(),
            most_qps: goal.max_qps,
            width: goal.width,
            starts: &starts,
            echo: echo.filter(|_| estimate.is_some()).and_then(|echo| self.echo(echo)),
            estimate: estimate.as_ref(),
            player_qps: ceiling::player_qps(run, cell).filter(|_| is_alone),
            // At the reference speed, as the figure is.
            echo_qps: echo.and_then(|echo| Some(echo.median_qps()? / speed::usual(run, echo.cell as usize))),
            canary: warning::canary(run, index),
            was_running: cell.target.is_some(),
            names_flags: false,
            cut_short: None,
            moment: self.moment,
        };
        let weighed = weigh(&case);
        let player_ceiling_qps = case.player_qps.map(|qps| qps * usual_speed);
        for start in &mut starts {
            start.convert_to(usual_speed);
        }
        let figure_qps = weighed.figure_qps.map(|figure| figure.times(usual_speed));
        let shown =
            if weighed.has_bounds { OuterBounds::from_starts(&starts) } else { OuterBounds::default() };
        let for_page = self.depth == Depth::Page;
        let as_it_came = || estimate::of_cell(run, index, goal, Speed::AsItCame);
        CellVerdict {
            cell: narrow(index),
            name: cell.name.clone(),
            goal: goal.clone(),
            figure_qps,
            as_it_came_qps: (for_page && weighed.figure_qps.is_some())
                .then(as_it_came)
                .flatten()
                .map(|estimate| estimate.interval()),
            usual_speed,
            spoiled: Spoiled::count(judged_trials(run, index)),
            at_least_qps: weighed.at_least_qps.map(|qps| qps * usual_speed),
            lower_bound_qps: shown.lower_qps,
            upper_bound_qps: shown.upper_qps,
            player_ceiling_qps,
            player_headroom: weighed.player_headroom,
            ceiling: echo.map(|ceiling| ceiling.name.clone()),
            ceiling_share: weighed.share.map(|share| share.median),
            share: weighed.share,
            bottleneck: weighed.bottleneck,
            grade: weighed.grade,
            reasons: weighed.reasons,
            advice: weighed.advice,
            warnings: weighed.warnings,
            trials: starts.iter().flat_map(|start| start.verdict.trials.iter().copied()).collect(),
            latency: if for_page { points::latency(run, index, goal, usual_speed) } else { Vec::new() },
            losses: points::losses(run, index),
            drop_reasons: reasons::drop_reasons(run, index),
            residence: residence::cell_residence(run, index),
            starts: starts.into_iter().map(|start| start.verdict).collect(),
        }
    }
}

/// The trials of a cell that a figure rests on, including those that were meant to be such. Warm-ups are left
/// out.
fn judged_trials(run: &Run, index: usize) -> impl Iterator<Item = &Trial> {
    let judged = run.trials_of(index).filter(|one| one.purpose != Purpose::WarmUp);
    judged.filter_map(RunTrial::measured)
}
