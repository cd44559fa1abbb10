//! The page of a history as a reader sees it in a browser.

use std::fs;
use std::path::{Path, PathBuf};

use kqps_history::{Records, judge};
use kqps_report::{HistoryInput, history_page};
use serde_json::json;

use super::{CHECKS, NARROWEST, PAPER, SCREENS};
use crate::support::browser::Browser;
use crate::support::history::{RUNS, records};

fn page(records: &Records) -> String {
    let links: Vec<Option<String>> = (0..records.entries.len())
        .map(|run| (run % 2 == 0).then(|| format!("run%3A{run}/report.html")))
        .collect();
    history_page(HistoryInput { records, history: &judge(records), links: &links, kqps_version: "0.1.0" })
}

fn written(records: &Records) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let file = target.join("report-screenshots/history.html");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, page(records)).unwrap();
    file
}

#[test]
fn a_history_is_readable_on_every_screen_and_fetches_nothing() {
    let records = records();
    let file = written(&records);
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        // Folded parts are checked as well.
        browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)");
        let found = browser.evaluate(CHECKS);
        assert_eq!(found["wrong"], json!([]), "on {name}");
        for (index, series) in judge(&records).series.iter().enumerate() {
            let chart = &found["charts"][format!("course-{index}")];
            let outliers = series.points.iter().filter(|point| point.is_outlier).count();
            assert_eq!(chart["missing"], outliers, "{name} {}", series.name);
            assert_eq!(
                chart["dots"],
                outliers + 1,
                "the newest run has a dot of its own: {name} {}",
                series.name
            );
        }
        if screen.width != NARROWEST {
            browser.open(&file, screen);
            fs::write(file.with_file_name(format!("history-{name}.png")), browser.screenshot()).unwrap();
        }
    }
    let said = browser.evaluate("document.body.textContent");
    let said = said.as_str().unwrap().replace('\u{a0}', " ");
    for words in [
        "6 changes in 7 series: 3 for the worse, 3 for the better",
        "kernel: 6.1.0-29-amd64, now 6.12.48",
        "no figure: the player was the limit",
        "the rate of the echo: +2",
        "H2",
        "90 runs from",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    browser.open(&file, PAPER);
    browser.on_paper();
    assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "on paper");
    let page = format!("file://{}", file.display());
    assert!(browser.requested.iter().all(|address| *address == page), "{:?}", browser.requested);
}

#[test]
fn the_newest_changes_come_first_and_runs_have_links() {
    let html = page(&records());
    let place = |words: &str| html.find(words).unwrap_or_else(|| panic!("{words}"));
    let first = place("<h3>nightly: new, answered rate beside reference (binary 1f2e3d4c)</h3>");
    assert!(first < place("<h3>nightly: nsd, share of the ceiling</h3>"));
    assert!(
        place("<h3>nightly: nsd, share of the ceiling</h3>")
            < place("<h3>nightly: knot, share of the ceiling</h3>")
    );
    assert_eq!(html.matches("<a href=\"run%3A88/report.html\">").count(), 1);
    assert!(!html.contains("<script") && html.matches("class=\"series\"").count() == 7);
    assert!(html.len() < RUNS * 7 * 200, "{} bytes", html.len());
}

#[test]
fn a_history_of_nothing_has_a_page() {
    let html = page(&Records::default());
    assert!(html.contains("<h1>No series yet</h1>") && html.ends_with("</html>"), "{html}");
}

#[test]
fn a_page_of_too_few_runs_claims_no_constancy() {
    let mut records = records();
    records.entries.truncate(5);
    let html = page(&records);
    assert!(html.contains("<h1>Too few runs to see a change: 5 of 8</h1>"), "{html}");
    assert!(html.contains("<p>There are too few runs to see a change: 5 of 8.</p>"), "{html}");
    assert!(!html.contains("No change in") && !html.contains("No series changed"), "{html}");
}
