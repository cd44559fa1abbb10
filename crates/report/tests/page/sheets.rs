//! Every table and chart of a page has its data in an exported table, which it names (`data-sheet`), with the same
//! values.

use std::collections::{BTreeMap, BTreeSet};

use kqps_history::{Beside, Side, beside};
use kqps_observation::question::Published;
use kqps_observation::run::Outcome;
use kqps_observation::{Histogram, Run};
use kqps_report::{Sheet, Value, page_beside, sheets};
use kqps_verdict::judge::judge;
use serde_json::Value as Json;

use super::{SCREENS, stored, values};
use crate::support::browser::Browser;
use crate::support::{comparison, hosts, profiled, sample, scaling, study};

/// Every table and chart: the name of its exported table, its number of rows (0 for a chart) and the id of a chart.
const ALL: &str = r"[...document.querySelectorAll('table, svg.chart')].map((one) => ({
  sheet: one.closest('[data-sheet]')?.dataset.sheet ?? null,
  rows: one.tagName !== 'TABLE' ? 0 : [...one.tBodies].filter((body) => !/^o[1-9]/.test(body.className))
    .flatMap((body) => [...body.rows]).filter((row) => !/part|reasons|starts/.test(row.className)).length,
  chart: one.tagName === 'TABLE' ? '' : one.getAttribute('aria-labelledby').replace(/-t .*/, ''),
  html: one.outerHTML.slice(0, 120),
}))";

/// The text of all tables of trials.
const TRIALS: &str =
    "[...document.querySelectorAll('table[data-sheet=trials]')].map((table) => table.textContent).join('')";

/// The sheets whose rows stand in tables of their own on one of the pages.
const WITH_VALUES: [&str; 11] = [
    "beside",
    "best",
    "cells",
    "drop_reasons",
    "growth",
    "hosts",
    "latency",
    "locks",
    "profiles",
    "residence",
    "trials",
];

/// The study with a rate that was published as the best of all.
fn with_best() -> Run {
    let mut run = study::run();
    let experiment = &mut run.question.as_mut().unwrap().experiments[0];
    experiment.published.push(Published { best: true, rate_qps: 900e3, ..Published::default() });
    experiment.tables[1].show.push(kqps_observation::question::Figure::CpuByThread);
    run
}

/// The sample, with trials of too few answers for a p99, or for its bound.
fn with_few_answers() -> Run {
    let mut run = sample::run();
    let measured = run.trials.iter_mut().filter_map(|one| match &mut one.outcome {
        Outcome::Measured(trial) => Some(trial),
        Outcome::Failed { .. } => None,
    });
    for (index, trial) in measured.enumerate() {
        let mut histogram = Histogram::default();
        (1..=[100, 1_000][index % 2]).for_each(|time_us| histogram.record_us(time_us));
        trial.latency_us = histogram.quantiles();
    }
    run
}

#[test]
fn every_table_and_chart_of_a_page_has_a_sheet_with_its_values() {
    let mut browser = Browser::start();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut compared: BTreeSet<String> = BTreeSet::new();
    let earlier = sample::run();
    for (name, run) in [
        ("sample", sample::run()),
        ("study", with_best()),
        ("hosts", hosts::run()),
        ("comparison", comparison::run()),
        ("scaling", scaling::run(16)),
        ("profiled", profiled::run()),
        ("few", with_few_answers()),
    ] {
        let verdict = judge(&run);
        let other: Option<Beside> = (name == "sample").then(|| {
            let then = Run { started_unix_ms: 1, ..earlier.clone() };
            beside(Side { run: &run, verdict: &verdict }, Side { run: &then, verdict: &judge(&then) })
        });
        let exported = sheets(&run, &verdict, other.as_ref());
        let file = stored(&format!("sheets-{name}"), &page_beside(&run, &verdict, other.as_ref()));
        browser.open(&file, SCREENS[0].1);
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for one in browser.evaluate(ALL).as_array().unwrap() {
            let sheet = expect_sheet(name, one, &exported);
            *rows.entry(sheet.name.to_owned()).or_default() += one["rows"].as_u64().unwrap();
            seen.insert(sheet.name.to_owned());
        }
        for (sheet, shown) in rows {
            let exported = exported.iter().find(|one| one.name == sheet).unwrap().rows.len() as u64;
            // Several tables of an experiment may show one cell, and each has rows of its own; the cells have one row.
            let is_complete = shown <= exported || sheet == "cells";
            assert!(is_complete, "{name}: {sheet} has {exported} rows, and the page shows {shown}");
        }
        compared.extend(values::expect(name, &mut browser, &exported));
        if name == "few" {
            let trials = browser.evaluate(TRIALS);
            let trials = trials.as_str().unwrap();
            assert!(
                trials.contains("≤\u{a0}996\u{a0}µs") && trials.contains("greatest\u{a0}100\u{a0}µs"),
                "{trials}"
            );
        }
    }
    assert_eq!(compared, WITH_VALUES.map(str::to_owned).into(), "the pages show values of each of them");
    let expected = [
        "beside",
        "best",
        "ceilings",
        "cells",
        "comparisons",
        "cores",
        "drop_reasons",
        "fates",
        "figures",
        "functions",
        "growth",
        "hosts",
        "latency",
        "laws",
        "links",
        "locks",
        "parts",
        "profile_threads",
        "profiles",
        "residence",
        "speeds",
        "threads",
        "trials",
    ];
    assert_eq!(seen, expected.map(str::to_owned).into(), "the pages show each of them");
}

/// The exported table of a table or chart. If a chart is of a cell, the cell has a row.
fn expect_sheet<'a>(name: &str, one: &Json, exported: &'a [Sheet]) -> &'a Sheet {
    let sheet = one["sheet"].as_str().unwrap_or_else(|| panic!("{name}: without a sheet: {one}"));
    let sheet = exported.iter().find(|known| known.name == sheet);
    let sheet = sheet.unwrap_or_else(|| panic!("{name}: its sheet is not exported: {one}"));
    let (kind, cell) = one["chart"].as_str().unwrap().rsplit_once('-').unwrap_or_default();
    if let ("latency" | "loss" | "cpu" | "profile", Ok(cell)) = (kind, cell.parse::<i64>()) {
        let at = sheet.columns.iter().position(|column| column.name == "cell").unwrap();
        assert!(sheet.rows.iter().any(|row| row[at] == Value::Count(cell)), "{name}: {one}");
    }
    sheet
}

/// The row of a table as a column's name → value.
fn row<'a>(
    sheet: &'a Sheet,
    is_it: impl Fn(&BTreeMap<&str, &Value>) -> bool,
) -> BTreeMap<&'a str, &'a Value> {
    let of = |row: &'a Vec<Value>| -> BTreeMap<&'a str, &'a Value> {
        sheet.columns.iter().map(|column| column.name.as_str()).zip(row).collect()
    };
    sheet
        .rows
        .iter()
        .map(of)
        .find(|row| is_it(row))
        .unwrap_or_else(|| panic!("no such row in {}", sheet.name))
}

fn named<'a>(sheets: &'a [Sheet], name: &str) -> &'a Sheet {
    sheets.iter().find(|sheet| sheet.name == name).unwrap_or_else(|| panic!("no sheet {name}"))
}

#[test]
fn a_refused_figure_is_no_number_in_any_sheet_and_has_its_reason() {
    let run = sample::run();
    let sheets = sheets(&run, &judge(&run), None);
    let bind = |row: &BTreeMap<&str, &Value>| *row["name"] == Value::Text("bind".into());
    for (sheet, empty) in [
        (
            "cells",
            &[
                "rate_qps",
                "rate_low_qps",
                "rate_coverage_share",
                "mean_qps",
                "ceiling_share",
                "latency_p99_us",
            ][..],
        ),
        ("latency", &["min_us", "mean_us", "p50_us", "p99_us", "max_us", "bad_share"]),
    ] {
        let row = row(named(&sheets, sheet), bind);
        for column in empty {
            assert_eq!(*row[column], Value::None, "{sheet}.{column}");
        }
        assert!(
            matches!(row["absence"], Value::Text(why) if why.contains("wrong")),
            "{sheet}: {:?}",
            row["absence"]
        );
    }
    let start = row(named(&sheets, "starts"), bind);
    assert_eq!((start["is_claimed"], start["rate_qps"]), (&Value::Flag(false), &Value::None));
    // A subject with a figure has all of them.
    let nsd = row(named(&sheets, "cells"), |row| *row["name"] == Value::Text("nsd".into()));
    assert!(matches!(nsd["rate_low_qps"], Value::Number(_)) && *nsd["absence"] == Value::None, "{nsd:?}");
    let crashed = row(named(&sheets, "cells"), |row| *row["state"] == Value::Text("crashed".into()));
    assert_eq!(*crashed["rate_qps"], Value::None);
    let player = row(named(&sheets, "ceilings"), |row| *row["role"] == Value::Text("player".into()));
    assert!(matches!(player["rate_qps"], Value::Number(rate) if *rate > 6e6), "{player:?}");
}

#[test]
fn a_lone_start_has_no_interval_and_a_comparison_without_a_block_has_a_row() {
    let mut run = comparison::run();
    run.trials.retain(|one| one.block == 0);
    let alone = sheets(&run, &judge(&run), None);
    let old = row(named(&alone, "cells"), |row| *row["name"] == Value::Text("old".into()));
    assert!(matches!(old["rate_qps"], Value::Number(_)), "{old:?}");
    for column in ["rate_low_qps", "rate_high_qps", "rate_coverage_share"] {
        assert_eq!(*old[column], Value::None, "{column} of a lone start");
    }
    for one in run.trials.iter_mut().filter(|one| one.cell == 2) {
        one.outcome = Outcome::Failed { reason: "it died".into(), output: Vec::new() };
    }
    let verdict = judge(&run);
    assert!(verdict.comparisons.is_empty(), "{:?}", verdict.comparisons);
    let without = sheets(&run, &verdict, None);
    let row = row(named(&without, "comparisons"), |_| true);
    assert_eq!((row["block"], row["ratio"], row["ratio_low"]), (&Value::None, &Value::None, &Value::None));
    assert_eq!(*row["a"], Value::Text("old".into()));
}
