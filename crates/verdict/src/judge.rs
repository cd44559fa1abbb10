//! The judgement of a whole run, or of one search: figures with their intervals, each with the trials behind
//! it, its share of the echo ceiling, its bottleneck, its warnings and its grade.

mod case;
mod ceiling;
mod cell;
mod doubt;
mod given;
mod points;
mod profile;
mod reasons;
mod residence;
mod search;
mod searches;
mod sought;
mod start;
mod weigh;
mod wording;

use kqps_observation::Run;
use kqps_observation::run::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::{self, Comparison};
use crate::figure::{self, Figures};
use crate::scaling::{self, ScalingSeries};
use crate::search::Goal;
use cell::{goal_to_judge_by, judge_cell};

pub use ceiling::{Ceiling, Ceilings};
pub use cell::CellVerdict;
pub(crate) use cell::judge_cell_of;
pub use points::{LoadPoint, Losses, PlaceLoss};
pub use profile::{CellProfile, Grown, Growth, NamedLock, StateTime, differ_in_workers_alone, echo_beside};
pub use reasons::DropReasons;
pub use residence::CellResidence;
pub use search::{Known, SearchVerdict, judge_search};
pub use sought::{facts_of, goal_of};
pub use start::StartVerdict;
pub use wording::Wording;

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunVerdict {
    /// The goal of every search in the run.
    pub goal: Goal,
    /// What the player reached, and what the echo reached under each I/O model.
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
}

/// Judges a run, finished or not. The result depends on the run alone.
pub fn judge(run: &Run) -> RunVerdict {
    let goal = goal_to_judge_by(run);
    let ceilings = ceiling::of(run);
    let subjects = run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject);
    let subjects: Vec<CellVerdict> =
        subjects.map(|(index, _)| judge_cell(run, index, &goal, &ceilings)).collect();
    let figures = figure::of_run(run, &subjects);
    let scaling = scaling::of_run(run, &subjects, &figures);
    let (comparisons, profiles) = (compare::of_run(run), profile::of_run(run));
    RunVerdict { goal, ceilings, subjects, figures, comparisons, scaling, profiles }
}
