//! Figures from the trials of one cell alone.

use std::collections::{BTreeMap, HashMap};

use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_observation::{Cell, Histogram, Run, RunTrial, SubjectFacts, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{counted_of_cell, is_sound, load_qps};
use crate::judge::{CellVerdict, StartVerdict};
use crate::narrow::narrow;

/// Mean, minimum and maximum over starts, as many published studies report them. The unit is that of the
/// figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The arithmetic mean.
    pub mean: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The number of starts.
    pub count: u32,
}

/// Memory of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// The most over the trials behind the figure, in bytes.
    pub bytes: u64,
    /// True: proportional set size (PSS), which divides shared pages among the processes that share them.
    /// False: resident set size (RSS), which counts them in every process.
    pub proportional: bool,
}

/// Latency over several trials together, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The mean, microseconds.
    pub mean: f64,
    /// The 99th percentile, microseconds; `None` if too few samples lie beyond it.
    pub p99: Option<u64>,
}

/// A load counts as half of the rate found if its share of that rate is in this range.
const HALF: std::ops::RangeInclusive<f64> = 0.45..=0.55;

/// Multiplication by the usual speed may add this factor to a load by rounding.
const ROUNDING: f64 = 1.000_000_1;

/// The rate of each start, correct answers a second.
pub(super) fn starts_qps(verdict: &CellVerdict) -> Vec<f64> {
    let rates = verdict.measured_starts().filter_map(|start| start.bounds.as_ref()?.throughput_qps);
    rates.filter(|rate| rate.is_finite()).collect()
}

pub(super) fn spread(verdict: &CellVerdict) -> Option<Spread> {
    spread_of(starts_qps(verdict).into_iter())
}

pub(super) fn spread_of(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| Spread {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        count: narrow(values.len()),
    })
}

/// The trials of a run by their number.
pub(super) struct Trials<'a>(HashMap<u64, &'a RunTrial>);

impl<'a> Trials<'a> {
    pub(super) fn from_run(run: &'a Run) -> Self {
        Self(run.trials.iter().map(|trial| (trial.number, trial)).collect())
    }
}

/// The trials at the rate of the figure: those of a search at its lower bounds, or near its figure if no load was one, or all
/// trials of a closed loop.
pub(super) fn behind<'a>(run: &'a Run, trials: &Trials<'a>, verdict: &CellVerdict) -> Vec<&'a Trial> {
    let at_bounds: Vec<&Trial> =
        by_start(trials, verdict).into_iter().flat_map(|(_, trials)| trials).collect();
    if at_bounds.is_empty() { near_figure(run, verdict) } else { at_bounds }
}

/// A load is near the figure if it differs from it by at most this share.
const NEAR: f64 = 0.1;

/// The undisturbed trials of a search whose load is near the figure, for a figure that rests on all trials together
/// although no load was a lower bound; empty without a figure.
fn near_figure<'a>(run: &'a Run, verdict: &CellVerdict) -> Vec<&'a Trial> {
    let Some(figure) = verdict.figure_qps else { return Vec::new() };
    let at_reference_qps = figure.median / verdict.usual_speed;
    let counted = counted_of_cell(run, verdict.cell as usize).into_iter();
    let sought = counted.filter(|(one, _)| one.purpose.is_of_search() || one.purpose == Purpose::Refine);
    sought.map(|(_, trial)| trial).filter(|trial| is_near(trial, at_reference_qps)).collect()
}

/// Whether the load of a trial is near a rate, which is at the reference speed, and nothing spoiled the trial.
pub fn is_near(trial: &Trial, qps: f64) -> bool {
    let is_near = load_qps(trial).is_some_and(|load_qps| (load_qps / qps - 1.0).abs() <= NEAR);
    is_near && is_sound(trial)
}

/// The trials of a search at its lower bounds, or all trials of a closed loop, each start's with its block.
pub(super) fn by_start<'a>(trials: &Trials<'a>, verdict: &CellVerdict) -> Vec<(u32, Vec<&'a Trial>)> {
    let of_start = |start: &StartVerdict| {
        let lower_qps = start.bounds.as_ref().and_then(|bounds| bounds.lower_qps);
        let named = start.trials.iter().filter_map(|number| trials.0.get(number).copied());
        let is_above = move |trial: &Trial| match (trial.load.mode, load_qps(trial), lower_qps) {
            (LoadMode::Closed, ..) => false,
            (_, Some(load_qps), Some(lower_qps)) => {
                verdict.goal.round_load(load_qps) * verdict.usual_speed > lower_qps * ROUNDING
            }
            _ => true,
        };
        let records = named.filter_map(RunTrial::measured);
        (start.block, records.filter(|trial| !is_above(trial)).collect::<Vec<_>>())
    };
    verdict.measured_starts().map(of_start).collect()
}

/// The CPU time of all trials over the answers of all trials. A mean of their quotients would give short trials
/// too much weight.
pub(super) fn cpu_s_per_million(trials: &[&Trial]) -> Option<f64> {
    let watched = watched(trials);
    let (cpu_s, answers) = watched.fold((0.0, 0), |(cpu_s, answers), (subject, correct)| {
        (cpu_s + subject.cpu_user_s + subject.cpu_system_s, answers + correct)
    });
    (answers > 0).then(|| (cpu_s - beside_s(trials)).max(0.0) / (answers as f64 / 1e6))
}

/// CPU seconds of the servers of an Internet in a box that were watched with a resolver, since they shared its cores.
fn beside_s(trials: &[&Trial]) -> f64 {
    let of_resolver = trials.iter().filter_map(|trial| trial.upstream.as_ref());
    of_resolver.filter(|upstream| upstream.is_beside_subject).map(|upstream| upstream.cpu_s).sum()
}

/// The subject of each trial with its answers. Beside an attack, CPU time is that of all classes' answers.
fn watched<'a>(trials: &'a [&Trial]) -> impl Iterator<Item = (&'a SubjectFacts, u64)> {
    let alone = trials.iter().filter(|trial| trial.classes.is_empty());
    alone.filter_map(|trial| Some((trial.subject.as_ref()?, trial.accounts.correct)))
}

/// Threads below this share of all CPU time are left out.
const THREAD_SHARE_LEAST: f64 = 0.01;

/// CPU time per million answers of threads that share a name apart from a number at its end, the greatest
/// first.
pub(super) fn cpu_by_thread(trials: &[&Trial]) -> Vec<(String, f64)> {
    let watched = watched(trials);
    let mut answers = 0;
    let mut cpu_s: BTreeMap<&str, f64> = BTreeMap::new();
    for (subject, correct) in watched {
        answers += correct;
        for thread in &subject.threads {
            let name = thread.name.trim_end_matches(|c: char| c.is_ascii_digit() || " :/-_#".contains(c));
            *cpu_s.entry(if name.is_empty() { &thread.name } else { name }).or_default() += thread.cpu_s;
        }
    }
    if answers == 0 {
        return Vec::new();
    }
    let millions = answers as f64 / 1e6;
    let mut shares: Vec<(String, f64)> =
        cpu_s.into_iter().map(|(name, cpu_s)| (name.to_owned(), cpu_s / millions)).collect();
    let all: f64 = shares.iter().map(|(_, cpu_s)| cpu_s).sum();
    shares.retain(|(_, cpu_s)| *cpu_s >= THREAD_SHARE_LEAST * all);
    shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    shares
}

pub(super) fn memory(trials: &[&Trial]) -> Option<Memory> {
    let watched: Vec<_> = trials.iter().filter_map(|trial| trial.subject.as_ref()).collect();
    let resident = watched.iter().map(|subject| subject.rss_bytes).max().filter(|bytes| *bytes > 0)?;
    let proportional: Option<Vec<u64>> = watched.iter().map(|subject| subject.pss_bytes).collect();
    Some(match proportional.and_then(|bytes| bytes.into_iter().max()) {
        Some(bytes) => Memory { bytes, proportional: true },
        None => Memory { bytes: resident, proportional: false },
    })
}

/// The most memory of one kind: proportional (PSS) or resident (RSS), bytes.
pub(super) fn memory_bytes(trials: &[&Trial], proportional: bool) -> Option<u64> {
    let watched = trials.iter().filter_map(|trial| trial.subject.as_ref());
    let bytes = |subject: &SubjectFacts| {
        if proportional { subject.pss_bytes } else { Some(subject.rss_bytes) }
    };
    watched.filter_map(bytes).max().filter(|bytes| *bytes > 0)
}

/// Connections that were open when the last query was sent, and the subject's resident memory then, bytes: of the trial
/// with the most. Proportional memory is read later, when the connections are closed.
pub(super) fn memory_with_connections(trials: &[&Trial]) -> Option<(u64, u64)> {
    let of_trial =
        |trial: &&Trial| Some((trial.connections.as_ref()?.open, trial.subject.as_ref()?.rss_bytes));
    trials.iter().filter_map(of_trial).max().filter(|(_, bytes)| *bytes > 0)
}

pub(super) fn per_record(memory: Memory, cell: &Cell) -> Option<f64> {
    let records = cell.factors.dataset().records?;
    (records > 0).then(|| memory.bytes as f64 / records as f64)
}

/// Seconds from each start until the subject answered: mean, least and most. Starts whose trials give no figure
/// count too.
pub(super) fn load_time_s(run: &Run, cell: u32) -> Option<Spread> {
    let trials = run.trials_of(cell as usize).filter_map(|one| Some((one.start, one.measured()?)));
    let ready = trials.filter_map(|(start, trial)| Some((start, trial.subject.as_ref()?.ready_s?)));
    let by_start: BTreeMap<u64, f64> = ready.collect();
    spread_of(by_start.into_values())
}

/// The size of all correct replies over their count.
pub(super) fn reply_bytes(trials: &[&Trial]) -> Option<f64> {
    let known = trials.iter().filter_map(|trial| Some((trial.response_bytes_mean?, trial.accounts.correct)));
    let (bytes, replies) = known.fold((0.0, 0), |(bytes, replies), (mean, correct)| {
        (bytes + mean * correct as f64, replies + correct)
    });
    (replies > 0).then(|| bytes / replies as f64)
}

/// Latency over all of these trials. The histograms are added.
pub(super) fn latency_us(trials: &[&Trial]) -> Option<Latency> {
    let mut latency = Histogram::default();
    let recorded = trials.iter().filter_map(|trial| Histogram::decode(trial.histograms.get("latency")?));
    recorded.for_each(|recorded| latency.add(&recorded));
    let quantiles = latency.quantiles();
    Some(Latency { mean: quantiles.mean?, p99: quantiles.p99 })
}

/// Lost queries over sent queries.
pub(super) fn lost_share(trials: &[&Trial]) -> Option<f64> {
    let (lost, sent) = trials
        .iter()
        .fold((0, 0), |(lost, sent), trial| (lost + trial.accounts.lost, sent + trial.accounts.sent));
    (sent > 0).then(|| lost as f64 / sent as f64)
}

/// p99 over the trials at half of the rate that their own block found. If no trial was made for latency, those
/// of the search count. The histograms are added. `None` if the player or the host spoiled all of these trials, or if
/// 1 % of their queries or more had no answer in time: the timeout is no latency.
pub(super) fn p99_at_half_us(run: &Run, verdict: &CellVerdict) -> Option<u64> {
    let figure_qps = verdict.figure_qps?.median;
    let found_qps = |block: u32| {
        let start = verdict.measured_starts().find(|start| start.block == block)?;
        start.bounds.as_ref()?.throughput_qps
    };
    let counted = counted_of_cell(run, verdict.cell as usize);
    let p99_of = |purposes: &[Purpose]| {
        let (mut latency, mut sent, mut unanswered) = (Histogram::default(), 0, 0);
        let of_purpose = |one: &RunTrial| purposes.contains(&one.purpose);
        for (one, trial) in counted.iter().filter(|(one, trial)| of_purpose(one) && is_sound(trial)) {
            let load_qps = load_qps(trial).unwrap_or(0.0) * verdict.usual_speed;
            let share = load_qps / found_qps(one.block).unwrap_or(figure_qps);
            if HALF.contains(&share)
                && let Some(recorded) =
                    trial.histograms.get("latency").and_then(|text| Histogram::decode(text))
            {
                latency.add(&recorded);
                sent += trial.accounts.sent;
                unanswered += trial.accounts.lost + trial.accounts.late;
            }
        }
        latency.quantile_us(0.99).filter(|_| unanswered * 100 < sent)
    };
    p99_of(&[Purpose::Latency]).or_else(|| p99_of(&[Purpose::Search, Purpose::Retest, Purpose::Rate]))
}
