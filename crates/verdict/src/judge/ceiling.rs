//! Ceilings: what the player reaches against the cheapest echo (a), and what the echo reaches under each I/O
//! model (b). Both are rates answered in closed loops, one for every start.

use kqps_observation::run::{Cell, CellLoad, Purpose, Role, Run, RunTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::{Estimate, Speed, of_cells};
use crate::evidence::{answered_qps, counted_at_last};
use crate::interval::{Interval, median_interval};
use crate::narrow::narrow;
use crate::search::{Goal, Preset};
use crate::speed;

/// The name of the subject in cells that measure the echo, as in [`Cell::subject`].
const ECHO: &str = "echo";

/// All ceilings of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceilings {
    /// The player's own ceilings: the most that it reached against any echo with each of its settings, in the order of
    /// the run's cells.
    #[serde(default)]
    pub players: Vec<Ceiling>,
    /// Ceilings (b): the echo's rate under each I/O model, in the order of the run's cells.
    pub echoes: Vec<Ceiling>,
    /// Echoes in a closed loop that are subjects of a study. Each is a ceiling too, above all its own.
    #[serde(default)]
    pub studied: Vec<Ceiling>,
}

/// A rate that an echo reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// Index into the run's cells.
    pub cell: u32,
    /// The cell's name.
    pub name: String,
    /// The echo's I/O model, by its name in the command line.
    pub io: String,
    /// The echo's number of workers.
    pub workers: u32,
    /// Correct answers a second at the host's usual speed; `None` if no trial could be measured.
    pub figure_qps: Option<Interval>,
    /// The rate of each start, correct answers a second.
    #[serde(default)]
    pub starts_qps: Vec<f64>,
    /// Numbers of the trials behind the ceiling.
    pub trials: Vec<u64>,
    /// Why starts could not be measured.
    pub failures: Vec<String>,
}

impl Ceiling {
    /// The median, correct answers a second; `None` if no trial could be measured.
    pub fn median_qps(&self) -> Option<f64> {
        self.figure_qps.map(|interval| interval.median)
    }
}

impl Ceilings {
    /// Ceiling (b) of a cell: the echo with the same transport and I/O and, of those, the one with the same type of
    /// certificate and the nearest number of workers. Among equals, an echo of the same experiment comes first, then the
    /// one that shares most factors. An echo in a closed loop is its own ceiling.
    pub fn for_cell(&self, run: &Run, index: usize) -> Option<&Ceiling> {
        let cell = &run.cells[index];
        let measured = self.echoes.iter().chain(&self.studied).filter(|echo| echo.figure_qps.is_some());
        let transport = |echo: &Ceiling| run.cells[echo.cell as usize].factors.transport();
        let same_wire =
            measured.filter(|echo| echo.io == cell.io && transport(echo) == cell.factors.transport());
        same_wire.min_by_key(|echo| {
            let other = &run.cells[echo.cell as usize];
            let is_other = echo.cell as usize != index;
            let workers = echo.workers.abs_diff(cell.workers);
            let is_of_other_experiment = other.experiment != cell.experiment;
            let differing = other.factors.differences_from(&cell.factors);
            (is_other, has_other_certificate(other, cell), workers, is_of_other_experiment, differing)
        })
    }

    /// The echo with this cell name.
    pub fn echo(&self, name: &str) -> Option<&Ceiling> {
        self.echoes.iter().chain(&self.studied).find(|echo| echo.name == name)
    }
}

/// Whether the servers of two cells have certificates of different types. What a full handshake costs depends on that most.
pub(super) fn has_other_certificate(one: &Cell, other: &Cell) -> bool {
    let of = |cell: &Cell| cell.factors.certificate().unwrap_or_default();
    of(one) != of(other)
}

pub(super) fn all(run: &Run) -> Ceilings {
    let of = |wanted: fn(&Cell) -> bool, purpose| {
        let cells = run.cells.iter().enumerate().filter(move |(_, cell)| wanted(cell));
        cells.map(move |(index, cell)| ceiling(run, index, cell, purpose))
    };
    Ceilings {
        players: of_players(run),
        echoes: of(|cell| cell.role == Role::EchoCeiling, Purpose::Ceiling).collect(),
        studied: of(is_studied_echo, Purpose::Closed).collect(),
    }
}

fn is_ceiling(cell: &Cell) -> bool {
    matches!(cell.role, Role::PlayerCeiling | Role::EchoCeiling)
}

/// The highest ceiling of the player with each of its settings, under the name of the first cell with them, whichever
/// echo reached it.
fn of_players(run: &Run) -> Vec<Ceiling> {
    let rate = |ceiling: &Ceiling| ceiling.median_qps().unwrap_or(0.0);
    let cells = || run.cells.iter().enumerate();
    let is_first = |(index, cell): &(usize, &Cell)| {
        let before = &run.cells[..*index];
        !before.iter().any(|other| other.role == Role::PlayerCeiling && has_same_player(other, cell))
    };
    let players = cells().filter(|(_, cell)| cell.role == Role::PlayerCeiling).filter(is_first);
    let highest = |player: &Cell| {
        let same = cells().filter(|(_, cell)| is_ceiling(cell) && has_same_player(cell, player));
        let measured = same.map(|(index, cell)| ceiling(run, index, cell, Purpose::Ceiling));
        measured.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    players
        .filter_map(|(_, player)| Some(Ceiling { name: player.name.clone(), ..highest(player)? }))
        .collect()
}

/// Whether a cell measures the echo as a subject in a closed loop.
fn is_studied_echo(cell: &Cell) -> bool {
    cell.role == Role::Subject && cell.subject == ECHO && matches!(cell.load, CellLoad::Closed(_))
}

/// Ceiling (a) of a cell, correct answers a second at the reference speed: the most that the player reached
/// against any echo with the settings and over the path of this cell. For a subject on another host, that is an
/// echo over there. What the player reaches with other settings, such as fewer flows or longer bursts, says
/// nothing.
pub(super) fn player_qps(run: &Run, cell: &Cell) -> Option<f64> {
    let cells = run.cells.iter().enumerate();
    let cells = cells.filter(|(_, other)| is_ceiling(other) && has_same_player(other, cell));
    cells
        .filter_map(|(index, other)| {
            let reached_qps = ceiling(run, index, other, Purpose::Ceiling).median_qps()?;
            Some(reached_qps / speed::usual(run, index))
        })
        .reduce(f64::max)
}

/// Factors with this prefix say how many players there are, and from how many addresses each sends.
const HOSTS: &str = "hosts.";

/// Whether the players of two cells have the same settings and the same path, and are as many.
fn has_same_player(one: &Cell, other: &Cell) -> bool {
    let hosts = |cell: &Cell| cell.factors.filtered(|name| name.starts_with(HOSTS));
    one.player_cpus == other.player_cpus
        && hosts(one) == hosts(other)
        && one.is_elsewhere() == other.is_elsewhere()
        && one.factors.player() == other.factors.player()
}

/// Whether two cells measure the same: the echo that is the player's ceiling may also be one of the echoes.
/// They share one figure, from the starts of both.
fn is_same(one: &Cell, other: &Cell) -> bool {
    let server = |cell: &Cell| {
        (cell.io.clone(), cell.workers, cell.subject_cpus.clone(), cell.factors.words().clone())
    };
    is_ceiling(one) && is_ceiling(other) && has_same_player(one, other) && server(one) == server(other)
}

/// The estimate of an echo's rate, over all of its trials.
pub(super) fn estimate(run: &Run, echo: &Ceiling) -> Option<Estimate> {
    let goal = Goal { exceed: 0.5, ..Preset::Quick.goal() };
    of_cells(run, &all_same(run, echo.cell as usize), &goal, Speed::Reference)
}

/// The indices of a cell and of the cells that measure the same.
fn all_same(run: &Run, index: usize) -> Vec<usize> {
    let cells = run.cells.iter().enumerate();
    let same = cells.filter(|(other, facts)| *other == index || is_same(facts, &run.cells[index]));
    same.map(|(other, _)| other).collect()
}

fn ceiling(run: &Run, index: usize, cell: &Cell, purpose: Purpose) -> Ceiling {
    let same = all_same(run, index);
    let of_cell = || same.iter().flat_map(|other| run.trials_of(*other));
    let measured: Vec<((u32, u32), Purpose, _)> = of_cell()
        .filter(|trial| trial.purpose == purpose)
        .filter_map(|trial| {
            let start = (trial.block, trial.cell);
            trial.measured().map(|record| (start, trial.purpose, (trial.number, record)))
        })
        .collect();
    // Every block of a cell is one start. If the run was killed and resumed, the parts of a block are one start.
    let mut blocks: Vec<(u32, u32)> = measured.iter().map(|(block, ..)| *block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let usual_speed = speed::usual(run, index);
    let mut figures = Vec::new();
    let mut trials = Vec::new();
    for block in blocks {
        let of_block: Vec<_> = measured.iter().filter(|(other, ..)| *other == block).collect();
        let counted = counted_at_last(&of_block, |(_, purpose, (_, record))| (*purpose, *record));
        let rates: Vec<f64> = counted.iter().map(|(.., (_, record))| answered_qps(record)).collect();
        figures.extend(median_interval(&rates).map(|interval| interval.median * usual_speed));
        trials.extend(counted.iter().map(|(.., (number, _))| *number));
    }
    Ceiling {
        cell: narrow(index),
        name: cell.name.clone(),
        io: cell.io.clone(),
        workers: cell.workers,
        figure_qps: median_interval(&figures),
        starts_qps: figures,
        trials,
        failures: of_cell().filter_map(RunTrial::failure).map(str::to_owned).collect(),
    }
}
