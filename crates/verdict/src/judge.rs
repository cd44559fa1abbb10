//! The judgement of a whole run, or of one search: figures with their intervals, each with the trials behind
//! it, its share of the echo ceiling, its bottleneck, its warnings and its grade.

mod case;
mod ceiling;
mod cell;
mod depth;
mod doubt;
mod moment;
mod outer_bounds;
mod points;
mod profile;
mod reasons;
mod residence;
mod search;
mod searches;
mod start;
mod stored_goal;
mod unsearched_starts;
mod weigh;
mod wording;

use kqps_observation::Run;
use kqps_observation::run::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::breaking::seen_run;
use crate::compare::{self, Comparison};
use crate::figure::{self, Figures};
use crate::finding::{self, ExperimentFinding};
use crate::scaling::{self, ScalingSeries};
use crate::search::Goal;
use cell::{Judging, goal_to_judge_by};

pub use case::CutShort;
pub use ceiling::{Ceiling, Ceilings};
pub use cell::CellVerdict;
pub(crate) use cell::judge_cell_of;
pub(crate) use depth::Depth;
pub use moment::Moment;
pub use points::{LoadPoint, Losses, PlaceLoss};
pub use profile::{CellProfile, Grown, Growth, NamedLock, StateTime, differ_in_workers_alone, echo_beside};
pub use reasons::DropReasons;
pub use residence::CellResidence;
pub use search::{SearchContext, SearchVerdict, judge_search};
pub use start::StartVerdict;
pub use stored_goal::{facts_of, goal_of};
pub use wording::Wording;

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVerdict {
    /// The goal of every search in the run.
    pub goal: Goal,
    /// The rates that the player reached, and that the echo reached under each I/O model.
    pub ceilings: Ceilings,
    /// The verdict on every subject, in the order of the run's cells.
    pub subjects: Vec<CellVerdict>,
    /// The figures of every subject, in the same order.
    #[serde(default)]
    pub figures: Vec<Figures>,
    /// The comparisons that the run was made for, one for each figure that is compared; empty for other runs.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// The rates of cells that differ in their number of workers alone, each series with the law that fits it.
    #[serde(default)]
    pub scaling: Vec<ScalingSeries>,
    /// Where the time of profiled subjects goes, in the order of the run's cells; empty if none was profiled.
    #[serde(default)]
    pub profiles: Vec<CellProfile>,
    /// The finding of each experiment of a study; empty for other runs.
    #[serde(default)]
    pub findings: Vec<ExperimentFinding>,
}

/// Judges a run, finished or not. The result depends on the run alone.
pub fn judge(run: &Run) -> RunVerdict {
    judge_at(run, Moment::AtEnd)
}

/// As [`judge`], at this moment: no reason of a cell says that a run that goes on has ended early.
pub fn judge_at(run: &Run, moment: Moment) -> RunVerdict {
    let run = &*seen_run(run);
    let verdict = judge_to(run, Depth::Page, moment);
    let figures = figure::of_run(run, &verdict.subjects, Depth::Page);
    let scaling = scaling::of_run(run, &verdict.subjects, &figures);
    let verdict = RunVerdict { figures, scaling, profiles: profile::of_run(run), ..verdict };
    RunVerdict { findings: finding::of_run(run, &verdict.subjects, &verdict.figures), ..verdict }
}

/// As [`judge`], for a caller who reads many runs, in a small part of the time. What only the page of a run shows is left
/// out: rates as the host came, latency by load and at the figure, scaling laws, profiles and findings.
pub fn judge_figures(run: &Run) -> RunVerdict {
    let run = &*seen_run(run);
    let verdict = judge_to(run, Depth::Figures, Moment::AtEnd);
    RunVerdict { figures: figure::of_run(run, &verdict.subjects, Depth::Figures), ..verdict }
}

/// Ceilings, subjects and comparisons.
fn judge_to(run: &Run, depth: Depth, moment: Moment) -> RunVerdict {
    let goal = goal_to_judge_by(run);
    let ceilings = ceiling::all(run);
    let judging = Judging::new(run, &goal, &ceilings, (depth, moment));
    let subjects = (0..).zip(&run.cells).filter(|(_, cell)| cell.role == Role::Subject);
    RunVerdict {
        subjects: subjects.map(|(index, _)| judging.cell(index)).collect(),
        comparisons: compare::of_run(run),
        figures: Vec::new(),
        scaling: Vec::new(),
        profiles: Vec::new(),
        findings: Vec::new(),
        ceilings,
        goal,
    }
}
