//! Where the time of a subject goes, per query: the states of its threads beside those of the echo, the locks that it
//! waits for, and what grew with its workers. It rests on the profiled trials, and bears on no figure.

use std::collections::BTreeMap;

use kqps_observation::factors::name;
use kqps_observation::profile::{LockFacts, ProfileFacts, ProfileSource, StackNode, ThreadTimes};
use kqps_observation::run::{Cell, Purpose, Role, Run, RunTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ceiling::has_other_certificate;
use crate::narrow::narrow;

/// A lock is named if threads spend at least this share of their time waiting for it. Short waits for some lock of the
/// kernel are in every server.
const LOCK_LEAST: f64 = 0.02;

/// Growth is shown if it makes up at least this share of all that a query takes, and this many standard errors of the
/// difference.
const GROWTH_LEAST: f64 = 0.01;
const ERRORS_LEAST: f64 = 3.0;

/// The most functions and locks that are shown.
const MOST: usize = 8;

/// The name of the subject in cells that measure the echo.
const ECHO: &str = "echo";

/// Where the time of a cell's subject goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellProfile {
    /// Index into the run's cells.
    pub cell: u32,
    /// The cell's name.
    pub name: String,
    /// The number of the profiled trial in the run.
    pub trial: u64,
    /// Why there is no profile; `None` if there is one.
    pub failure: Option<String>,
    /// How samples were taken.
    pub by: ProfileSource,
    /// Correct answers in the profiled trial, those to all classes of clients.
    pub answers: u64,
    /// The cost of sampling: 1 minus the answered rate with it, divided by that without it. Negative if the rate with
    /// it was higher by chance. `None` if the trials without it are missing.
    pub overhead: Option<f64>,
    /// The states of all threads together that work or wait for a core or a lock, without those that are idle.
    pub states: Vec<StateTime>,
    /// The cell of the echo that has the same transport and I/O.
    pub echo: Option<String>,
    /// Microseconds of CPU time per query that the echo needs in the kernel, too, and thus any server with this I/O;
    /// `None` without an echo.
    pub both_us: Option<f64>,
    /// Microseconds of CPU time per query beyond that: the server's own.
    pub own_us: Option<f64>,
    /// The locks that threads spend much time waiting for, those with the most time first.
    pub locks: Vec<NamedLock>,
    /// Growth from the fewest workers to this cell's; `None` for the cell with the fewest, and if there is no other.
    pub growth: Option<Growth>,
}

/// The time that threads spend in a state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateTime {
    /// The state in words, as in [`ThreadTimes::STATES`].
    pub state: String,
    /// Microseconds per query.
    pub us: f64,
    /// Microseconds per query of the echo; `None` without an echo.
    pub echo_us: Option<f64>,
    /// The share of all time of the threads, 0 to 1.
    pub share: f64,
}

/// A lock that threads wait for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedLock {
    /// The lock.
    pub lock: LockFacts,
    /// Microseconds of waiting per query.
    pub us: f64,
    /// The share of all time of the threads that waits for it, 0 to 1.
    pub share: f64,
}

/// The time that a query takes with more workers, compared with the fewest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Growth {
    /// The fewest workers.
    pub from_workers: u32,
    /// The workers of this cell.
    pub to_workers: u32,
    /// The states that take longer, the one that grew most first.
    pub states: Vec<Grown>,
    /// The functions that take longer on a core themselves, the one that grew most first.
    pub functions: Vec<Grown>,
    /// The locks that are waited for longer, each with its kind and place, the one that grew most first.
    #[serde(default)]
    pub locks: Vec<Grown>,
}

/// Something that takes longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grown {
    /// The state or the function.
    pub what: String,
    /// Microseconds per query with the fewest workers.
    pub from_us: f64,
    /// Microseconds per query with the workers of this cell.
    pub to_us: f64,
}

/// The profiles of all subjects, in the order of the run's cells.
pub(super) fn of_run(run: &Run) -> Vec<CellProfile> {
    let subjects = run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject);
    subjects.filter_map(|(index, _)| of_cell(run, index)).collect()
}

/// A profiled trial.
#[derive(Clone, Copy)]
struct Sampled<'a> {
    facts: &'a ProfileFacts,
    answers: u64,
}

impl Sampled<'_> {
    /// Microseconds per query.
    fn us(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.answers as f64
    }
}

fn is_sampled(one: &RunTrial) -> bool {
    one.purpose == Purpose::Profile { sampled: true }
}

/// The profile of a cell, if one was measured with answers.
fn sampled(run: &Run, cell: usize) -> Option<Sampled<'_>> {
    let of_cell = run.trials.iter().filter(|one| one.cell as usize == cell && is_sampled(one));
    of_cell.filter_map(RunTrial::measured).find_map(|trial| {
        let facts = trial.subject.as_ref()?.profile.as_ref()?;
        // The subject's time is for the queries of all classes.
        let answers = trial.over_classes(|trial| trial.accounts.correct);
        (answers > 0 && !facts.threads.is_empty()).then_some(Sampled { facts, answers })
    })
}

fn of_cell(run: &Run, index: usize) -> Option<CellProfile> {
    let one = run.trials.iter().find(|one| one.cell as usize == index && is_sampled(one))?;
    let profile = CellProfile {
        cell: narrow(index),
        name: run.cells[index].name.clone(),
        trial: one.number,
        ..CellProfile::default()
    };
    let Some(sampled) = sampled(run, index) else {
        return Some(CellProfile { failure: Some(why_not(one)), ..profile });
    };
    let times = working(sampled.facts);
    let echo = echo_of(run, index).and_then(|echo| Some((echo, self::sampled(run, echo)?)));
    let both_us = echo.map(|(_, echo)| {
        let kernel_us = |of: Sampled<'_>| of.us(in_kernel_s(&working(of.facts)));
        kernel_us(sampled).min(kernel_us(echo))
    });
    Some(CellProfile {
        by: sampled.facts.by,
        answers: sampled.answers,
        overhead: overhead(run, index),
        states: states(sampled, echo.map(|(_, echo)| echo)),
        echo: echo.map(|(echo, _)| run.cells[echo].name.clone()),
        both_us,
        own_us: both_us.map(|both_us| (sampled.us(times.on_core_s()) - both_us).max(0.0)),
        locks: locks(sampled),
        growth: fewest_workers(run, index).and_then(|other| growth(run, other, index)),
        ..profile
    })
}

/// Seconds on a core in the kernel, without those that wait for a lock.
fn in_kernel_s(times: &ThreadTimes) -> f64 {
    times.system_s + times.softirq_s
}

/// A thread counts if it spends at least this share of its time on a core, or waiting for one or for a lock. Others
/// only wait for something to do.
const WORK_LEAST: f64 = 0.01;

/// The times of all threads that count, together.
fn working(facts: &ProfileFacts) -> ThreadTimes {
    let mut all = ThreadTimes::default();
    for times in facts.threads.iter().map(|thread| thread.times) {
        if times.on_core_s() + times.lock_s + times.core_s >= WORK_LEAST * times.all_s() {
            all += times;
        }
    }
    all
}

/// Why a trial has no profile.
fn why_not(one: &RunTrial) -> String {
    if let Some(why) = one.failure() {
        return why.to_owned();
    }
    let facts = one.measured().and_then(|trial| trial.subject.as_ref()?.profile.as_ref());
    let unreadable = facts.and_then(|facts| facts.unreadable.iter().next());
    match unreadable {
        Some((what, why)) => format!("{what}: {why}"),
        None => "no thread of the subject was seen".into(),
    }
}

fn overhead(run: &Run, cell: usize) -> Option<f64> {
    let rates = |sampled: bool| {
        let purpose = Purpose::Profile { sampled };
        let trials = run.trials.iter().filter(|one| one.cell as usize == cell && one.purpose == purpose);
        let rates: Vec<f64> =
            trials.filter_map(RunTrial::measured).map(|trial| trial.load.answered_qps).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    };
    let without_qps = rates(false).filter(|rate_qps| *rate_qps > 0.0)?;
    Some(1.0 - rates(true)? / without_qps)
}

fn states(sampled: Sampled<'_>, echo: Option<Sampled<'_>>) -> Vec<StateTime> {
    let times = working(sampled.facts);
    let all_s = times.all_s();
    let echo_us = |state: usize| echo.map(|echo| echo.us(working(echo.facts).seconds()[state]));
    let state = |(number, (word, seconds)): (usize, (&str, f64))| StateTime {
        state: word.to_owned(),
        us: sampled.us(seconds),
        echo_us: echo_us(number),
        share: if all_s > 0.0 { seconds / all_s } else { 0.0 },
    };
    ThreadTimes::STATES.into_iter().zip(times.seconds()).enumerate().map(state).collect()
}

/// The locks with much time, summed over the ways that lead to them. The callers are those of the most frequent way.
fn locks(sampled: Sampled<'_>) -> Vec<NamedLock> {
    let all_s = working(sampled.facts).all_s();
    let mut locks: Vec<LockFacts> = Vec::new();
    for lock in &sampled.facts.locks {
        match locks.iter_mut().find(|other| is_same_lock(other, lock)) {
            Some(other) => {
                other.seconds += lock.seconds;
                other.waits += lock.waits;
            }
            None => locks.push(lock.clone()),
        }
    }
    locks.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let named = |lock: LockFacts| NamedLock {
        us: sampled.us(lock.seconds),
        share: if all_s > 0.0 { lock.seconds / all_s } else { 0.0 },
        lock,
    };
    locks.into_iter().map(named).filter(|lock| lock.share >= LOCK_LEAST).take(MOST).collect()
}

/// A lock is known by its kind and place, and by its address if its callers are not known.
fn is_same_lock(one: &LockFacts, other: &LockFacts) -> bool {
    let is_at = |lock: &LockFacts| lock.address.filter(|_| lock.callers.is_empty());
    one.kind == other.kind && one.place == other.place && is_at(one) == is_at(other)
}

fn echo_of(run: &Run, index: usize) -> Option<usize> {
    echo_beside(&run.cells, index, |echo| sampled(run, echo).is_some())
}

/// The echo beside which a cell's profile is shown, among those that `may_be` it: with the same transport and I/O, the
/// same type of certificate, the nearest number of workers, and most factors alike. The I/O of a server that was already
/// running is not known. An echo has none.
pub fn echo_beside(cells: &[Cell], index: usize, may_be: impl Fn(usize) -> bool) -> Option<usize> {
    let cell = &cells[index];
    let is_alike = |(_, echo): &(usize, &Cell)| {
        echo.role == Role::EchoCeiling
            && (echo.io == cell.io || cell.io.is_empty() || cell.target.is_some())
            && echo.factors.transport() == cell.factors.transport()
            && cell.subject != ECHO
    };
    let echoes = cells.iter().enumerate().filter(is_alike).filter(|(echo, _)| may_be(*echo));
    let nearest = echoes.min_by_key(|(_, echo)| {
        let differing = echo.factors.differences_from(&cell.factors);
        (has_other_certificate(echo, cell), echo.workers.abs_diff(cell.workers), differing)
    });
    nearest.map(|(echo, _)| echo)
}

/// Whether two cells differ in their workers alone, or not at all.
pub fn differ_in_workers_alone(one: &Cell, other: &Cell) -> bool {
    let is_kept = |name: &str| ![name::WORKERS, name::CORES, "threads", "processes"].contains(&name);
    let known = |cell: &Cell| cell.factors.filtered(is_kept).words().clone();
    one.role == other.role
        && one.experiment == other.experiment
        && one.subject == other.subject
        && one.io == other.io
        && known(one) == known(other)
}

/// The cell that differs from this one in its workers alone, and has the fewest; `None` if this one has.
fn fewest_workers(run: &Run, index: usize) -> Option<usize> {
    let cell = &run.cells[index];
    let is_alike = |other: &Cell| {
        other.workers > 0 && other.workers < cell.workers && differ_in_workers_alone(other, cell)
    };
    let alike = run.cells.iter().enumerate().filter(|(_, other)| is_alike(other));
    let profiled = alike.filter(|(other, _)| sampled(run, *other).is_some());
    profiled.min_by_key(|(_, other)| other.workers).map(|(other, _)| other)
}

/// Microseconds per query, with the variance of that figure.
#[derive(Clone, Copy, Default)]
struct Took {
    us: f64,
    variance: f64,
}

impl Took {
    /// Seconds that were found by samples, each of which stands for `1 / hz` seconds. Their number scatters by its
    /// root.
    fn by_samples(sampled: Sampled<'_>, seconds: f64) -> Self {
        let hz = sampled.facts.hz;
        let variance_s = if hz > 0.0 { seconds.max(1.0 / hz) / hz } else { 0.0 };
        Self { us: sampled.us(seconds), variance: sampled.us(1.0).powi(2) * variance_s }
    }

    /// Waits for a lock, as many as are known, or else by samples.
    fn by_waits(sampled: Sampled<'_>, lock: &LockFacts) -> Self {
        if lock.waits == 0 {
            return Self::by_samples(sampled, lock.seconds);
        }
        let us = sampled.us(lock.seconds);
        Self { us, variance: us.powi(2) / lock.waits as f64 }
    }
}

fn growth(run: &Run, from: usize, to: usize) -> Option<Growth> {
    let (before, after) = (sampled(run, from)?, sampled(run, to)?);
    let least_us = GROWTH_LEAST * after.us(working(after.facts).on_core_s());
    let grown = |before: &BTreeMap<String, Took>, after: BTreeMap<String, Took>| -> Vec<Grown> {
        let pairs = after.into_iter().map(|(what, now)| {
            let was = before.get(&what).copied().unwrap_or_default();
            (what, was, now)
        });
        grown(pairs, least_us)
    };
    Some(Growth {
        from_workers: run.cells[from].workers,
        to_workers: run.cells[to].workers,
        states: grown(&of_states(before), of_states(after)),
        functions: grown(&own(before), own(after)),
        locks: grown(&waited(before), waited(after)),
    })
}

fn of_states(sampled: Sampled<'_>) -> BTreeMap<String, Took> {
    let states = ThreadTimes::STATES.into_iter().zip(working(sampled.facts).seconds());
    states.map(|(word, seconds)| (word.to_owned(), Took::by_samples(sampled, seconds))).collect()
}

/// Function → time on a core in the function itself.
fn own(sampled: Sampled<'_>) -> BTreeMap<String, Took> {
    let mut seconds: BTreeMap<String, f64> = BTreeMap::new();
    for node in sampled.facts.stacks.iter().filter(|node| node.name != StackNode::OTHERS) {
        *seconds.entry(node.name.clone()).or_default() += node.own_s;
    }
    seconds.into_iter().map(|(what, seconds)| (what, Took::by_samples(sampled, seconds))).collect()
}

/// Kind and place of a lock → time of waiting for it.
fn waited(sampled: Sampled<'_>) -> BTreeMap<String, Took> {
    let mut waited: BTreeMap<String, Took> = BTreeMap::new();
    for lock in &sampled.facts.locks {
        let sum = waited.entry(format!("{} in {}", lock.kind, lock.place)).or_default();
        let took = Took::by_waits(sampled, lock);
        *sum = Took { us: sum.us + took.us, variance: sum.variance + took.variance };
    }
    waited
}

/// States, functions or locks that grew by at least `least_us`, and by more than chance would make them, the greatest
/// growth first.
fn grown(all: impl Iterator<Item = (String, Took, Took)>, least_us: f64) -> Vec<Grown> {
    let by = |one: &Grown| one.to_us - one.from_us;
    let has_grown = |(_, was, now): &(String, Took, Took)| {
        let by_us = now.us - was.us;
        let error_us = (was.variance + now.variance).sqrt();
        by_us > 0.0 && by_us >= least_us && by_us >= ERRORS_LEAST * error_us
    };
    let shown = |(what, was, now): (String, Took, Took)| Grown { what, from_us: was.us, to_us: now.us };
    let mut grown: Vec<Grown> = all.filter(has_grown).map(shown).collect();
    grown.sort_by(|one, other| by(other).total_cmp(&by(one)));
    grown.truncate(MOST);
    grown
}
