//! The series of a run: the rates of cells that differ in their number of workers alone, and those that were
//! published by the number of workers. Each has a fit, or the reason why it has none.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kqps_observation::factors::name::{CORES, PROCESSES, SUBJECT, THREADS, WORKERS};
use kqps_observation::question::{Experiment, Published};
use kqps_observation::run::{CellLoad, Role};
use kqps_observation::{Cell, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SIZES_LEAST;
use super::fit::{RatesAt, ScalingFit, fit};
use crate::figure::{Figures, factor, setting, varies};
use crate::groups::in_order;
use crate::judge::CellVerdict;

/// A cell of a series: its number of workers, and its index among the figures.
type Member = (u32, usize);

/// Rates by the number of workers, all other factors equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingSeries {
    /// The experiment; empty if the run has only one.
    pub experiment: String,
    /// The values of the other factors that the experiment varies: `configuration select, threads`.
    pub name: String,
    /// The factor that counts the workers: `workers`, `processes` or `threads`.
    pub factor: String,
    /// Whether others published the rates. Such a series has one rate for each number of workers, and no intervals.
    pub is_published: bool,
    /// Indices of its cells in the run, whether they have a rate or not; empty for a published series.
    pub cells: Vec<u32>,
    /// The rates to which the law is fitted, in rising order of workers.
    pub sizes: Vec<ScalingSize>,
    /// Numbers of workers with a rate that the fit leaves out, since a worker had no core of its own, or since the
    /// player was the bottleneck.
    pub left_out: Vec<u32>,
    /// Numbers in `left_out` at which the player was the bottleneck: their rate is the player's limit.
    #[serde(default)]
    pub player_limited: Vec<u32>,
    /// The law; `None` if it is refused.
    pub fit: Option<ScalingFit>,
    /// Why there is no fit, as a clause; `None` if there is one.
    pub refused: Option<String>,
}

/// The rate at one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingSize {
    /// The number of workers.
    pub workers: u32,
    /// Index of the cell in the run; `None` for a published rate.
    pub cell: Option<u32>,
    /// The rate of each start, queries a second.
    pub starts_qps: Vec<f64>,
}

/// Identifies cells that differ only in the number of workers.
#[derive(Clone, PartialEq)]
struct Family {
    experiment: String,
    subject: String,
    factor: &'static str,
    others: BTreeMap<String, String>,
}

/// A search ends with bounds that lie apart by its width. The truth may lie anywhere between them, and the standard
/// deviation of an even distribution is its width divided by the root of 12.
const EVEN: f64 = 3.464;

/// The series of a run that have two numbers of workers or more: first those that were measured, in the order of
/// their cells, then those that were published with numbers enough for a fit. `verdicts` and `figures` are of the
/// same cells, in the same order.
pub fn of_run(run: &Run, verdicts: &[CellVerdict], figures: &[Figures]) -> Vec<ScalingSeries> {
    let members = figures.iter().enumerate().flat_map(|(index, one)| {
        places(run, one).into_iter().map(move |(family, workers)| (family, (workers, index)))
    });
    let several =
        in_order(members).into_iter().filter(|(_, members)| members.iter().any(|one| one.0 != members[0].0));
    let mut series: Vec<ScalingSeries> =
        several.map(|(family, members)| measured(run, verdicts, figures, &family, members)).collect();
    series.extend(run.experiments().flat_map(published));
    series
}

/// The measured series of a chart or table: its workers are counted by `factor`, and it has all of these cells.
/// `None` if there are none.
pub fn series_of<'a>(series: &'a [ScalingSeries], factor: &str, cells: &[u32]) -> Option<&'a ScalingSeries> {
    let has_all = |one: &&ScalingSeries| {
        one.factor == factor && !one.is_published && cells.iter().all(|cell| one.cells.contains(cell))
    };
    series.iter().find(has_all).filter(|_| !cells.is_empty())
}

/// The families of a cell and its number of workers. Workers are `workers`, or else `processes` times `threads`, and
/// a cell with both belongs to a family along each. None if the load was given, since the rate is no limit then.
fn places(run: &Run, figures: &Figures) -> Vec<(Family, u32)> {
    let cell = &run.cells[figures.cell as usize];
    let number = |name: &str| cell.factors.word(name).and_then(count);
    if matches!(cell.load, CellLoad::Rates { .. }) {
        return Vec::new();
    }
    let (counting, workers) = workers(number);
    // More workers have more cores, unless the study chose them.
    let has_cores_varied = varies(run, &cell.experiment, CORES);
    let family = |factor: &'static str| {
        let words = cell.factors.words().iter();
        let others = words.filter(|(name, _)| *name != factor && (*name != CORES || has_cores_varied));
        Family {
            experiment: cell.experiment.clone(),
            subject: cell.subject.clone(),
            factor,
            others: others.map(|(name, word)| (name.clone(), word.clone())).collect(),
        }
    };
    counting.into_iter().map(|factor| (family(factor), workers)).collect()
}

/// The factors that count the workers of a cell, and how many those are. `number` is the number that a factor has.
fn workers(number: impl Fn(&str) -> Option<u32>) -> (Vec<&'static str>, u32) {
    let (counting, workers): (&[&'static str], u32) = match number(WORKERS) {
        Some(workers) => (&[WORKERS], workers),
        None => (
            &[PROCESSES, THREADS],
            number(PROCESSES).unwrap_or(1).saturating_mul(number(THREADS).unwrap_or(1)),
        ),
    };
    (counting.iter().copied().filter(|name| number(name).is_some()).collect(), workers)
}

fn count(word: &str) -> Option<u32> {
    word.parse().ok().filter(|count| *count > 0)
}

fn measured(
    run: &Run,
    verdicts: &[CellVerdict],
    figures: &[Figures],
    family: &Family,
    mut members: Vec<Member>,
) -> ScalingSeries {
    members.sort_by_key(|(workers, _)| *workers);
    let cell_of = |index: usize| &run.cells[figures[index].cell as usize];
    let with_rate = members.iter().copied().filter(|(_, index)| !figures[*index].starts_qps.is_empty());
    let is_of_player = |index: usize| verdicts[index].bottleneck.resource.is_of_player();
    let (own, left_pairs): (Vec<Member>, Vec<Member>) = with_rate
        .partition(|(workers, index)| has_own_cores(cell_of(*index), *workers) && !is_of_player(*index));
    let size = |(workers, index): Member| ScalingSize {
        workers,
        cell: Some(figures[index].cell),
        starts_qps: figures[index].starts_qps.clone(),
    };
    let mut sizes: Vec<ScalingSize> = own.iter().copied().map(size).collect();
    sizes.dedup_by_key(|size| size.workers);
    let first = members[0].1;
    let is_searched = matches!(cell_of(first).load, CellLoad::Search);
    let resolution = if is_searched { verdicts[first].goal.width / EVEN } else { 0.0 };
    let seed = run.seed.wrapping_add(u64::from(figures[first].cell));
    let workers_of = |pairs: &[Member]| -> Vec<u32> { pairs.iter().map(|(workers, _)| *workers).collect() };
    let (by_player, shared): (Vec<Member>, Vec<Member>) =
        left_pairs.iter().copied().partition(|(_, index)| is_of_player(*index));
    let left = LeftOut { shared: workers_of(&shared), by_player: workers_of(&by_player) };
    let left_out = workers_of(&left_pairs);
    let found = fitted(&sizes, resolution, seed);
    ScalingSeries {
        experiment: family.experiment.clone(),
        name: name(run, cell_of(first), family),
        factor: family.factor.to_owned(),
        is_published: false,
        cells: members.iter().map(|(_, index)| figures[*index].cell).collect(),
        refused: found.is_none().then(|| refusal(run, cell_of(first), &sizes, &left)),
        fit: found,
        sizes,
        left_out,
        player_limited: left.by_player,
    }
}

fn fitted(sizes: &[ScalingSize], resolution: f64, seed: u64) -> Option<ScalingFit> {
    let rates = |size: &ScalingSize| RatesAt { workers: size.workers, starts_qps: size.starts_qps.clone() };
    fit(&sizes.iter().map(rates).collect::<Vec<_>>(), resolution, seed)
}

/// Whether each worker had a core that neither another worker nor the player used. Of a server on another host, and
/// of cores that are not known, this is taken for granted.
fn has_own_cores(cell: &Cell, workers: u32) -> bool {
    let cpus = &cell.subject_cpus;
    let is_shared = cpus.iter().any(|cpu| cell.player_cpus.contains(cpu));
    cpus.is_empty() || cell.is_elsewhere() || (cpus.len() >= workers as usize && !is_shared)
}

/// The values of the factors that the experiment varies beside the workers, with the subject if there are several.
fn name(run: &Run, cell: &Cell, family: &Family) -> String {
    let own = run.experiments().filter(|one| one.name == cell.experiment).flat_map(|one| &one.factors);
    let varied: Vec<&str> = own.filter(|one| one.values.len() > 1).map(|one| one.name.as_str()).collect();
    let shown = varied.iter().filter(|name| **name != family.factor);
    let mut parts: Vec<String> = shown.filter_map(|name| Some(setting(name, &factor(cell, name)?))).collect();
    let has_others = run.cells.iter().any(|one| {
        one.role == Role::Subject && one.experiment == cell.experiment && one.subject != cell.subject
    });
    if (has_others || parts.is_empty()) && !varied.contains(&SUBJECT) {
        parts.insert(0, cell.subject.clone());
    }
    parts.join(", ")
}

/// Numbers of workers that a fit leaves out.
struct LeftOut {
    /// A worker had no core of its own.
    shared: Vec<u32>,
    /// The player was the bottleneck.
    by_player: Vec<u32>,
}

/// Why a series has no fit.
fn refusal(run: &Run, cell: &Cell, sizes: &[ScalingSize], left: &LeftOut) -> String {
    let cores = run.fingerprint.cores.len();
    // Each worker needs a core of its own, and so does the player.
    if !cell.is_elsewhere() && (1..=SIZES_LEAST).contains(&cores) {
        let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        return format!(
            "this host has {cores}, which is too few. The law needs rates at {SIZES_LEAST} numbers of workers, with a \
             core of its own for each worker, and one for the player"
        );
    }
    let measured = match sizes {
        [] => "none was measured".to_owned(),
        [one] => format!("1 was measured ({})", one.workers),
        some => {
            format!("{} were measured ({})", some.len(), listed(some.iter().map(|size| size.workers)))
        }
    };
    let mut reason = format!("the law needs {SIZES_LEAST} numbers of workers, and {measured}");
    for (workers, why) in [
        (&left.shared, "not every worker had a core of its own"),
        (&left.by_player, "the player was the bottleneck"),
    ] {
        if !workers.is_empty() {
            let _ = write!(reason, "; with {} workers {why}", listed(workers.iter().copied()));
        }
    }
    reason
}

fn listed(workers: impl Iterator<Item = u32>) -> String {
    workers.map(|workers| workers.to_string()).collect::<Vec<_>>().join(", ")
}

/// The published series of an experiment that have numbers of workers enough for a fit.
fn published(experiment: &Experiment) -> Vec<ScalingSeries> {
    let rates = experiment.published.iter().filter(|one| !one.best);
    let families = in_order(rates.flat_map(|one| published_places(experiment, one)));
    let series = |(family, mut sizes): (Family, Vec<ScalingSize>)| {
        sizes.sort_by_key(|size| size.workers);
        sizes.dedup_by_key(|size| size.workers);
        let fit = fitted(&sizes, 0.0, 0)?;
        let parts: Vec<String> = family.others.iter().map(|(name, word)| setting(name, word)).collect();
        Some(ScalingSeries {
            experiment: family.experiment,
            name: parts.join(", "),
            factor: family.factor.to_owned(),
            is_published: true,
            cells: Vec::new(),
            sizes,
            left_out: Vec::new(),
            player_limited: Vec::new(),
            fit: Some(fit),
            refused: None,
        })
    };
    families.into_iter().filter_map(series).collect()
}

/// The families of a published rate.
fn published_places(experiment: &Experiment, one: &Published) -> Vec<(Family, ScalingSize)> {
    let (counting, workers) = workers(|name| one.factors.get(name).and_then(|word| count(word)));
    let place = |factor: &'static str| {
        let others = one.factors.iter().filter(|(name, _)| *name != factor);
        let family = Family {
            experiment: experiment.name.clone(),
            subject: String::new(),
            factor,
            others: others.map(|(name, word)| (name.clone(), word.clone())).collect(),
        };
        (family, ScalingSize { workers, cell: None, starts_qps: vec![one.rate_qps] })
    };
    counting.into_iter().map(place).collect()
}
