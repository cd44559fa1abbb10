//! The figures of every subject's cell, as tables and charts show them, beside published ones. Pure functions
//! of a run and the verdicts on its cells. A refused figure is absent.

mod absence;
pub(crate) mod by_start;
mod event;
mod factor;
mod grid;
pub mod links;
mod measured;
mod per_connection;
mod published;
mod resolver;
mod scaling;

use kqps_catalogue::Figure;
use kqps_observation::run::Outcome;
use kqps_observation::{Run, RunTrial, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grade::Grade;
use crate::interval::Interval;
use crate::judge::{CellVerdict, Depth};
use crate::steady::begins_cold;

pub use absence::Absence;
pub use event::EventCosts;
pub(crate) use factor::varies;
pub use factor::{factor, setting};
pub use grid::{Grid, GridRow, Slot, charts_of, tables_of};
pub use measured::{Latency, Memory, Spread, is_near};
pub use published::{Best, PublishedFigure, best_of};
pub use resolver::CacheFigures;

/// All figures of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Index into the run's cells.
    pub cell: u32,
    /// The name of the cell.
    pub name: String,
    /// The experiment that the cell belongs to; empty if the run has only one.
    pub experiment: String,
    /// Whether the cell has figures, or why it has none.
    pub state: State,
    /// The grade of the rate.
    pub grade: Grade,
    /// Median of the starts with its order-statistic interval, correct answers a second. It is a statistic, not
    /// a load that was played.
    pub median_qps: Option<Interval>,
    /// The rate of each start, correct answers a second.
    #[serde(default)]
    pub starts_qps: Vec<f64>,
    /// Mean, minimum and maximum of the starts, correct answers a second.
    pub spread_qps: Option<Spread>,
    /// The published figure with the same factors.
    pub published: Option<PublishedFigure>,
    /// Rate at n workers, divided by n times the rate at one worker, all else equal; `None` if one worker was
    /// not measured.
    pub efficiency: Option<f64>,
    /// The efficiency from the published rates.
    pub published_efficiency: Option<f64>,
    /// The rate as a share of the ceiling of the ordinary socket interface, 0 to 1.
    pub ceiling_share: Option<f64>,
    /// CPU seconds of the subject per million correct answers, at the rate of the figure.
    pub cpu_s_per_million: Option<f64>,
    /// CPU seconds per million correct answers by thread name without its number, the greatest first. Names
    /// below a hundredth of the total are left out.
    #[serde(default)]
    pub cpu_by_thread: Vec<(String, f64)>,
    /// Memory of the subject, also if the rate is refused.
    pub memory: Option<Memory>,
    /// Memory divided by the number of records in all zones, bytes.
    pub memory_bytes_per_record: Option<f64>,
    /// Resident memory of the subject beyond that of the cell with the fewest open connections and otherwise equal
    /// factors, divided by the further connections, bytes; `None` for that cell itself.
    pub memory_bytes_per_connection: Option<f64>,
    /// Seconds from each start until the subject answered.
    pub load_time_s: Option<Spread>,
    /// Mean size of a correct reply's DNS message, bytes, also if the rate is refused.
    pub reply_bytes: Option<f64>,
    /// p99 of latency at half of the rate, microseconds.
    pub p99_at_half_us: Option<u64>,
    /// Latency at the rate of the figure.
    pub latency_us: Option<Latency>,
    /// Share of the queries sent that were lost, at the rate of the figure, 0 to 1.
    pub lost_share: Option<f64>,
    /// The event in each load, also if the rate is refused; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventCosts>,
    /// Correct replies in time as a share of the queries sent to a resolver in an Internet in a box, 0 to 1, also if the rate
    /// is refused; `None` for other subjects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_share: Option<f64>,
    /// Queries that it asked upstream for each of them, also if the rate is refused; `None` for other subjects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_per_query: Option<f64>,
    /// Seconds until a resolver with a cold cache answered 99 % within 10 ms; `None` of others, and if a load ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_after_s: Option<f64>,
    /// Its hits and misses; `None` unless all servers take one time to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheFigures>,
    /// The starts that could not be measured.
    pub crashes: Vec<Crash>,
}

/// A figure and the ends of its interval, or of its starts.
pub type Ranged = (Option<f64>, Option<f64>, Option<f64>);

impl Figures {
    /// Whether this kind of figure may be shown. If the rate counts, all may; if not, only those that do not
    /// depend on it.
    pub fn may_show(&self, figure: Figure) -> bool {
        self.state == State::Measured || figure.row().stands_alone
    }

    /// The value of a figure with its ends, if it has any, in the unit of the record.
    pub fn ranged(&self, figure: Figure) -> Ranged {
        let with_ends = |value: f64, low: f64, high: f64, are_known: bool| {
            (Some(value), Some(low).filter(|_| are_known), Some(high).filter(|_| are_known))
        };
        let of_starts = |spread: Option<Spread>| {
            spread.map_or((None, None, None), |of| with_ends(of.mean, of.min, of.max, of.count > 1))
        };
        let alone = |value: Option<f64>| (value, None, None);
        let event = |of: fn(EventCosts) -> Option<Spread>| of_starts(self.event.and_then(of));
        let latency = |us: fn(Latency) -> Option<f64>| alone(self.latency_us.and_then(us));
        match figure {
            // A lone start has no interval.
            Figure::Median => self.median_qps.map_or((None, None, None), |rate| {
                with_ends(rate.median, rate.low, rate.high, rate.coverage > 0.0)
            }),
            Figure::MeanMinMax => of_starts(self.spread_qps),
            Figure::LoadTime => of_starts(self.load_time_s),
            Figure::Published => alone(self.published.as_ref().map(|one| one.rate_qps)),
            Figure::Efficiency => alone(self.efficiency),
            Figure::CeilingShare => alone(self.ceiling_share),
            Figure::Cpu | Figure::CpuByThread => alone(self.cpu_s_per_million),
            Figure::Memory => alone(self.memory.map(|memory| memory.bytes as f64)),
            Figure::MemoryPerRecord => alone(self.memory_bytes_per_record),
            Figure::MemoryPerConnection => alone(self.memory_bytes_per_connection),
            Figure::ReplySize => alone(self.reply_bytes),
            Figure::P99AtHalf => alone(self.p99_at_half_us.map(|us| us as f64)),
            Figure::LatencyMean => latency(|latency| Some(latency.mean)),
            Figure::LatencyP99 => latency(|latency| latency.p99.map(|us| us as f64)),
            Figure::Lost => alone(self.lost_share),
            Figure::EventTime => event(|event| event.seconds),
            Figure::EventSilence => event(|event| event.silence_s),
            Figure::EventLost => event(|event| event.lost),
            Figure::EventCpu => event(|event| event.cpu_s),
            Figure::EventMemory => event(|event| event.memory_bytes),
            Figure::UpdatesAccepted => event(|event| event.accepted),
            Figure::AnsweredRight => alone(self.right_share),
            Figure::Upstream => alone(self.upstream_per_query),
            Figure::WarmAfter => alone(self.warm_after_s),
            Figure::Hits => alone(self.cache.map(|cache| cache.hits_share)),
            Figure::HitLatency => alone(self.cache.and_then(|cache| cache.hit_us).map(|us| us as f64)),
            Figure::MissLatency => alone(self.cache.and_then(|cache| cache.miss_us).map(|us| us as f64)),
        }
    }
}

/// Whether a cell has figures, or why it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The cell has figures.
    Measured,
    /// The cell was measured, and its figure is refused: grade F.
    Refused,
    /// No start could be measured.
    Crashed,
    /// The cell is part of the run, but no trial of it was made.
    NotMeasured,
}

/// A start that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Crash {
    /// The number of the start in the run.
    pub start: u64,
    /// The reason, in one sentence.
    pub reason: String,
    /// The last lines of the subject's output.
    pub output: Vec<String>,
}

/// The costs of a subject's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// CPU seconds per million correct answers.
    pub cpu_s_per_million: Option<f64>,
    /// The most memory.
    pub memory: Option<Memory>,
}

/// The costs of the answers in these trials.
pub fn costs(trials: &[&Trial]) -> Costs {
    Costs { cpu_s_per_million: measured::cpu_s_per_million(trials), memory: measured::memory(trials) }
}

impl Figures {
    /// The costs of the subject's answers at the rate of the figure.
    pub fn costs(&self) -> Costs {
        Costs { cpu_s_per_million: self.cpu_s_per_million, memory: self.memory }
    }
}

/// The figures of every cell that has a verdict, in the order of the verdicts.
pub(crate) fn of_run(run: &Run, verdicts: &[CellVerdict], depth: Depth) -> Vec<Figures> {
    let trials = measured::Trials::from_run(run);
    let mut figures: Vec<Figures> =
        verdicts.iter().map(|verdict| of_cell(run, &trials, verdict, depth)).collect();
    scaling::add(run, &mut figures);
    per_connection::add(run, &trials, verdicts, &mut figures);
    figures
}

fn of_cell(run: &Run, trials: &measured::Trials<'_>, verdict: &CellVerdict, depth: Depth) -> Figures {
    let cell = &run.cells[verdict.cell as usize];
    let crashes = crashes(run, verdict.cell);
    let is_measured = verdict.figure_qps.is_some();
    let behind = measured::behind(run, trials, verdict);
    let memory = measured::memory(&behind);
    Figures {
        cell: verdict.cell,
        name: verdict.name.clone(),
        experiment: cell.experiment.clone(),
        state: state(verdict, &crashes),
        grade: verdict.grade,
        median_qps: verdict.figure_qps,
        starts_qps: if is_measured { measured::starts_qps(verdict) } else { Vec::new() },
        spread_qps: is_measured.then(|| measured::spread(verdict)).flatten(),
        published: published::of_cell(run, cell),
        efficiency: None,
        published_efficiency: None,
        ceiling_share: verdict.ceiling_share,
        cpu_s_per_million: is_measured.then(|| measured::cpu_s_per_million(&behind)).flatten(),
        cpu_by_thread: if is_measured { measured::cpu_by_thread(&behind) } else { Vec::new() },
        memory,
        memory_bytes_per_record: memory.and_then(|memory| measured::per_record(memory, cell)),
        memory_bytes_per_connection: None,
        load_time_s: measured::load_time_s(run, verdict.cell),
        reply_bytes: measured::reply_bytes(&behind),
        p99_at_half_us: measured::p99_at_half_us(run, verdict),
        latency_us: (is_measured && depth == Depth::Page).then(|| measured::latency_us(&behind)).flatten(),
        lost_share: is_measured.then(|| measured::lost_share(&behind)).flatten(),
        event: event::costs(run, verdict.cell),
        right_share: resolver::right_share(&behind),
        upstream_per_query: resolver::upstream_per_query(&behind),
        warm_after_s: begins_cold(cell).then(|| resolver::warm_after_s(&behind)).flatten(),
        cache: cell.factors.dataset().delay_ms.and_then(|delay_ms| resolver::cache(&behind, delay_ms)),
        crashes,
    }
}

fn crashes(run: &Run, cell: u32) -> Vec<Crash> {
    let crash = |trial: &RunTrial| match &trial.outcome {
        Outcome::Measured(_) => None,
        Outcome::Failed { reason, output } => {
            Some(Crash { start: trial.start, reason: reason.clone(), output: output.clone() })
        }
    };
    run.trials_of(cell as usize).filter_map(crash).collect()
}

fn state(verdict: &CellVerdict, crashes: &[Crash]) -> State {
    let all_failed = verdict.starts.iter().all(|start| start.failure.is_some());
    match verdict.figure_qps {
        Some(_) => State::Measured,
        None if verdict.at_least_qps.is_some() => State::Measured,
        None if verdict.starts.is_empty() => State::NotMeasured,
        None if all_failed && !crashes.is_empty() => State::Crashed,
        None => State::Refused,
    }
}
