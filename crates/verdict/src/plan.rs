//! How many hosts a load takes, from the figures of a run. Pure functions of the run, its verdict and what is wanted.
//!
//! A host gets a part of the load that it answers by the low end of its rate's range, with the reserve left over, and
//! at which p99 stays within the limit. Both are measured, and both stay below every load that a start refuted. A figure that
//! is refused gives no number of hosts.

use std::collections::BTreeMap;

use kqps_observation::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Resource;
use crate::grade::Grade;
use crate::interval::{Interval, median_interval};
use crate::judge::{CellVerdict, LoadPoint, RunVerdict};
use crate::percent;
use crate::rate::rate;
use crate::warning::Code;

/// The demands on the hosts together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requirements {
    /// The load on all hosts together, queries a second, above 0.
    pub load_qps: f64,
    /// The share of each host's rate that the load leaves over, from 0 to below 1.
    pub reserve: f64,
    /// The greatest p99 of latency, microseconds; `None` without a limit.
    pub p99_us: Option<f64>,
}

/// How many hosts of the kind that was measured a load takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostPlan {
    /// Index into the run's cells.
    pub cell: u32,
    /// The name of the cell.
    pub name: String,
    /// The grade of its rate.
    pub grade: Grade,
    /// The demands on the hosts together.
    pub wanted: Requirements,
    /// The rate of one host with its range, queries a second; `None` if it is refused.
    pub rate_qps: Option<Interval>,
    /// The load that one host takes by its rate: the low end of the range, or the goal's width below a load that a start
    /// refuted, less the reserve, queries a second.
    pub by_rate_qps: Option<f64>,
    /// The highest load at which p99 stayed within the limit, queries a second: the low end over starts. `None`
    /// without a limit.
    pub by_latency_qps: Option<f64>,
    /// The load that one host takes: the lesser of both, queries a second. `None` if no number of hosts is given.
    pub host_qps: Option<f64>,
    /// The number of hosts, at least 1. `None` if the plan is refused.
    pub hosts: Option<u64>,
    /// The load of each of these hosts, queries a second.
    pub each_qps: Option<f64>,
    /// The grounds of the number, in sentences.
    pub rests_on: Vec<String>,
    /// Why there is no number, in a sentence; `None` if there is one.
    pub refused: Option<String>,
}

/// Rounding may make a load look greater than the hosts that it fits exactly.
const ROUNDING: f64 = 1e-9;

/// The plan for every subject of a run, in the order of its cells.
pub fn of_run(run: &Run, verdict: &RunVerdict, wanted: Requirements) -> Vec<HostPlan> {
    verdict.subjects.iter().map(|subject| of_subject(run, subject, wanted)).collect()
}

fn of_subject(run: &Run, subject: &CellVerdict, wanted: Requirements) -> HostPlan {
    let refuted_qps = refuted_qps(subject);
    let below_qps = refuted_qps * (1.0 - subject.goal.width);
    let by_rate_qps = subject.figure_qps.map(|figure| figure.low.min(below_qps) * (1.0 - wanted.reserve));
    let by_latency = wanted.p99_us.map(|p99_us| by_latency(subject, p99_us, refuted_qps)).transpose();
    let host_qps = match (by_rate_qps, &by_latency) {
        (None, _) if subject.at_least_qps.is_some() => {
            let least = subject.at_least_qps.map_or_else(String::new, rate);
            Err(format!("It answers at least {least} q/s, and no greater load was tried."))
        }
        (None, _) => Err(subject.reasons.first().cloned().unwrap_or_else(|| "There is no figure.".into())),
        (Some(_), Err(reason)) => Err(reason.clone()),
        (Some(by_rate), Ok(by_latency)) => {
            let least = by_latency.map_or(by_rate, |within| within.load_qps.min(by_rate));
            if least > 0.0 { Ok(least) } else { Err("The low end of the rate's range is 0.".into()) }
        }
    };
    let within = by_latency.ok().flatten();
    let hosts = host_qps.as_ref().ok().map(|host| (wanted.load_qps / host - ROUNDING).ceil().max(1.0));
    HostPlan {
        cell: subject.cell,
        name: subject.name.clone(),
        grade: subject.grade,
        wanted,
        rate_qps: subject.figure_qps,
        by_rate_qps,
        by_latency_qps: within.map(|within| within.load_qps),
        host_qps: host_qps.as_ref().ok().copied(),
        hosts: hosts.map(|hosts| hosts as u64),
        each_qps: hosts.map(|hosts| wanted.load_qps / hosts),
        rests_on: if host_qps.is_ok() { rests_on(run, subject, within, refuted_qps) } else { Vec::new() },
        refused: host_qps.err(),
    }
}

/// A load at which p99 stays within the limit.
#[derive(Clone, Copy)]
struct Within {
    load_qps: f64,
    /// The number of starts that show it.
    starts: usize,
}

/// The least load that a start refuted, queries a second: one that it found too great, or that met the goal and failed when
/// it was tried again. Infinite if there is none.
fn refuted_qps(subject: &CellVerdict) -> f64 {
    let bounds = subject.measured_starts().filter_map(|start| start.bounds.as_ref());
    let refuted = bounds.flat_map(|bounds| [bounds.refuted_qps, bounds.upper_qps]);
    refuted.flatten().fold(f64::INFINITY, f64::min)
}

/// The loads of a start with their p99, in rising order of loads.
type Points = Vec<(f64, f64)>;

/// The highest load at which p99 stayed within the limit and at no lower load exceeded it: the low end of the range
/// over starts. Low loads are played in the first block alone. So a start whose lowest load is above the limit shows
/// nothing of lower loads at which another start held; what held below that load is the most that it allows.
/// A load that a start refuted does not count. Otherwise the reason why it is not known, as a sentence.
fn by_latency(subject: &CellVerdict, p99_us: f64, refuted_qps: f64) -> Result<Within, String> {
    let mut starts: BTreeMap<u32, Points> = BTreeMap::new();
    for point in subject.latency.iter().filter(|point| point.load_qps < refuted_qps) {
        if let Some(p99) = point.latency_us.p99 {
            starts.entry(point.block).or_default().push((point.load_qps, p99 as f64));
        }
    }
    let held = |points: &Points| -> Vec<f64> {
        points.iter().take_while(|(_, p99)| *p99 <= p99_us).map(|(load_qps, _)| *load_qps).collect()
    };
    let all_held: Vec<f64> = starts.values().flat_map(held).collect();
    // Each start with the highest load that it shows to hold, or else with the least load that is too high.
    let (mut shown, mut most_qps) = (Vec::new(), f64::INFINITY);
    for points in starts.values() {
        let lowest_qps = points.first().map_or(0.0, |(load_qps, _)| *load_qps);
        let below = all_held.iter().copied().filter(|load_qps| *load_qps < lowest_qps);
        match (held(points).last(), below.max_by(f64::total_cmp)) {
            (Some(highest_qps), _) => shown.push(*highest_qps),
            (None, Some(below_qps)) => most_qps = most_qps.min(below_qps),
            (None, None) => shown.push(0.0),
        }
    }
    let is_refuted = |point: &LoadPoint| point.load_qps >= refuted_qps && point.latency_us.p99.is_some();
    if shown.is_empty() && subject.latency.iter().any(is_refuted) {
        return Err("Latency is known only at loads that a start found too great.".to_owned());
    }
    let low_qps = median_interval(&shown).map(|interval| interval.low.min(most_qps)).ok_or_else(|| {
        "Latency by load is not known: no load was played in an open loop with queries enough for a p99."
            .to_owned()
    })?;
    if low_qps > 0.0 {
        return Ok(Within { load_qps: low_qps, starts: shown.len() });
    }
    let too_slow = starts.values().flatten().filter(|(_, p99)| *p99 > p99_us);
    let lowest = too_slow.min_by(|one, other| one.0.total_cmp(&other.0));
    let (load_qps, p99) = lowest.copied().unwrap_or_default();
    Err(format!(
        "At the lowest load that was played, {} q/s, p99 was {} µs and above the limit. More hosts would not help, as \
         far as was measured.",
        rate(load_qps),
        rate(p99)
    ))
}

/// The grounds of a plan: the host, the range, the limit of latency, and what may make the number wrong.
fn rests_on(run: &Run, subject: &CellVerdict, within: Option<Within>, refuted_qps: f64) -> Vec<String> {
    let mut sentences = vec![host(run, subject)];
    if let Some(figure) = subject.figure_qps {
        sentences.push(match figure.count {
            _ if refuted_qps * (1.0 - subject.goal.width) < figure.low => format!(
                "A start found {} q/s too great, so a host takes less than that, whatever the range of the rate.",
                rate(refuted_qps)
            ),
            0 | 1 => "The rate is that of one start, and how far starts differ is not known.".into(),
            starts => format!(
                "The low end of the rate's range counts; it rests on {starts} starts, and the range holds the truth \
                 with {:.0} %.",
                figure.coverage * 100.0
            ),
        });
    }
    if let Some(Within { starts, .. }) = within {
        let starts = if starts == 1 { "1 start".to_owned() } else { format!("{starts} starts") };
        sentences.push(format!("The load at which p99 stays within the limit rests on {starts}."));
        sentences.push(
            "The limit of latency holds at the load that each host gets. Where it lies when a host takes the reserve \
             too is not part of the number."
                .into(),
        );
    }
    match subject.bottleneck.resource {
        Resource::Player => {
            sentences.push("The player was the bottleneck, so the server may answer more.".into());
        }
        Resource::Places => {
            sentences.push(
                "The player had no place for more queries at the rate, so the server may answer more.".into(),
            );
        }
        Resource::NoneSaturated => {
            sentences.push("Nothing was full at the rate, so the server may answer more.".into());
        }
        _ => {}
    }
    if subject.warnings.iter().any(|warning| warning.code == Code::SingleHost) {
        sentences.push(
            "Player and server shared one host, and no network was between them. Measure over a network before you \
             rely on the number."
                .into(),
        );
    }
    sentences
}

/// The host of the figure: its processor, and the part of it that the server had.
fn host(run: &Run, subject: &CellVerdict) -> String {
    let cell = &run.cells[subject.cell as usize];
    if cell.is_elsewhere() {
        return "A host of this kind is the one on which the server ran; kqps knows no more of it than its address."
            .into();
    }
    let model = match run.fingerprint.cpu_model.as_str() {
        "" => String::new(),
        model => format!(" ({model})"),
    };
    let number = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let part = match (cell.workers, cell.subject_cpus.len(), run.fingerprint.cores.len()) {
        (_, 0, 0) => return format!("A host of this kind is the one that was measured{model}."),
        (_, 0, all) => format!("all of {}", number(all, "core")),
        (0, own, all) if all >= own => format!("{own} of {}", number(all, "core")),
        (workers, own, all) if all >= own => {
            format!("{} on {own} of {}", number(workers as usize, "worker"), number(all, "core"))
        }
        (workers, own, _) => {
            format!("{} on {}", number(workers as usize, "worker"), number(own, "core"))
        }
    };
    format!("A host of this kind gives the server what it had here: {part}{model}.")
}

/// The plan's number with its parts, in a sentence. `None` if it is refused.
pub fn sentence(plan: &HostPlan) -> Option<String> {
    let (hosts, each_qps) = (plan.hosts?, plan.each_qps?);
    let count = if hosts == 1 { "1 host".to_owned() } else { format!("{} hosts", rate(hosts as f64)) };
    let limit = plan.wanted.p99_us.map_or(String::new(), |p99| format!(" with p99 up to {} µs", rate(p99)));
    Some(format!(
        "{count} for {} q/s{limit} and a reserve of {} %: {} q/s for each",
        rate(plan.wanted.load_qps),
        percent::typed(plan.wanted.reserve),
        rate(each_qps)
    ))
}
