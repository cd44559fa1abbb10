//! Ceilings: what the player reaches against the cheapest echo (a), and what the echo reaches under each I/O
//! model (b). Both are the answered rates of closed loops, one for every start.

use kqps_observation::run::{Cell, Purpose, Role, Run, RunTrial};
use serde::{Deserialize, Serialize};

use crate::evidence::counted_at_last;
use crate::interval::{Interval, median_interval};

/// All ceilings of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// The player's own: ceiling (a). The highest of its cells where there are several.
    pub player: Option<Ceiling>,
    /// The echo's under each I/O model: ceilings (b), in the order of the run's cells.
    pub echoes: Vec<Ceiling>,
}

/// One ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Index into the run's cells.
    pub cell: u32,
    /// The cell's name.
    pub name: String,
    /// The echo's I/O model.
    pub io: String,
    /// The echo's workers.
    pub workers: u32,
    /// Correct answers a second; none when no trial could be measured.
    pub figure_qps: Option<Interval>,
    /// Numbers of the trials behind it.
    pub trials: Vec<u64>,
    /// Why starts could not be measured.
    pub failures: Vec<String>,
}

impl Ceiling {
    /// The median, correct answers a second.
    pub fn median_qps(&self) -> Option<f64> {
        self.figure_qps.map(|interval| interval.median)
    }
}

impl Ceilings {
    /// Ceiling (b) of a cell: the echo with the same I/O, and of those the one with the nearest number of
    /// workers.
    pub fn for_cell(&self, cell: &Cell) -> Option<&Ceiling> {
        let same_io = self.echoes.iter().filter(|echo| echo.io == cell.io && echo.figure_qps.is_some());
        same_io.min_by_key(|echo| echo.workers.abs_diff(cell.workers))
    }
}

pub(super) fn of(run: &Run) -> Ceilings {
    let of_role = |role| {
        let cells = run.cells.iter().enumerate().filter(move |(_, cell)| cell.role == role);
        cells.map(|(index, cell)| ceiling(run, index, cell))
    };
    let by_rate =
        |a: &Ceiling, b: &Ceiling| a.median_qps().unwrap_or(0.0).total_cmp(&b.median_qps().unwrap_or(0.0));
    Ceilings {
        player: of_role(Role::PlayerCeiling).max_by(by_rate),
        echoes: of_role(Role::EchoCeiling).collect(),
    }
}

fn ceiling(run: &Run, index: usize, cell: &Cell) -> Ceiling {
    let of_cell = || run.trials.iter().filter(move |trial| trial.cell as usize == index);
    let measured: Vec<(u32, Purpose, _)> = of_cell()
        .filter(|trial| trial.purpose == Purpose::Ceiling)
        .filter_map(|trial| {
            trial.measured().map(|record| (trial.block, trial.purpose, (trial.number, record)))
        })
        .collect();
    // One start for every block, or the parts of one where the run was killed and resumed.
    let mut blocks: Vec<u32> = measured.iter().map(|(block, ..)| *block).collect();
    blocks.dedup();
    let mut figures = Vec::new();
    let mut trials = Vec::new();
    for block in blocks {
        let of_block: Vec<_> = measured.iter().filter(|(other, ..)| *other == block).collect();
        let counted = counted_at_last(&of_block, |(_, purpose, (_, record))| (*purpose, *record));
        let rates: Vec<f64> = counted.iter().map(|(.., (_, record))| record.load.answered_qps).collect();
        figures.extend(median_interval(&rates).map(|interval| interval.median));
        trials.extend(counted.iter().map(|(.., (number, _))| *number));
    }
    Ceiling {
        cell: index as u32,
        name: cell.name.clone(),
        io: cell.io.clone(),
        workers: cell.workers,
        figure_qps: median_interval(&figures),
        trials,
        failures: of_cell().filter_map(RunTrial::failure).map(str::to_owned).collect(),
    }
}
