//! The judgement of a whole run, or of one search: figures with their intervals, each with the trials behind
//! it, its share of the echo ceiling, its bottleneck, its warnings and its grade.

mod ceiling;
mod given;
mod points;
mod reasons;
mod search;
mod sought;
mod start;
mod weigh;
mod wording;

use kqps_observation::Run;
use kqps_observation::run::Role;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Bottleneck;
use crate::compare::{self, Comparison};
use crate::figure::{self, Figures};
use crate::grade::Grade;
use crate::interval::Interval;
use crate::search::{Goal, Preset};
use crate::warning::{self, Setting, Warning};

pub use ceiling::{Ceiling, Ceilings};
pub use points::{LoadPoint, Losses, PlaceLoss};
pub use reasons::DropReasons;
pub use search::{Known, SearchVerdict, judge_search};
pub use sought::{facts_of, goal_of};
pub use start::StartVerdict;
pub use wording::Wording;

/// What a run means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// The goal of every search in the run.
    pub goal: Goal,
    /// What the player reached, and the echo under each I/O model.
    pub ceilings: Ceilings,
    /// Every subject, in the order of the run's cells.
    pub subjects: Vec<CellVerdict>,
    /// The figures of every subject, in the same order.
    #[serde(default)]
    pub figures: Vec<Figures>,
    /// The comparison that the run was made for, if it was, one for each figure that is compared.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
}

/// What the trials of one cell mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellVerdict {
    /// Index into the run's cells.
    pub cell: u32,
    /// The cell's name.
    pub name: String,
    /// The goal that the figure meets.
    pub goal: Goal,
    /// Correct answers a second: the median of the starts' conditional throughputs, its range reaching up to their upper
    /// bounds. That is a statistic of the starts, and of an even number of them no load that was played. None when it
    /// is refused (grade F).
    pub figure_qps: Option<Interval>,
    /// The least lower bound of the starts that gave a figure, queries a second: a load that was played and held, where
    /// the others held more. None when the figure is refused.
    pub lower_bound_qps: Option<f64>,
    /// The greatest of their upper bounds, queries a second: no start held it. None when one of them found none, or the
    /// figure is refused.
    pub upper_bound_qps: Option<f64>,
    /// What the same player, set up alike, reaches against the cheapest echo, correct answers a second: ceiling (a). None
    /// where no echo was played like that.
    #[serde(default)]
    pub player_ceiling_qps: Option<f64>,
    /// How many times the figure that is. None where there is none.
    pub player_headroom: Option<f64>,
    /// The name of the echo cell whose I/O is the subject's: ceiling (b).
    pub ceiling: Option<String>,
    /// The figure as a share of that ceiling, 0 to 1 and rarely above.
    pub ceiling_share: Option<f64>,
    /// What ended the climb.
    pub bottleneck: Bottleneck,
    /// How far the figure can be trusted.
    pub grade: Grade,
    /// Why, the gravest first, each a sentence.
    pub reasons: Vec<String>,
    /// What casts doubt on it.
    pub warnings: Vec<Warning>,
    /// Every start of the subject.
    pub starts: Vec<StartVerdict>,
    /// Numbers of the trials behind the figure: those at the starts' bounds.
    pub trials: Vec<u64>,
    /// Latency at every load that was played, start by start, in rising order.
    pub latency: Vec<LoadPoint>,
    /// Where queries were lost, over all trials of the search.
    pub losses: Losses,
    /// Why the kernel dropped packets, in a trial that was repeated to learn it.
    #[serde(default)]
    pub drop_reasons: Option<DropReasons>,
}

/// Judges a run, finished or not. The same run always gets the same verdict.
pub fn judge(run: &Run) -> RunVerdict {
    let goal = goal_to_judge_by(run);
    let ceilings = ceiling::of(run);
    let subjects = run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject);
    let subjects: Vec<CellVerdict> =
        subjects.map(|(index, _)| judge_cell(run, index, &goal, &ceilings)).collect();
    let figures = figure::of_run(run, &subjects);
    RunVerdict { goal, ceilings, subjects, figures, comparisons: compare::of_run(run) }
}

/// Something must be said of a goal that nobody knows.
fn goal_to_judge_by(run: &Run) -> Goal {
    goal_of(run).unwrap_or_else(|| Goal { name: run.goal.clone(), ..Preset::Default.goal() })
}

/// Judges one subject's cell of a run, without what the run compares.
pub(crate) fn judge_cell_of(run: &Run, index: usize) -> CellVerdict {
    judge_cell(run, index, &goal_to_judge_by(run), &ceiling::of(run))
}

fn judge_cell(run: &Run, index: usize, goal: &Goal, ceilings: &Ceilings) -> CellVerdict {
    let cell = &run.cells[index];
    let starts = start::of_cell(run, index, goal);
    let setting = Setting {
        one_host: cell.target.map(|target| target.on_this_host),
        subject_cpus: cell.subject_cpus.clone(),
        workers: (cell.workers > 0).then_some(cell.workers),
        ..Setting::default()
    };
    let echo = ceilings.for_cell(run, index);
    let case = weigh::Case {
        setting: &setting,
        hidden_most: goal.hidden_most(),
        starts: &starts,
        player_qps: ceiling::player_qps(run, cell),
        echo_qps: echo.and_then(Ceiling::median_qps),
        canary: warning::canary(run, index),
        was_running: cell.target.is_some(),
        names_flags: false,
    };
    let weighed = weigh::weigh(&case);
    let (lower_bound_qps, upper_bound_qps) =
        if weighed.grade.refuses() { (None, None) } else { outer_bounds(&starts) };
    CellVerdict {
        cell: index as u32,
        name: cell.name.clone(),
        goal: goal.clone(),
        figure_qps: weighed.figure_qps,
        lower_bound_qps,
        upper_bound_qps,
        player_ceiling_qps: case.player_qps,
        player_headroom: weighed.player_headroom,
        ceiling: echo.map(|ceiling| ceiling.name.clone()),
        ceiling_share: weighed.ceiling_share,
        bottleneck: weighed.bottleneck,
        grade: weighed.grade,
        reasons: weighed.reasons,
        warnings: weighed.warnings,
        trials: starts.iter().flat_map(|start| start.verdict.trials.iter().copied()).collect(),
        latency: points::latency(run, index, goal),
        losses: points::losses(run, index),
        drop_reasons: reasons::of(run, index),
        starts: starts.into_iter().map(|start| start.verdict).collect(),
    }
}

/// The least lower bound, and the greatest upper bound if all have one. A start without a figure is left out: its upper
/// bound would lie below the lower bounds of others.
fn outer_bounds(starts: &[start::Start<'_>]) -> (Option<f64>, Option<f64>) {
    let counting = starts.iter().filter(|start| start.throughput_qps().is_some());
    let bounds: Vec<_> = counting.filter_map(|start| start.bounds()).collect();
    let lower_qps = bounds.iter().filter_map(|one| one.lower_qps).reduce(f64::min);
    let upper: Option<Vec<f64>> = bounds.iter().map(|one| one.upper_qps).collect();
    (lower_qps, upper.and_then(|upper| upper.into_iter().reduce(f64::max)))
}
