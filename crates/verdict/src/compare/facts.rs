//! The ratios of a comparison, taken from the trials of a run: made for it, of two cells of any run, or of the
//! same cell in two runs.

use std::collections::BTreeMap;

use kqps_observation::run::{CellLoad, Purpose, Role, RunTrial};
use kqps_observation::{Cell, Run, Trial};

use super::{Case, Comparison, Figure, compare};
use crate::evidence::counted_at_last;
use crate::judge::judge;
use crate::warning::busiest_thread;

/// The share of a cell's trials with a busy player from which on the player is in doubt.
const OFTEN: f64 = 0.5;

/// A player thread this busy has nothing left to give.
const BUSY: f64 = 0.95;

/// Which cells of a run that was made for a comparison are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// A.
    pub a: usize,
    /// A once more, as though it were another.
    pub again: usize,
    /// B.
    pub b: usize,
}

/// What a cell is to a comparison that its run was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What B is compared with.
    A,
    /// A once more.
    Again,
    /// What is judged.
    B,
}

impl Part {
    /// The factor of a cell that tells its part.
    pub const FACTOR: &str = "compared_as";

    /// The factor's value.
    pub fn word(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::Again => "a again",
            Self::B => "b",
        }
    }
}

impl Pairing {
    /// What a run compares; none when it was made for something else.
    pub fn of(run: &Run) -> Option<Self> {
        let find = |part: Part| {
            let is_it = |cell: &Cell| cell.factors.get(Part::FACTOR).is_some_and(|word| word == part.word());
            run.cells.iter().position(is_it)
        };
        Some(Self { a: find(Part::A)?, again: find(Part::Again)?, b: find(Part::B)? })
    }
}

/// The comparison that a run was made for, one for every figure that its load gives; none for other runs.
pub fn of_run(run: &Run) -> Vec<Comparison> {
    let Some(pairing) = Pairing::of(run) else { return Vec::new() };
    let cases = figures_of(&run.cells[pairing.a]).iter().map(|figure| of_pairs(run, pairing, *figure));
    // A trial with few queries has no p99, and then there is nothing to compare of it.
    let cases: Vec<Case> = cases.filter(|case| !case.blocks.is_empty()).collect();
    compare(&cases, run.seed)
}

/// The figures that a cell's load gives, those that are compared first first.
pub fn figures_of(cell: &Cell) -> &'static [Figure] {
    match (cell.role, &cell.load) {
        (Role::Canary, _) => &[],
        (Role::PlayerCeiling | Role::EchoCeiling, _) | (_, CellLoad::Closed(_)) => &[Figure::AnsweredRate],
        (_, CellLoad::Rates { .. }) => &[Figure::CpuPerAnswer, Figure::P99Latency],
        (_, CellLoad::Search) => &[Figure::ReliableRate],
    }
}

/// The case of a run that was made for a comparison. The run's blocks are pairs of starts, and two pairs, the
/// second in reverse order, are an ABBA block.
pub fn of_pairs(run: &Run, pairing: Pairing, figure: Figure) -> Case {
    let figures = [pairing.a, pairing.again, pairing.b].map(|cell| of_starts(run, cell, figure));
    let [a, again, b] = &figures;
    Case {
        blocks: in_twos(&ratios(a, b)),
        same: in_twos(&ratios(a, again)),
        ..named((run, pairing.a), (run, pairing.b), figure)
    }
}

/// Groups the ratios of pairs by ABBA block.
fn in_twos(pairs: &[(u32, f64)]) -> Vec<Vec<f64>> {
    let blocks = pairs.chunk_by(|one, other| one.0 / 2 == other.0 / 2);
    blocks.map(|block| block.iter().map(|(_, ratio)| *ratio).collect()).collect()
}

/// The case of two cells of one run: their starts are paired by block. For want of blocks made for it, each cell
/// is held against itself in the neighbouring block; that is further apart in time than A and B are, so the
/// MDE is if anything too large.
pub fn within_run(run: &Run, a: usize, b: usize, figure: Figure) -> Case {
    let (of_a, of_b) = (of_starts(run, a, figure), of_starts(run, b, figure));
    let same = [neighbours(&of_a), neighbours(&of_b)].concat();
    Case { blocks: each(&ratios(&of_a, &of_b)), same, ..named((run, a), (run, b), figure) }
}

/// The case of a cell each of two runs. Whatever changed on the host between the sessions is in the ratios and
/// not in the MDE, which the doubts say.
pub fn between_runs(a: (&Run, usize), b: (&Run, usize), figure: Figure) -> Case {
    let (of_a, of_b) = (of_starts(a.0, a.1, figure), of_starts(b.0, b.1, figure));
    let mut case = named(a, b, figure);
    case.blocks = each(&ratios(&of_a, &of_b));
    case.same = [neighbours(&of_a), neighbours(&of_b)].concat();
    case.doubts.push(
        "A and B were measured in different sessions: whatever else changed on the host between them looks \
         like a difference"
            .into(),
    );
    let (host_a, host_b) = (&a.0.fingerprint, &b.0.fingerprint);
    if (&host_a.cpu_model, &host_a.kernel) != (&host_b.cpu_model, &host_b.kernel) {
        case.doubts.push(format!(
            "the hosts differ: {}, {} and {}, {}",
            host_a.cpu_model, host_a.kernel, host_b.cpu_model, host_b.kernel
        ));
    }
    case
}

fn each(ratios: &[(u32, f64)]) -> Vec<Vec<f64>> {
    ratios.iter().map(|(_, ratio)| vec![*ratio]).collect()
}

/// Block → B's figure divided by A's, where both have one.
fn ratios(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> Vec<(u32, f64)> {
    a.iter().filter_map(|(block, a)| Some((*block, b.get(block)? / a))).collect()
}

/// A cell against itself: two neighbouring blocks and then the next two, so that no start is used twice.
fn neighbours(figures: &BTreeMap<u32, f64>) -> Vec<Vec<f64>> {
    let figures: Vec<f64> = figures.values().copied().collect();
    figures.chunks_exact(2).map(|pair| vec![pair[1] / pair[0]]).collect()
}

/// Block → the figure of the cell's start in it.
fn of_starts(run: &Run, cell: usize, figure: Figure) -> BTreeMap<u32, f64> {
    if figure == Figure::ReliableRate {
        let verdict = judge(run);
        let starts = verdict.subjects.iter().filter(|subject| subject.cell as usize == cell);
        let starts = starts.flat_map(|subject| &subject.starts).filter(|start| start.failure.is_none());
        return starts
            .filter_map(|start| Some((start.block, start.bounds.as_ref()?.throughput_qps?)))
            .collect();
    }
    let mut blocks: BTreeMap<u32, Vec<&RunTrial>> = BTreeMap::new();
    for trial in run.trials_of(cell) {
        blocks.entry(trial.block).or_default().push(trial);
    }
    let of_block = |trials: Vec<&RunTrial>| {
        if trials.iter().any(|trial| trial.failure().is_some()) {
            return None;
        }
        let measured = trials.iter().filter_map(|one| Some((one.purpose, one.measured()?)));
        let measured: Vec<_> = measured.filter(|(purpose, _)| is_compared(*purpose)).collect();
        let counted = counted_at_last(&measured, |(purpose, trial)| (*purpose, *trial));
        // Of several rates the highest tells most of a subject.
        let load_qps = |trial: &Trial| trial.load.intended_qps.unwrap_or(0.0);
        let (_, trial) = counted.into_iter().max_by(|a, b| load_qps(a.1).total_cmp(&load_qps(b.1)))?;
        of_trial(trial, figure)
    };
    blocks.into_iter().filter_map(|(block, trials)| Some((block, of_block(trials)?))).collect()
}

fn of_trial(trial: &Trial, figure: Figure) -> Option<f64> {
    let value = match figure {
        Figure::AnsweredRate | Figure::ReliableRate => trial.load.answered_qps,
        Figure::CpuPerAnswer => {
            let subject = trial.subject.as_ref()?;
            (subject.cpu_user_s + subject.cpu_system_s) / trial.accounts.correct as f64
        }
        Figure::P99Latency => trial.latency_us.p99? as f64,
    };
    (value.is_finite() && value > 0.0).then_some(value)
}

/// Whether a figure is taken from trials of this purpose, those of a search apart.
fn is_compared(purpose: Purpose) -> bool {
    matches!(purpose, Purpose::Ceiling | Purpose::Closed | Purpose::Rate)
}

/// A case without ratios, with the doubts that the trials of both raise.
fn named(a: (&Run, usize), b: (&Run, usize), figure: Figure) -> Case {
    let name = |(run, cell): (&Run, usize)| run.cells[cell].name.clone();
    let doubts = [a, b].iter().flat_map(|(run, cell)| doubts(run, *cell)).collect();
    Case { a: name(a), b: name(b), figure, doubts, ..Case::default() }
}

fn doubts(run: &Run, cell: usize) -> Vec<String> {
    let name = &run.cells[cell].name;
    let measured: Vec<&Trial> =
        run.trials_of(cell).filter(|one| is_compared(one.purpose)).filter_map(RunTrial::measured).collect();
    let mut doubts = Vec::new();
    let failures: Vec<&str> = run.trials_of(cell).filter_map(RunTrial::failure).collect();
    if let Some(first) = failures.first() {
        doubts.push(format!("{} of the starts of {name} failed, the first: {first}", failures.len()));
    }
    let busy = measured.iter().filter(|trial| is_players_limit(trial)).count();
    if busy as f64 > measured.len() as f64 * OFTEN {
        doubts.push(format!(
            "the player was busy all the time in {busy} of {} trials of {name}, which was less so: the player's limit \
             hides differences",
            measured.len()
        ));
    }
    let wrong = measured.iter().map(|trial| trial.accounts.wrong).sum::<u64>();
    if wrong > 0 {
        doubts.push(format!("{name} gave {wrong} wrong answers, which do not count"));
    }
    doubts
}

/// Whether the player had nothing left to give while the subject had.
fn is_players_limit(trial: &Trial) -> bool {
    let subject = trial.subject.iter().flat_map(|subject| &subject.threads).map(|thread| thread.busy);
    busiest_thread(trial).is_some_and(|player| player >= BUSY && subject.fold(0.0, f64::max) < player)
}
