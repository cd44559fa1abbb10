//! `kqps export` and `kqps report --beside` as a user runs them, over runs that are written with known figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kqps_observation::question::{Experiment, Factor, Question};
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Accounts, Cell, Factors, Run, RunTrial, SCHEMA, Store, Trial};
use kqps_testbed::subject::Definition;
use serde_json::Value;
use tempfile::TempDir;

const BLOCKS: u32 = 6;

/// The reason of the cell that crashes: it would end a field of CSV.
const REASON: &str = "the server <died>, \"early\"";

fn kqps(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kqps")).args(words).output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn factor(name: &str, values: &[&str]) -> Factor {
    Factor { name: name.into(), values: values.iter().map(|value| (*value).to_owned()).collect() }
}

/// The rate of a cell: uring answers 1.5 times as much. `None` crashes.
fn rate_qps(cell: &Cell) -> Option<f64> {
    match (cell.role, cell.io.as_str(), cell.workers) {
        (Role::EchoCeiling, ..) => Some(600_000.0),
        (_, "uring", 2) => None,
        (_, "uring", _) => Some(150_000.0),
        _ => Some(100_000.0),
    }
}

/// Stores a run of a study over I/O models and workers, whose rates are `times` as high.
fn stored(folder: &Path, started_unix_ms: u64, times: f64) -> PathBuf {
    let factors = vec![factor("io", &["mmsg", "uring"]), factor("workers", &["1", "2"])];
    let experiment = Experiment { name: "scaling".into(), factors, ..Experiment::default() };
    let mut cells = vec![Cell {
        name: "echo mmsg".into(),
        subject: "echo".into(),
        role: Role::EchoCeiling,
        io: "mmsg".into(),
        workers: 1,
        load: CellLoad::Closed(1.0),
        ..Cell::default()
    }];
    for (io, workers) in [("mmsg", 1), ("mmsg", 2), ("uring", 1), ("uring", 2)] {
        let words = BTreeMap::from([("io".into(), io.into()), ("workers".into(), workers.to_string())]);
        cells.push(Cell {
            name: format!("mine {io} {workers}"),
            experiment: "scaling".into(),
            subject: "mine".into(),
            role: Role::Subject,
            io: io.into(),
            workers,
            load: CellLoad::Closed(1.0),
            factors: Factors::read(words).unwrap(),
            ..Cell::default()
        });
    }
    let question =
        Question { title: "What matters?".into(), experiments: vec![experiment], ..Question::default() };
    let run = Run {
        schema: SCHEMA,
        study: "mine".into(),
        goal: "quick".into(),
        blocks: BLOCKS,
        started_unix_ms,
        question: Some(question),
        cells,
        ..Run::default()
    };
    let folder = folder.join(format!("run-{started_unix_ms}"));
    fs::create_dir(&folder).unwrap();
    let store = Store::create(&folder.join("run.sqlite"), &run).unwrap();
    let mut number = 0;
    for block in 0..BLOCKS {
        for (cell, facts) in (0..).zip(&run.cells) {
            number += 1;
            let purpose = if facts.role == Role::Subject { Purpose::Closed } else { Purpose::Ceiling };
            let spread = 1.0 + 0.001 * f64::from(block);
            let outcome = match rate_qps(facts) {
                Some(rate_qps) => Outcome::Measured(Box::new(trial(rate_qps * times * spread))),
                None => Outcome::Failed { reason: REASON.into(), output: Vec::new() },
            };
            store.commit(&RunTrial { number, cell, block, start: number, purpose, outcome }).unwrap();
        }
    }
    store.finish(started_unix_ms + 60_000).unwrap();
    folder
}

fn trial(rate_qps: f64) -> Trial {
    let count = rate_qps as u64;
    let accounts = Accounts { intended: count, sent: count, correct: count, ..Accounts::default() };
    let mut trial = Trial { schema: SCHEMA, kind: "trial".into(), accounts, ..Trial::default() };
    trial.load.mode = LoadMode::Closed;
    (trial.load.answered_qps, trial.load.duration_s) = (rate_qps, 1.0);
    trial
}

/// The rows of a table as objects.
fn rows(table: &Value) -> &Vec<Value> {
    table["rows"].as_array().unwrap()
}

#[test]
fn every_table_is_a_file_and_a_crashed_cell_has_its_reason_and_no_rate() {
    let home = TempDir::new().unwrap();
    let run = stored(home.path(), 1_000, 1.0);
    let (run, out) = (run.to_str().unwrap(), home.path().join("data"));
    let listed = kqps(&["export", run, "--list"]);
    let listed = said(&listed.stdout);
    let output = kqps(&["export", run, "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output.stderr));
    let files: Vec<String> = said(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(files.len(), listed.lines().count(), "{listed}");
    for (file, line) in files.iter().zip(listed.lines()) {
        let name = line.split_whitespace().next().unwrap();
        assert!(file.ends_with(&format!("/{name}.csv")), "{file}: {line}");
        let rows: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(fs::read_to_string(file).unwrap().lines().count(), rows + 1, "{file}");
    }
    for name in ["cells", "reasons", "starts", "findings", "figures", "ceilings", "trials", "hosts"] {
        assert!(listed.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}: {listed}");
    }
    let cells = fs::read_to_string(out.join("cells.csv")).unwrap();
    let heads: Vec<&str> = cells.lines().next().unwrap().split(',').collect();
    let at = |name: &str| {
        heads.iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {heads:?}"))
    };
    let measured: Vec<&str> = cells.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((measured[at("factor.io")], measured[at("state")]), ("mmsg", "measured"));
    let rate_qps: f64 = measured[at("rate_qps")].parse().unwrap();
    assert!((rate_qps - 100_250.0).abs() < 1.0, "the median of six starts: {rate_qps}");
    let crashed = cells.lines().last().unwrap();
    assert!(crashed.contains(",crashed,\"the server <died>, \"\"early\"\"\",F,,,,"), "{crashed}");
}

#[test]
fn one_table_or_all_go_to_stdout_and_the_finding_is_among_them() {
    let home = TempDir::new().unwrap();
    let run = stored(home.path(), 1_000, 1.0);
    let run = run.to_str().unwrap();
    let one = kqps(&["export", run, "--table", "findings"]);
    assert!(said(&one.stdout).starts_with("experiment,finding,quantity,"), "{}", said(&one.stdout));
    let all = kqps(&["export", run]);
    let all: Value = serde_json::from_slice(&all.stdout).unwrap();
    let table =
        |name: &str| all["tables"].as_array().unwrap().iter().find(|one| one["table"] == name).unwrap();
    let found = &rows(table("findings"))[0];
    assert_eq!(
        (&found["factor"], &found["greater"], &found["lesser"]),
        (&"io".into(), &"uring".into(), &"mmsg".into())
    );
    assert!((found["ratio"].as_f64().unwrap() - 1.5).abs() < 1e-3, "{found}");
    assert!(found["ratio_low"].as_f64() > Some(1.48) && found["ratio_high"].as_f64() < Some(1.52), "{found}");
    assert_eq!((&found["cells"], &found["cells_without"]), (&4.into(), &1.into()));
    let sentence = found["finding"].as_str().unwrap();
    assert!(
        sentence.starts_with(
            "io mattered most: with io uring the rate is 50.0\u{a0}% higher than with io mmsg ("
        ),
        "{sentence}"
    );
    assert!(
        sentence.ends_with(" 1 of 4 cells is left out: it has no number, or none start by start."),
        "{sentence}"
    );
    let crashed = rows(table("cells")).last().unwrap();
    assert_eq!((&crashed["rate_qps"], &crashed["absence"]), (&Value::Null, &REASON.into()));
    let known: Vec<u64> = rows(table("trials")).iter().map(|row| row["trial"].as_u64().unwrap()).collect();
    for row in rows(table("starts")) {
        let numbers = row["trials"].as_array().unwrap_or_else(|| panic!("{row}"));
        assert!(numbers.iter().all(|number| known.contains(&number.as_u64().unwrap())), "{row}");
    }

    for (more, sentence) in [
        (["--format", "csv"], "tables do not fit into one CSV: choose one by --table, or a folder by --out"),
        (["--table", "nothing"], "there is no table nothing; there are cells, "),
        (["--out", "/dev/null"], "--out /dev/null: expected a folder, and this is a file"),
    ] {
        let output = kqps(&[&["export", run][..], &more[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(said(&output.stderr).contains(sentence), "{}", said(&output.stderr));
    }
}

#[test]
fn the_page_has_the_run_before_beside_it_if_it_is_named_or_known_to_the_history() {
    let home = TempDir::new().unwrap();
    let before = stored(home.path(), 1_000, 1.0);
    let run = stored(home.path(), 90_000_000, 0.9);
    let page = || fs::read_to_string(run.join("report.html")).unwrap().replace('\u{a0}', " ");
    let (run_text, before) = (run.to_str().unwrap(), before.to_str().unwrap());
    assert!(kqps(&["report", run_text]).status.success());
    assert!(!page().contains("Beside the run of"), "no run before this one is known");
    assert!(kqps(&["report", run_text, "--beside", before]).status.success());
    let named = page();
    assert!(named.contains("Beside the run of 1970-01-01"), "{named}");
    assert!(
        named.contains("\u{2212}10.0 %")
            && named.contains("Hosts, versions and recorded builds are the same."),
        "{named}"
    );
    assert!(named.contains("mine uring 1"), "every cell that both have");
    assert!(named.contains("(run-1000)"), "the name of the other run's folder");

    let history = home.path().join("history.sqlite");
    let added = kqps(&["history", "add", before, run_text, "--store", history.to_str().unwrap()]);
    assert!(added.status.success(), "{}", said(&added.stderr));
    assert!(kqps(&["report", run_text]).status.success());
    // The earlier run has a page by now, to which the name leads.
    assert!(kqps(&["report", before]).status.success() && kqps(&["report", run_text]).status.success());
    let linked = "<a href=\"../run-1000/report.html\">1970-01-01";
    assert!(page().contains(linked), "{}", page());
    let exported = kqps(&["export", run_text, "--table", "beside", "--format", "json"]);
    let exported: Value = serde_json::from_slice(&exported.stdout).unwrap();
    let rate =
        rows(&exported).iter().find(|row| row["name"] == "mine uring 1" && row["figure"] == "rate-qps");
    let ratio = rate.unwrap_or_else(|| panic!("{exported}"))["ratio"].as_f64().unwrap();
    assert!((ratio - 0.9).abs() < 1e-6, "{ratio}");
    // The first run has none before it.
    assert!(
        !fs::read_to_string(Path::new(before).join("report.html")).unwrap().contains("Beside the run of")
    );
}

/// The run is finished, so `kqps run --resume` plays nothing more.
#[test]
fn the_page_that_a_run_writes_has_the_run_before_beside_it() {
    let home = TempDir::new().unwrap();
    let (before, run) = (stored(home.path(), 1_000, 1.0), stored(home.path(), 90_000_000, 0.9));
    for subject in ["echo", "mine"] {
        let definition = Definition::of_command("true -p {port}").unwrap();
        fs::create_dir_all(run.join("subjects")).unwrap();
        fs::write(run.join("subjects").join(subject).with_extension("toml"), definition.text).unwrap();
    }
    let history = home.path().join("history.sqlite");
    let paths = [&before, &run, &history].map(|path| path.to_str().unwrap());
    assert!(kqps(&["history", "add", paths[0], paths[1], "--store", paths[2]]).status.success());
    let resume = || kqps(&["run", "--resume", "--json", "--out", paths[1]]);
    let page = || fs::read_to_string(run.join("report.html")).unwrap();
    let output = resume();
    let printed: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output.stderr)));
    let found = &printed["verdict"]["findings"][0];
    assert!(found["sentence"].as_str().unwrap().starts_with("io mattered most: "), "{found}");
    assert_eq!((&found["experiment"], &found["finding"]["quantity"]), (&"scaling".into(), &"rate".into()));
    assert!(page().contains("Beside the run of 1970-01-01"), "{}", said(&output.stderr));

    // A run whose folder is gone is passed over. A history that cannot be read is named, and the page goes without.
    fs::rename(&before, home.path().join("elsewhere")).unwrap();
    let gone = said(&resume().stderr);
    let without = "kqps: no run stands beside this one: ";
    assert!(!gone.contains(without), "{gone}");
    assert!(!page().contains("Beside the run of"));
    fs::write(
        &history,
        "this is no database, but longer than the header of one is, by some bytes, and then some more",
    )
    .unwrap();
    let broken = said(&resume().stderr);
    assert!(broken.contains(without) && broken.contains("is not a history"), "{broken}");
    // A table that no other run is in does not ask the history.
    let of_table = |name: &str| said(&kqps(&["export", paths[1], "--table", name]).stderr);
    assert!(!of_table("cells").contains(without) && of_table("beside").contains(without));
}
