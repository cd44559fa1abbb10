//! Takes the figures of a run that compare between runs.

use std::collections::BTreeMap;

use kqps_observation::factors::ComparedAs;
use kqps_observation::factors::name::{COMPARED_AS, ROUNDS};
use kqps_observation::run::CellLoad;
use kqps_observation::{Cell, Run, cpu_list};
use kqps_verdict::compare::{Comparison, Pairing};
use kqps_verdict::figure::{Figures, State};
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{CellVerdict, RunVerdict};

use crate::entry::{Build, Entry, Figure, Reading, SCHEMA};
use crate::host::Host;
use crate::key::Key;
use crate::kind::Kind;

/// Name of a subject → the programs of its definition.
pub type Programs = BTreeMap<String, Vec<String>>;

/// Hex digits of a hash that people read.
const SHORT: usize = 8;

/// The entry of a run, and its host. `folder` is the absolute path of the run's folder.
pub fn entry_of(run: &Run, verdict: &RunVerdict, folder: &str, programs: &Programs) -> (Entry, Host) {
    let host = Host::from_run(run);
    let mut readings = Vec::new();
    for (verdict_of, figures) in verdict.subjects.iter().zip(&verdict.figures) {
        readings.extend(of_cell(run, verdict, verdict_of, figures, programs));
    }
    readings.extend(of_comparisons(run, &verdict.comparisons, programs));
    let entry = Entry {
        schema: SCHEMA,
        id: identity(run),
        folder: folder.to_owned(),
        started_unix_ms: run.started_unix_ms,
        study: run.study.clone(),
        kqps_version: run.kqps_version.clone(),
        host: host.id.clone(),
        readings,
    };
    (entry, host)
}

/// The hash of what a copy of the run's folder shares with it, and another run does not.
fn identity(run: &Run) -> String {
    let parts = (run.started_unix_ms, run.seed, &run.study, &run.command, &run.kqps_version);
    blake3::hash(&serde_json::to_vec(&parts).unwrap_or_default()).to_hex().to_string()
}

fn of_cell(
    run: &Run,
    all: &RunVerdict,
    verdict: &CellVerdict,
    figures: &Figures,
    programs: &Programs,
) -> Vec<Reading> {
    let cell = &run.cells[verdict.cell as usize];
    // A reference build is what others are divided by. Its own figures show the host.
    if matches!(cell.factors.compared_as(), Some(ComparedAs::A | ComparedAs::Again)) {
        return Vec::new();
    }
    let ceiling = verdict.ceiling.as_deref().filter(|name| *name != cell.name);
    let ceiling_qps = ceiling.and_then(|name| all.ceilings.echo(name)?.median_qps());
    let reading = |kind| Reading {
        key: key(run, cell, kind, None),
        figure: None,
        absence: String::new(),
        ceiling_qps,
        compared_at_qps: None,
        cores: format!("player {}, subject {}", cores(&cell.player_cpus), cores(&cell.subject_cpus)),
        version: cell.version.clone(),
        builds: builds(run, cell, programs),
    };
    let with = |kind, value: Option<f64>| {
        let figure = Figure { value: value.filter(|value| is_usable(*value))?, ..Figure::default() };
        Some(Reading { figure: Some(figure), ..reading(kind) })
    };
    let at_half = |reading: Reading| Reading {
        compared_at_qps: verdict.figure_qps.map(|figure| figure.median / 2.0),
        ..reading
    };
    let share = ceiling.is_some().then(|| match verdict.share.and_then(of_interval) {
        Some(figure) => Reading { figure: Some(figure), ..reading(Kind::Share) },
        None => Reading { absence: absence(verdict, figures), ..reading(Kind::Share) },
    });
    let is_measured = figures.state == State::Measured;
    let memory = figures.memory.map(|memory| memory.bytes as f64);
    let p99 = figures.p99_at_half_us.filter(|_| is_measured).map(|p99_us| p99_us as f64);
    [
        share,
        with(Kind::CpuPerMillion, figures.cpu_s_per_million.filter(|_| is_measured)).map(at_half),
        with(Kind::Memory, memory),
        with(Kind::P99AtHalf, p99).map(at_half),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_comparisons(run: &Run, comparisons: &[Comparison], programs: &Programs) -> Vec<Reading> {
    let Some(pairing) = Pairing::from_run(run) else { return Vec::new() };
    let (a, b) = (&run.cells[pairing.a], &run.cells[pairing.b]);
    let reference = name_of_reference(a, &builds(run, a, programs));
    let of = |comparison: &Comparison| {
        let ratio =
            comparison.ratio.and_then(|ratio| Some(Figure { mde: comparison.mde, ..of_interval(ratio)? }));
        let refusal = comparison.case.refusal();
        let absence = match (refusal, ratio) {
            (Some(refusal), _) => refusal.to_owned(),
            (None, None) => "no block has both".to_owned(),
            (None, Some(_)) => String::new(),
        };
        Reading {
            key: key(run, b, Kind::Ratio(comparison.case.figure), Some(reference.clone())),
            figure: ratio.filter(|_| refusal.is_none()),
            absence,
            ceiling_qps: None,
            compared_at_qps: rate_of(b),
            cores: format!("player {}, subject {}", cores(&b.player_cpus), cores(&b.subject_cpus)),
            version: b.version.clone(),
            builds: builds(run, b, programs),
        }
    };
    comparisons.iter().map(of).collect()
}

/// The rate that was played, if it was given.
fn rate_of(cell: &Cell) -> Option<f64> {
    match &cell.load {
        CellLoad::Rates { rates_qps, .. } => rates_qps.iter().copied().reduce(f64::max),
        CellLoad::Search | CellLoad::Closed(_) => None,
    }
}

/// A reference with another binary is another reference, so that no change of it looks like one of the subject.
fn name_of_reference(cell: &Cell, builds: &[Build]) -> String {
    let hashes: Vec<&str> = builds.iter().filter_map(|build| build.blake3.get(..SHORT)).collect();
    match (hashes.as_slice(), &cell.version) {
        ([], None) => cell.name.clone(),
        ([], Some(version)) => format!("{} ({version})", cell.name),
        (hashes, _) => format!("{} (binary {})", cell.name, hashes.join(", ")),
    }
}

fn key(run: &Run, cell: &Cell, kind: Kind, reference: Option<String>) -> Key {
    let mut conditions: BTreeMap<String, String> = cell
        .factors
        .words()
        .iter()
        .filter(|(name, _)| ![COMPARED_AS, ROUNDS].contains(&name.as_str()))
        .map(|(name, word)| (name.clone(), word.clone()))
        .collect();
    let mut put = |name: &str, value: String| drop(conditions.insert(name.to_owned(), value));
    put("subject", cell.subject.clone());
    put("I/O", cell.io.clone());
    put("number of workers", cell.workers.to_string());
    put(
        "load",
        match &cell.load {
            CellLoad::Search => format!("a search with the goal {}", run.goal),
            CellLoad::Closed(_) => "a closed loop".to_owned(),
            CellLoad::Rates { rates_qps, .. } => {
                let rates: Vec<String> = rates_qps.iter().map(f64::to_string).collect();
                format!("{} queries a second", rates.join(", "))
            }
        },
    );
    let (study, experiment, cell) = (run.study.clone(), cell.experiment.clone(), cell.name.clone());
    Key { study, experiment, cell, kind, reference, conditions }
}

/// The programs of a cell's subject with the hashes that the run recorded.
fn builds(run: &Run, cell: &Cell, programs: &Programs) -> Vec<Build> {
    let server = run.server_host().map_or(&run.fingerprint, |host| &host.fingerprint);
    let of_subject = programs.get(&cell.subject).map(Vec::as_slice).unwrap_or_default();
    of_subject
        .iter()
        .filter_map(|program| {
            let facts = server.binaries.get(program)?;
            let blake3 = facts.blake3.clone()?;
            Some(Build { subject: cell.subject.clone(), path: facts.path.clone(), blake3 })
        })
        .collect()
}

/// Why a cell has no share, in one sentence.
fn absence(verdict: &CellVerdict, figures: &Figures) -> String {
    match figures.state {
        State::Crashed => {
            let reason = figures.crashes.first().map(|crash| crash.reason.clone());
            format!("no start could be measured: {}", reason.unwrap_or_default())
        }
        State::NotMeasured => "no trial of it was made".to_owned(),
        State::Refused | State::Measured => {
            verdict.reasons.first().cloned().unwrap_or_else(|| "the figure is refused".to_owned())
        }
    }
}

/// A figure whose minimum detectable effect is half the width of its interval.
fn of_interval(interval: Interval) -> Option<Figure> {
    let Interval { median, low, high, coverage, count } = interval;
    if !is_usable(median) {
        return None;
    }
    let is_known = coverage > 0.0 && is_usable(low) && is_usable(high) && low <= high;
    let mde = is_known.then(|| ((high / low).ln() / 2.0).exp_m1());
    let [low, high] = [low, high].map(|end| is_known.then_some(end));
    Some(Figure { value: median, low, high, mde, count: is_known.then_some(count) })
}

fn is_usable(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn cores(cpus: &[u32]) -> String {
    if cpus.is_empty() { "any".into() } else { cpu_list::write(cpus) }
}
