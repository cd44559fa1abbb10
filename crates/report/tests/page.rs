//! The page as a reader sees it: in a browser, on a desk and on a phone, by day and by night, and on paper.
//! Pictures are kept under `target/report-screenshots`.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use kqps_observation::Run;
use kqps_verdict::judge::{RunVerdict, judge};
use serde_json::{Value, json};
use support::browser::{Browser, Screen};
use support::sample;

/// Looks over the page and returns `{wrong: [fault], charts: {id: {kind of mark: count}}}`.
const CHECKS: &str = include_str!("support/checks.js");

/// The narrowest phone, in pixels. It looks like the others, so no picture of it is kept.
const NARROWEST: u32 = 360;

const SCREENS: [(&str, Screen); 5] = [
    ("desk-light", Screen { width: 1280, height: 900, phone: false, dark: false }),
    ("desk-dark", Screen { width: 1280, height: 900, phone: false, dark: true }),
    ("phone-light", Screen { width: 390, height: 844, phone: true, dark: false }),
    ("phone-dark", Screen { width: 390, height: 844, phone: true, dark: true }),
    ("narrow-light", Screen { width: NARROWEST, height: 740, phone: true, dark: false }),
];

/// Writes the page of a run where its pictures will lie.
fn written(name: &str, run: &Run) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let directory = target.join("report-screenshots");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join(name).with_extension("html");
    fs::write(&file, kqps_report::page(run, &judge(run))).unwrap();
    file
}

#[test]
fn it_is_readable_on_every_screen_and_fetches_nothing() {
    let run = sample::run();
    let file = written("sample", &run);
    let mut browser = Browser::start();
    for (name, screen) in SCREENS {
        browser.open(&file, screen);
        let found = browser.evaluate(CHECKS);
        assert_eq!(found["wrong"], json!([]), "on {name}");
        expect_marks(&found["charts"], &judge(&run));
        if screen.width != NARROWEST {
            fs::write(file.with_file_name(name).with_extension("png"), browser.screenshot()).unwrap();
        }
    }
    let page = format!("file://{}", file.display());
    assert!(browser.requested.iter().all(|address| *address == page), "{:?}", browser.requested);
}

/// Every chart holds as many marks as there are figures.
fn expect_marks(charts: &Value, verdict: &RunVerdict) {
    let subjects = &verdict.subjects;
    let figures = subjects.iter().filter(|subject| subject.figure_qps.is_some()).count();
    let ceilings = subjects.iter().filter(|subject| subject.ceiling.is_some()).count();
    assert_eq!((figures, ceilings), (2, 4), "the sample has two figures and two refusals");
    assert_eq!(charts["rates"]["bars"], figures);
    assert_eq!(charts["rates"]["whiskers"], figures);
    assert_eq!(charts["rates"]["ceilings"], ceilings);
    assert_eq!(charts["ceilings"]["bars"], verdict.ceilings.echoes.len() + 1);
    for subject in subjects {
        let latency = &charts[format!("latency-{}", subject.cell)];
        let losses = &charts[format!("loss-{}", subject.cell)];
        if subject.figure_qps.is_none() {
            assert!(latency.is_null(), "the figure of {} is refused", subject.name);
            continue;
        }
        let quantiles = |point: &kqps_verdict::judge::LoadPoint| {
            let times = [point.latency_us.p50, point.latency_us.p99, point.latency_us.p999];
            times.iter().flatten().count()
        };
        assert_eq!(latency["dots"], subject.latency.iter().map(quantiles).sum::<usize>());
        assert_eq!(losses["bars"], subject.losses.places.len() + 1, "places, and what is unexplained");
    }
}

#[test]
fn what_a_run_says_stays_text_and_on_paper_all_is_open_and_light() {
    let file = written("paper", &sample::run());
    let mut browser = Browser::start();
    browser.open(&file, Screen { dark: true, ..SCREENS[0].1 });
    let title = browser.evaluate("document.title");
    assert!(title.as_str().unwrap().starts_with("kqps: default"), "{title}");
    let made = browser.evaluate("document.querySelectorAll('script, img, [onerror]').length");
    assert_eq!(made, 0);
    let said = browser.evaluate("document.body.textContent");
    assert!(said.as_str().unwrap().matches(sample::HOSTILE).count() > 5, "it is shown, not swallowed");

    let numbered = "[...document.querySelectorAll('.answers li, table.stack tr:not(.reasons)')]
        .filter(told => told.querySelector('.grade.f') && told.textContent.includes('qps')).length";
    assert_eq!(browser.evaluate(numbered), 0, "a figure that is refused is not told");
    assert_eq!(browser.evaluate("document.querySelectorAll('.grade.f').length"), 4);

    browser.on_paper();
    let closed =
        "[...document.querySelectorAll('details > *')].filter(part => !part.checkVisibility()).length";
    assert_eq!(browser.evaluate(closed), 0);
    let paper = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(paper, "rgb(255, 255, 255)");
    fs::write(file.with_extension("pdf"), browser.print()).unwrap();
}

#[test]
fn a_run_that_was_killed_at_once_has_a_page_too() {
    let run = Run { finished_unix_ms: None, trials: Vec::new(), ..sample::run() };
    let mut browser = Browser::start();
    for (name, run) in [("killed", run), ("nothing", Run::default())] {
        let file = written(name, &run);
        browser.open(&file, SCREENS[4].1);
        assert_eq!(browser.evaluate(CHECKS)["wrong"], json!([]), "{name}");
        let said = browser.evaluate("document.body.textContent");
        let said = said.as_str().unwrap();
        assert!(said.contains("This run is unfinished") && !said.contains("NaN"), "{said}");
    }
}
