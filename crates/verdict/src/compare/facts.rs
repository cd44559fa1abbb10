//! Takes the ratios of a comparison from the trials: of a run that was made for it, of two cells of any run, or
//! of the same cell in two runs.

use std::collections::BTreeMap;

use kqps_observation::factors::ComparedAs;
use kqps_observation::run::{CellLoad, Role};
use kqps_observation::{Cell, Run, Trial};

use super::doubts::Objections;
use super::middle::middle;
use super::trials::figure_trials;
use super::{Case, Comparison, Figure, compare, conditions};
use crate::estimate::Speed;
use crate::evidence;
use crate::judge::judge_cell_of;

/// The cells of a run that was made for a comparison, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairing {
    /// Index of A's cell.
    pub a: usize,
    /// Index of the second cell of A, which is measured as if it were another subject.
    pub again: usize,
    /// Index of B's cell.
    pub b: usize,
}

impl Pairing {
    /// The cells that a run compares; `None` if the run was not made for a comparison.
    pub fn from_run(run: &Run) -> Option<Self> {
        let find = |part| run.cells.iter().position(|cell| cell.factors.compared_as() == Some(part));
        Some(Self { a: find(ComparedAs::A)?, again: find(ComparedAs::Again)?, b: find(ComparedAs::B)? })
    }
}

/// The comparisons that a run was made for, one for every figure that its load gives; empty for other runs.
pub fn of_run(run: &Run) -> Vec<Comparison> {
    let Some(pairing) = Pairing::from_run(run) else { return Vec::new() };
    let cases = figures_of(&run.cells[pairing.a]).iter().map(|figure| of_run_for(run, pairing, *figure));
    // A trial with few queries has no p99, so a case may have no ratio.
    let cases: Vec<Case> = cases.filter(|case| !case.blocks.is_empty()).collect();
    compare(&cases)
}

/// The figures that a cell's load gives, in the order in which they are compared.
pub fn figures_of(cell: &Cell) -> &'static [Figure] {
    match (cell.role, &cell.load) {
        (Role::Canary, _) => &[],
        (Role::PlayerCeiling | Role::EchoCeiling, _) | (_, CellLoad::Closed(_)) => &[Figure::AnsweredRate],
        (_, CellLoad::Rates { .. }) => &[Figure::CpuPerAnswer, Figure::P99Latency],
        (_, CellLoad::Search) => &[Figure::ReliableRate],
    }
}

/// The case of one figure, from a run that was made for a comparison.
pub fn of_run_for(run: &Run, pairing: Pairing, figure: Figure) -> Case {
    let at = common_speed(&run.cells[pairing.a], &run.cells[pairing.b]);
    let figures = [pairing.a, pairing.again, pairing.b].map(|cell| of_starts(run, cell, figure, at));
    let [a, again, b] = &figures;
    let both: BTreeMap<u32, f64> =
        a.iter().filter_map(|(block, a)| Some((*block, (a * again.get(block)?).sqrt()))).collect();
    let is_side_by_side = b.keys().any(|block| both.contains_key(block));
    let mut case = named((run, pairing.a), (run, pairing.b), figure);
    // The second cell of A contributes to A's figure, so its objections count.
    Objections::to((run, pairing.again), figure, &run.cells[pairing.again].name).join(&mut case);
    let (of_b, of_same, starts_of_a) = if is_side_by_side {
        (ratios(&both, b), ratios(a, again), 2)
    } else {
        (in_twos(&ratios(a, b)), in_twos(&ratios(a, again)), 1)
    };
    let (numbers, blocks) = of_b.into_iter().unzip();
    let same = of_same.into_iter().map(|(_, ratio)| ratio).collect();
    Case { blocks, starts_of_a, numbers, same, ..case }
}

/// The ratios of a run of an earlier version, whose blocks were pairs of starts: first all pairs of A and A,
/// then all pairs of A and B. Two neighbouring pairs, the second in reverse order, form an ABBA block. Its
/// ratio is the geometric mean, in which a steady drift of the host cancels out.
fn in_twos(pairs: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let first = pairs.first().map_or(0, |(block, _)| block / 2);
    let blocks = pairs.chunk_by(|one, other| one.0 / 2 == other.0 / 2);
    let mean = |block: &[(u32, f64)]| {
        (block.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / block.len() as f64).exp()
    };
    blocks.map(|block| (block[0].0 / 2 - first, mean(block))).collect()
}

/// The case of two cells of one run, whose starts are paired by block. The run has no blocks that compare a
/// cell with itself, so each cell is compared with itself in the neighbouring block. These starts are further
/// apart in time than those of A and B, so the MDE is rather too large than too small.
pub fn within_run(run: &Run, a: usize, b: usize, figure: Figure) -> Case {
    let at = common_speed(&run.cells[a], &run.cells[b]);
    let (of_a, of_b) = (of_starts(run, a, figure, at), of_starts(run, b, figure, at));
    let same = [neighbours(&of_a), neighbours(&of_b)].concat();
    let (numbers, blocks) = ratios(&of_a, &of_b).into_iter().unzip();
    Case { blocks, numbers, same, same_of_both: true, ..named((run, a), (run, b), figure) }
}

/// The case of two cells, each of another run. A change of the host between the runs is in the ratios and not
/// in the MDE; the doubts say so, and they name every known difference.
///
/// # Errors
///
/// If the two cells did not answer the same questions there is no case. The error is the reason, without its
/// full stop.
pub fn between_runs(a: (&Run, usize), b: (&Run, usize), figure: Figure) -> Result<Case, String> {
    let unlike = conditions::unlike(a, b);
    if !unlike.is_empty() {
        return Err(unlike.join("; "));
    }
    let at = common_speed(&a.0.cells[a.1], &b.0.cells[b.1]);
    let (of_a, of_b) = (of_starts(a.0, a.1, figure, at), of_starts(b.0, b.1, figure, at));
    let mut case = named(a, b, figure);
    (case.numbers, case.blocks) = ratios(&of_a, &of_b).into_iter().unzip();
    case.same = [neighbours(&of_a), neighbours(&of_b)].concat();
    case.same_of_both = true;
    case.doubts.push(
        "A and B were measured in different sessions: any other change of the host between them looks \
         like a difference"
            .into(),
    );
    case.doubts.extend(conditions::differences(a, b));
    Ok(case)
}

/// Block → B's figure divided by A's, for blocks in which both have one.
fn ratios(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> Vec<(u32, f64)> {
    a.iter().filter_map(|(block, a)| Some((*block, b.get(block)? / a))).collect()
}

/// The ratios of a cell to itself: of two neighbouring blocks, then of the next two, so that each start is used
/// once.
fn neighbours(figures: &BTreeMap<u32, f64>) -> Vec<f64> {
    let figures: Vec<f64> = figures.values().copied().collect();
    figures.chunks_exact(2).map(|pair| pair[1] / pair[0]).collect()
}

/// The speed at which two cells are compared. The reference speed belongs to one set of cores. For cells on
/// different cores it differs, so their rates are compared as the host came, and only their alternation
/// corrects for its speed.
fn common_speed(a: &Cell, b: &Cell) -> Speed {
    let is_alike = a.player_cpus == b.player_cpus && a.subject_cpus == b.subject_cpus;
    if is_alike { Speed::Reference } else { Speed::AsItCame }
}

/// Block → the figure of the cell's start in it.
fn of_starts(run: &Run, cell: usize, figure: Figure, at: Speed) -> BTreeMap<u32, f64> {
    if figure == Figure::ReliableRate {
        return judge_cell_of(run, cell)
            .measured_starts()
            .filter_map(|start| Some((start.block, start.bounds.as_ref()?.throughput_qps?)))
            .collect();
    }
    figure_trials(run, cell)
        .into_iter()
        .filter_map(|(block, trials)| {
            let figures: Vec<f64> = trials.iter().filter_map(|trial| of_trial(trial, figure, at)).collect();
            Some((block, middle(&figures)?))
        })
        .collect()
}

fn of_trial(trial: &Trial, figure: Figure, at: Speed) -> Option<f64> {
    let speed = if at == Speed::AsItCame { 1.0 } else { evidence::speed(trial) };
    let value = match figure {
        Figure::AnsweredRate | Figure::ReliableRate => trial.load.answered_qps / speed,
        Figure::CpuPerAnswer => {
            let subject = trial.subject.as_ref()?;
            // Work that takes 1 s at half the speed takes 0.5 s at the full speed.
            let cpu_s = subject.cpu_s() * speed;
            cpu_s / trial.accounts.correct as f64
        }
        Figure::P99Latency => trial.latency_us.p99? as f64,
    };
    (value.is_finite() && value > 0.0).then_some(value)
}

/// A case without ratios, with the objections from the trials of both cells, refusals first.
fn named(a: (&Run, usize), b: (&Run, usize), figure: Figure) -> Case {
    let name = |(run, cell): (&Run, usize)| run.cells[cell].name.clone();
    let (name_a, name_b) = (name(a), name(b));
    // Cells of two runs often have the same name.
    let (short_a, short_b) = if name_a == name_b {
        (format!("{name_a} (A)"), format!("{name_b} (B)"))
    } else {
        (name_a.clone(), name_b.clone())
    };
    let mut case = Case { a: name_a, b: name_b, figure, starts_of_a: 1, ..Case::default() };
    Objections::to(a, figure, &short_a).join(&mut case);
    Objections::to(b, figure, &short_b).join(&mut case);
    case
}
