//! Another run beside this one on the page: figures of both runs, of one alone, refused ones, and another host.

use std::fs;

use kqps_history::{Beside, Side, beside};
use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::{Run, RunTrial};
use kqps_report::page_beside;
use kqps_verdict::judge::judge;
use serde_json::{Value, json};

use super::{CHECKS, NARROWEST, PAPER, SCREENS, stored};
use crate::support::browser::Browser;
use crate::support::sample;

const SLOWER: &str = "knot, sixteen threads on one core";

/// The sample as it was a day before: nsd was called otherwise, and knot answered as much in two thirds of the time.
fn before() -> Run {
    let mut run = Run { started_unix_ms: 1_795_212_300_000, ..sample::run() };
    for cell in run.cells.iter_mut().filter(|cell| cell.name == "nsd") {
        cell.name = "nsd of that day".into();
    }
    let slower = run.cells.iter().position(|cell| cell.name == SLOWER).unwrap() as u32;
    for one in run.trials.iter_mut().filter(|one| one.cell == slower) {
        let Outcome::Measured(trial) = &mut one.outcome else { continue };
        for rate in [&mut trial.load.offered_qps, &mut trial.load.answered_qps] {
            *rate *= 1.5;
        }
        trial.load.intended_qps = trial.load.intended_qps.map(|rate| rate * 1.5);
        trial.load.duration_s /= 1.5;
    }
    run
}

fn both(now: &Run, then: &Run) -> (Beside, String) {
    let verdict = judge(now);
    let beside = Beside {
        then_name: "20261120T220507Z-default".into(),
        then_page: Some("../20261120T220507Z-default/report.html".into()),
        ..beside(Side { run: now, verdict: &verdict }, Side { run: then, verdict: &judge(then) })
    };
    let page = page_beside(now, &verdict, Some(&beside));
    (beside, page)
}

/// The rows of the table: the words of each cell, and the class of the change.
const ROWS: &str = "[...document.querySelectorAll('table.beside tbody.o0 tr')].map(row => [
    ...[...row.cells].map(cell => cell.textContent.replace(/\\u00a0/g, ' ')), row.cells[4].className.trim()])";

#[test]
fn two_runs_side_by_side_are_readable_on_every_screen_and_on_paper() {
    let (_, page) = both(&sample::run(), &before());
    let file = stored("beside", &page);
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        browser.evaluate("document.querySelectorAll('#beside details').forEach(one => one.open = true)");
        assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "on {name}");
        if screen.width != NARROWEST {
            fs::write(file.with_file_name(format!("beside-{name}.png")), browser.screenshot()).unwrap();
        }
    }
    let rows = browser.evaluate(ROWS);
    let of = |cell: &str, figure: &str| -> Vec<String> {
        let is_it = |row: &&Value| row[0] == cell && row[1] == figure;
        let row = rows.as_array().unwrap().iter().find(is_it);
        serde_json::from_value(row.unwrap_or_else(|| panic!("{cell}, {figure}: {rows}")).clone()).unwrap()
    };
    // Knot answers two thirds of what it did; its rate has no colour, and its share of the echo has.
    let (rate, share) = (of(SLOWER, "rate"), of(SLOWER, "share of the ceiling"));
    assert!(rate[4].starts_with("\u{2212}33.") && rate[5] == "number", "{rate:?}");
    assert!(share[4].starts_with("\u{2212}33.") && share[5] == "number worse", "{share:?}");
    // Each run has a cell of its own.
    assert_eq!(of("nsd", "rate")[2], "–that run did not measure it");
    let alone = of("nsd of that day", "rate");
    assert!(alone[2].contains("k q/s") && alone[3] == "–this run did not measure it", "{alone:?}");
    // Both refused bind, so neither has a figure of its rate.
    assert!(rows.as_array().unwrap().iter().all(|row| row[0] != "bind" || row[1] != "rate"), "{rows}");
    let link = "document.querySelector('#beside h2 a').getAttribute('href')";
    assert_eq!(browser.evaluate(link), "../20261120T220507Z-default/report.html");
    browser.open(&file, PAPER);
    browser.on_paper();
    assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "on paper");
}

#[test]
fn a_figure_that_one_run_refused_and_another_host_are_shown_as_such() {
    // An answer of nsd was wrong now, and one of knot then.
    let (mut now, mut then) = (sample::run(), Run { started_unix_ms: 1, ..sample::run() });
    then.fingerprint.kernel = "Linux 6.1.0 x86_64".into();
    for (run, subject) in [(&mut now, "nsd"), (&mut then, "knot")] {
        let cell = run.cells.iter().position(|cell| cell.subject == subject).unwrap() as u32;
        let is_latency = |one: &&mut RunTrial| one.cell == cell && one.purpose == Purpose::Latency;
        let Outcome::Measured(trial) = &mut run.trials.iter_mut().find(is_latency).unwrap().outcome else {
            panic!()
        };
        (trial.accounts.correct, trial.accounts.wrong) = (trial.accounts.correct - 1, 1);
    }
    let (beside, page) = both(&now, &then);
    assert!(!beside.is_same_host && beside.has_common);
    let file = stored("beside-refused", &page);
    let mut browser = Browser::start();
    browser.open(&file, SCREENS[0].1);
    assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]));
    let rows = browser.evaluate(ROWS);
    let words = rows.as_array().unwrap();
    let refused: Vec<&Value> =
        words.iter().filter(|row| row[1] == "rate" && row.to_string().contains("no number")).collect();
    assert_eq!(refused.len(), 2, "nsd now and knot then: {rows}");
    assert!(refused.iter().all(|row| row[4] == "–"), "{refused:?}");
    let marks = "document.querySelectorAll('table.beside tbody.o0 td.refused').length";
    assert!(browser.evaluate(marks).as_u64() >= Some(2));
    let colours = "document.querySelectorAll('table.beside td.worse, table.beside td.better').length";
    assert_eq!(browser.evaluate(colours), 0, "another host has no colour");
    let said = browser.evaluate("document.querySelector('#beside').textContent");
    assert!(
        said.as_str().unwrap().contains("kernel: Linux 6.1.0 x86_64, now Linux 6.12.48 x86_64"),
        "{said}"
    );
}

#[test]
fn runs_without_a_common_cell_say_so() {
    let mut then = sample::run();
    for cell in then.cells.iter_mut().filter(|cell| cell.role == Role::Subject) {
        cell.name = format!("{} of another study", cell.name);
    }
    then.cells.iter_mut().filter(|cell| cell.role != Role::Subject).for_each(|cell| cell.name.push('!'));
    let (beside, page) = both(&sample::run(), &then);
    assert!(!beside.has_common && !beside.rows.is_empty());
    assert!(beside.rows.iter().all(|row| row.ratio.is_none()));
    assert!(page.contains("The runs have no cell in common."));
}
