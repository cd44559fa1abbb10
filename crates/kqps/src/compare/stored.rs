//! Comparisons of stored cells: two of one run by name, all pairs that differ in one factor, or cells of the
//! same name in two runs. Each needs six blocks in which both cells have a figure.

use std::io::ErrorKind;
use std::path::Path;

use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_observation::factors::name::{CORES, IO, PLAYER, PROCESSES, SUBJECT, THREADS, WORKERS};
use kqps_observation::run::Role;
use kqps_observation::{Cell, Run, Store};
use kqps_testbed::folder::{NoRun, store_in};
use kqps_testbed::words::counted;
use kqps_verdict::compare::{self, Case, LEAST_BLOCKS, figures_of};
use kqps_verdict::figure;

use super::{Args, Compared};
use crate::exit::bad_input;
use crate::run::subjects::is_known;

/// Compares within one run: two named cells, the pairs that differ in a factor, or the pair that the run was
/// made for.
pub(super) fn within(folder: &Path, args: &Args) -> anyhow::Result<Compared> {
    let run = read(folder)?;
    let pairs = match (&args.a, &args.b, &args.factor) {
        (Some(a), Some(b), _) if a == b => {
            return Err(bad_input(format!(
                "--a and --b are both {a}: a cell differs from itself in nothing"
            )));
        }
        (Some(a), Some(b), _) => vec![(cell_called(&run, a)?, cell_called(&run, b)?)],
        (_, _, Some(factor)) => differing(&run, factor)?,
        _ if compare::Pairing::from_run(&run).is_some() => {
            let comparisons = compare::of_run(&run);
            if comparisons.is_empty() {
                return Err(bad_input("nothing can be compared yet: the run has no block with both A and B"));
            }
            return Ok(Compared { comparisons, ..Compared::default() });
        }
        _ => {
            return Err(bad_input(
                "which cells of the run? Name a factor (--factor io=blocking,mmsg), two cells (--a CELL --b \
                 CELL), or a second run",
            ));
        }
    };
    let cases = pairs.iter().flat_map(|&(a, b)| {
        let (of_a, of_b) = (figures_of(&run.cells[a]), figures_of(&run.cells[b]));
        let both = of_a.iter().filter(move |figure| of_b.contains(figure));
        both.map(|figure| compare::within_run(&run, a, b, *figure)).collect::<Vec<_>>()
    });
    judged(cases.collect(), &[&run])
}

/// Compares the cells of the same name in two runs.
pub(super) fn between(a: &Path, b: &Path, args: &Args) -> anyhow::Result<Compared> {
    if args.a.is_some() || args.factor.is_some() {
        return Err(bad_input(
            "of two runs the cells of the same name are compared; leave out --factor, --a and --b",
        ));
    }
    let (run_a, run_b) = (read(a)?, read(b)?);
    if is_same(a, b) {
        return Err(bad_input(format!("{} and {} are the same run", a.display(), b.display())));
    }
    let subjects = run_a.cells.iter().enumerate().filter(|(_, cell)| cell.role != Role::Canary);
    let (mut cases, mut left_out) = (Vec::new(), Vec::new());
    for (of_a, cell) in subjects {
        let same = |other: &Cell| {
            (&other.name, other.role, &other.experiment) == (&cell.name, cell.role, &cell.experiment)
        };
        let Some(of_b) = run_b.cells.iter().position(same) else { continue };
        for figure in figures_of(cell) {
            match compare::between_runs((&run_a, of_a), (&run_b, of_b), *figure) {
                Ok(case) => cases.push(Case {
                    a: format!("{} of {}", label(cell), a.display()),
                    b: format!("{} of {}", label(&run_b.cells[of_b]), b.display()),
                    ..case
                }),
                // The reason is the same for every figure.
                Err(reason) => {
                    left_out.push(format!("{} was not asked the same in both runs: {reason}", cell.name));
                    break;
                }
            }
        }
    }
    if cases.is_empty() && left_out.is_empty() {
        return Err(bad_input("the runs have no cell of the same name"));
    }
    if cases.is_empty() {
        return Err(bad_input(format!("nothing can be compared. {}", left_out.join(". "))));
    }
    Ok(Compared { left_out, ..judged(cases, &[&run_a, &run_b])? })
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The cell's name with the version of its subject, since two cells may differ in the version only.
fn label(cell: &Cell) -> String {
    let version = cell.version.as_ref().map(|version| format!(" ({version})"));
    format!("{}{}", cell.name, version.unwrap_or_default())
}

/// Judges the cases that have blocks. Holm's correction must not count cases that cannot be compared.
fn judged(cases: Vec<Case>, runs: &[&Run]) -> anyhow::Result<Compared> {
    let cases: Vec<Case> = cases.into_iter().filter(|case| !case.blocks.is_empty()).collect();
    let advice = how_to_get_blocks(runs);
    if cases.is_empty() {
        anyhow::bail!(
            "nothing can be compared: no block has a rate of both cells from their own starts. The verdict of a run takes \
             the trials of all starts together; a comparison needs a start of each cell in which the search found a rate. \
             {advice}"
        );
    }
    if cases.iter().any(|case| case.blocks.len() < LEAST_BLOCKS as usize) {
        eprintln!("There is no verdict and no interval below {LEAST_BLOCKS} blocks. {advice}.");
    }
    Ok(Compared { comparisons: compare::compare(&cases), ..Compared::default() })
}

/// How many blocks the runs have, and how to get enough.
fn how_to_get_blocks(runs: &[&Run]) -> String {
    let made: Vec<String> = runs.iter().map(|run| counted(run.blocks.into(), "block")).collect();
    let have = if runs.len() == 1 { "The run has" } else { "The runs have" };
    format!(
        "{have} {}. A longer `kqps run --budget` makes more (--dry-run prints how many), and a study as many as its \
         `repetitions = {LEAST_BLOCKS}` says. To compare two servers or builds, use `kqps compare --a A --b B`, which \
         makes blocks of its own (--blocks)",
        made.join(" and ")
    )
}

fn read(folder: &Path) -> anyhow::Result<Run> {
    let store = store_in(folder).map_err(|error| match &error {
        NoRun::Unreadable { error: cause, .. }
            if cause.kind() == ErrorKind::NotFound && is_known(&folder.to_string_lossy()) =>
        {
            bad_input(format!("{error}; subjects are named by --a and --b"))
        }
        _ => bad_input(error),
    })?;
    Store::read(&store).map_err(bad_input)
}

fn cell_called(run: &Run, name: &str) -> anyhow::Result<usize> {
    run.cells.iter().position(|cell| cell.name == name).ok_or_else(|| {
        let names: Vec<&str> = run.cells.iter().map(|cell| cell.name.as_str()).collect();
        let hint = did_you_mean(nearest(name, &names));
        bad_input(format!("the run has no cell `{name}`{hint} (it has: {})", names.join(", ")))
    })
}

/// All pairs of cells that differ in one factor and in nothing else. `NAME` asks for every pair of its values
/// in the order of the cells, `NAME=A,B` for these two values.
fn differing(run: &Run, asked: &str) -> anyhow::Result<Vec<(usize, usize)>> {
    let (name, values) = match asked.split_once('=') {
        None => (asked, None),
        Some((name, values)) => match values.split_once(',') {
            Some((a, b)) if !a.is_empty() && !b.is_empty() && a != b => (name, Some((a, b))),
            _ => return Err(bad_input(format!("--factor {asked}: expected NAME or NAME=A,B"))),
        },
    };
    let cells: Vec<(usize, &Cell)> =
        run.cells.iter().enumerate().filter(|(_, cell)| !figures_of(cell).is_empty()).collect();
    let mut pairs = Vec::new();
    for &(a, cell_a) in &cells {
        for &(b, cell_b) in &cells {
            let (Some(of_a), Some(of_b)) = (figure::factor(cell_a, name), figure::factor(cell_b, name))
            else {
                continue;
            };
            let is_wanted = match values {
                Some((a, b)) => of_a == a && of_b == b,
                None => a < b && of_a != of_b,
            };
            if is_wanted && is_alike(cell_a, cell_b, name) {
                pairs.push((a, b));
            }
        }
    }
    if pairs.is_empty() {
        let known = known_factors(&cells);
        return Err(bad_input(format!(
            "--factor {asked}: no two cells differ in that and in nothing else (the run varies: {known})"
        )));
    }
    Ok(pairs)
}

/// Whether two cells agree in every factor but `name`. The factor may bring others with it: a subject brings
/// its own I/O, and more workers need more cores.
fn is_alike(a: &Cell, b: &Cell, name: &str) -> bool {
    let others = |cell: &Cell| -> Vec<(String, String)> {
        let factors = cell.factors.words().iter().filter(|(factor, _)| factor.as_str() != name);
        factors.map(|(factor, value)| (factor.clone(), value.clone())).collect()
    };
    let given = |factors: &[&str]| factors.contains(&name);
    let brings_workers = given(&[WORKERS, PROCESSES, THREADS, CORES]);
    a.experiment == b.experiment
        && a.load == b.load
        && a.role == b.role
        && others(a) == others(b)
        && (given(&[SUBJECT]) || a.subject == b.subject)
        && (given(&[SUBJECT, IO]) || a.io == b.io)
        && (brings_workers || (a.workers == b.workers && a.subject_cpus == b.subject_cpus))
        && (name.starts_with(PLAYER) || a.player_cpus == b.player_cpus)
}

/// The factors in which any two cells differ, as a list for a message.
fn known_factors(cells: &[(usize, &Cell)]) -> String {
    let built_in = [SUBJECT, IO, WORKERS, CORES].map(str::to_owned);
    let mut names: Vec<String> =
        cells.iter().flat_map(|(_, cell)| cell.factors.words().keys().cloned()).collect();
    names.extend(built_in);
    names.sort();
    names.dedup();
    let varies = |name: &String| {
        let mut values = cells.iter().map(|(_, cell)| figure::factor(cell, name));
        let first = values.next();
        values.any(|value| Some(&value) != first.as_ref())
    };
    let varying: Vec<String> = names.into_iter().filter(varies).collect();
    if varying.is_empty() { "nothing".into() } else { varying.join(", ") }
}
