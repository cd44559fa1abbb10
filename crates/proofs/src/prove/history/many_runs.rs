//! A thousand runs: how long it takes to add them, and how long the page of 50 series is. One run is written as kqps
//! stores it, and copied with other times and other figures. Some subjects answer in closed loops, and for others a search
//! finds the rate, which takes most of the time to judge.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Accounts, Cell, Histogram, Run, RunTrial, SCHEMA, Store, SubjectFacts, Trial};
use rusqlite::{Connection, params};

use crate::prove::{Bench, Size};

/// Subjects of each run. Each has a share, CPU time and memory.
const SUBJECTS: u32 = 17;

/// Subjects that are searched for: the first ones. They have p99 at half load, too.
const SEARCHED: u32 = 2;

const BLOCKS: u32 = 6;

/// The loads of a search, as shares of the subject's rate. Those from 1 on lose a twentieth.
const LOADS: [f64; 4] = [0.9, 1.1, 0.98, 1.02];

/// Trials at each load of a search.
const TRIALS: u32 = 2;

/// The most seconds for adding all runs, and the most bytes of the page. They are reported, and fail the whole form only.
const ADDED_WITHIN_S: f64 = 10.0;
const PAGE_MOST_BYTES: u64 = 1_000_000;

const DAY_MS: u64 = 86_400_000;
const FIRST_UNIX_MS: u64 = 1_700_000_000_000;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let count = bench.choose(12, 1_000);
    let folder = bench.folder.path().join("runs");
    fs::create_dir_all(&folder)?;
    let template = template(&folder)?;
    let runs: Vec<PathBuf> =
        (0..count).map(|number| copy(&template, &folder, number, count)).collect::<Result<_>>()?;
    let history = folder.join("history.sqlite");
    let began = Instant::now();
    let added = kqps(bench, &history, &["add"], &runs)?;
    let added_s = began.elapsed().as_secs_f64();
    ensure!(added.contains(&format!("{count} runs added, 0 renewed, 0 known")), "{added}");
    let again = kqps(bench, &history, &["add"], &runs[..3])?;
    ensure!(
        again.contains(&format!("0 runs added, 0 renewed, 3 known; the history has {count} runs")),
        "{again}"
    );

    let began = Instant::now();
    let page = folder.join("history.html");
    kqps(bench, &history, &["page", "-o"], std::slice::from_ref(&page))?;
    let (page_s, bytes) = (began.elapsed().as_secs_f64(), page.metadata()?.len());
    let html = fs::read_to_string(&page)?;
    let series = html.matches("class=\"series\"").count();
    ensure!(series >= 50, "the page has {series} series");
    let checked = kqps(bench, &history, &["check"], &[])?;
    let first = checked.lines().next().unwrap_or_default();
    eprintln!(
        "{count} runs added in {added_s:.1} s; a page of {series} series in {page_s:.1} s, {} kB; {first}",
        bytes / 1000
    );
    if bench.size == Size::Whole {
        ensure!(added_s <= ADDED_WITHIN_S, "adding took {added_s:.1} s, and {ADDED_WITHIN_S} s are allowed");
        ensure!(bytes <= PAGE_MOST_BYTES, "the page has {bytes} bytes, and {PAGE_MOST_BYTES} are allowed");
    }
    Ok(())
}

fn kqps(bench: &Bench, history: &Path, words: &[&str], paths: &[PathBuf]) -> Result<String> {
    let mut command = Command::new(&bench.kqps.program);
    command.arg("history").args(words).args(paths).arg("--store").arg(history);
    let output = command.output().context("kqps cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kqps history {} failed: {}: {said}", words.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A run of an echo, of subjects that are searched for, and of subjects in closed loops.
fn template(folder: &Path) -> Result<PathBuf> {
    let cell = |name: String, role| Cell {
        subject: name.clone(),
        name,
        role,
        io: "mmsg".into(),
        workers: 1,
        load: CellLoad::Closed(1.0),
        ..Cell::default()
    };
    let mut cells = vec![cell("echo mmsg".into(), Role::EchoCeiling)];
    cells.extend((0..SUBJECTS).map(|number| cell(format!("server {number}"), Role::Subject)));
    for searched in &mut cells[1..=SEARCHED as usize] {
        searched.load = CellLoad::default();
    }
    let run = Run {
        goal: "quick".into(),
        schema: SCHEMA,
        study: "nightly".into(),
        blocks: BLOCKS,
        cells,
        ..Run::default()
    };
    let path = folder.join("template.sqlite");
    let store = Store::create(&path, &run)?;
    let mut number = 0;
    for block in 0..BLOCKS {
        for (cell, facts) in (0..).zip(&run.cells) {
            let start = u64::from(block) * 100 + u64::from(cell);
            for (purpose, trial) in trials(facts, block, cell) {
                number += 1;
                let outcome = Outcome::Measured(Box::new(trial));
                store.commit(&RunTrial { number, cell, block, start, purpose, outcome })?;
            }
        }
    }
    store.finish(FIRST_UNIX_MS)?;
    Ok(path)
}

/// The trials of one start: one in closed loop, or those of a search and one at half of its rate.
fn trials(facts: &Cell, block: u32, cell: u32) -> Vec<(Purpose, Trial)> {
    let spread = f64::from((block * block * 3 + block * 5 + cell * 2) % 9) / 8.0 * 0.004;
    let rate_qps =
        if cell == 0 { 600_000.0 } else { 200_000.0 + 10_000.0 * f64::from(cell) } * (1.0 + spread);
    if (1..=SEARCHED).contains(&cell) {
        let of_load = |share: &f64| {
            let lost = if *share > 1.0 { (rate_qps * share) as u64 / 20 } else { 0 };
            let one = (Purpose::Search, trial(Some(rate_qps * share), rate_qps * share, lost));
            vec![one; TRIALS as usize]
        };
        let mut all: Vec<(Purpose, Trial)> = LOADS.iter().flat_map(of_load).collect();
        all.push((Purpose::Latency, trial(Some(rate_qps * 0.49), rate_qps * 0.49, 0)));
        return all;
    }
    let purpose = if facts.role == Role::Subject { Purpose::Closed } else { Purpose::Ceiling };
    vec![(purpose, trial(None, rate_qps, 0))]
}

/// A trial of a second, in open loop at a load or in closed loop.
fn trial(load_qps: Option<f64>, sent_qps: f64, lost: u64) -> Trial {
    let count = sent_qps as u64;
    let answered_qps = (count - lost) as f64;
    let mut latency = Histogram::default();
    for time_us in 1..1_000 {
        latency.record_many_us(time_us, count / 1_000);
    }
    let mut trial = Trial {
        schema: SCHEMA,
        kind: "trial".into(),
        accounts: Accounts {
            intended: count,
            sent: count,
            correct: count - lost,
            lost,
            ..Accounts::default()
        },
        latency_us: latency.quantiles(),
        subject: Some(SubjectFacts {
            cpu_user_s: 0.4,
            cpu_system_s: 0.5,
            rss_bytes: 50 << 20,
            ..SubjectFacts::default()
        }),
        ..Trial::default()
    };
    trial.histograms.insert("latency".into(), latency.encode());
    trial.load.mode = if load_qps.is_some() { LoadMode::Open } else { LoadMode::Closed };
    (trial.load.intended_qps, trial.load.offered_qps) = (load_qps, sent_qps);
    (trial.load.answered_qps, trial.load.duration_s) = (answered_qps, 1.0);
    trial
}

/// The run as it was on another day, with figures that differ by up to 2 %, and by 8 % more in the last tenth of the runs
/// for one subject in eight.
fn copy(template: &Path, folder: &Path, number: u64, count: u64) -> Result<PathBuf> {
    let run = folder.join(format!("run-{number:04}"));
    fs::create_dir(&run)?;
    let path = run.join("run.sqlite");
    fs::copy(template, &path)?;
    let store = Connection::open(&path)?;
    store.execute_batch("PRAGMA synchronous = OFF; BEGIN")?;
    let started = FIRST_UNIX_MS + DAY_MS * number;
    store.execute(
        "UPDATE runs SET record = json_set(record, '$.started_unix_ms', ?1, '$.finished_unix_ms', ?1 + 60000)",
        params![started],
    )?;
    let late = number >= count - count / 10;
    store.execute(
        "UPDATE trials SET record = json_set(record,
             '$.outcome.measured.load.answered_qps',
             json_extract(record, '$.outcome.measured.load.answered_qps')
                 * (1.0 + ((?1 * 7919 + json_extract(record, '$.cell') * 104729) % 97) / 4850.0)
                 * iif(?2 AND json_extract(record, '$.cell') % 8 = 3, 0.92, 1.0),
             '$.outcome.measured.load.intended_qps',
             json_extract(record, '$.outcome.measured.load.intended_qps')
                 * (1.0 + ((?1 * 7919 + json_extract(record, '$.cell') * 104729) % 97) / 4850.0),
             '$.outcome.measured.subject.cpu_user_s',
             0.4 + ((?1 * 6007 + json_extract(record, '$.cell') * 7907) % 89) / 8900.0)",
        params![number, late],
    )?;
    store.execute_batch("COMMIT")?;
    // The page links to runs that have a page.
    fs::write(run.join("report.html"), "")?;
    Ok(run)
}
