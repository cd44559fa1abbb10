//! The page of `--live` as a reader sees it in a browser: while a search goes on, and when a load is over.

use std::fs;
use std::path::Path;

use kqps_observation::Run;
use kqps_report::{LiveInput, LiveMoment, live_page, page_body, page_so_far};
use kqps_verdict::judge::{Moment, judge, judge_at};
use serde_json::json;

use super::{CHECKS, SCREENS};
use crate::support::browser::Browser;
use crate::support::sample;

/// Shows what the page says if its server has gone.
const LOST: &str = r#"{
    const lost = document.getElementById("lost");
    lost.textContent = "Connection lost at 10:00:00 AM: these figures are old.";
    lost.hidden = false;
}"#;

/// A search in its first minute, with a name that is as long as names of servers get.
fn during() -> LiveInput {
    let moments = (1..=120_u32).map(|quarter| {
        let wave = f64::from(quarter % 17) / 17.0;
        LiveMoment {
            at_s: f64::from(quarter) / 4.0,
            sent_qps: Some(100_000.0),
            answered_qps: Some(99_000.0 + 1_000.0 * wave),
            p50_us: Some(80.0 + 20.0 * wave),
            p99_us: (quarter % 5 != 0).then_some(900.0 + 4_000.0 * wave),
        }
    });
    let fact = |name: &str, words: &str| (name.to_owned(), words.to_owned());
    LiveInput {
        headline: "kqps find ns1.a-long-name.of-a-server.example.test:5300".to_owned(),
        standing: "ns1.a-long-name.of-a-server.example.test:5300 · trial 12 (search) · 100,000 q/s · sending, 0.7 of 1.0 s"
            .to_owned(),
        facts: vec![
            fact("sent", "70,123, now 100.0k q/s"),
            fact("answered", "69,987, now 99.4k q/s"),
            fact("bad", "0.034 % (lost 12, overdue 9, wrong 2, unsent 1)"),
            fact("outstanding", "112"),
            fact("latency", "p50 87 µs, p99 1.4 ms"),
            fact("rcodes", "NOERROR 68,900, NXDOMAIN 1,087"),
            fact("connections", "4 open, 4 made, 0 failed"),
            fact("CPU", "player 0.85 cores, subject 1.92 cores"),
            fact("bounds", "96,000 to 104,000 q/s"),
        ],
        moments: moments.collect(),
        classes: Vec::new(),
        lines: (1..=12).map(|number| format!("   {number},000 q/s  search     bad 0.00 %   p99    80 µs   meets")).collect(),
        result: String::new(),
    }
}

/// A load that is over.
fn at_end() -> LiveInput {
    let line = "  correct  600,000  100.000 %  of the queries that were sent, of which none was truncated or answered twice";
    LiveInput {
        headline: "kqps load 127.0.0.1:5300".to_owned(),
        standing: "127.0.0.1:5300 · 10,000 q/s · over".to_owned(),
        facts: Vec::new(),
        result: [line; 20].join("\n"),
        ..during()
    }
}

#[test]
fn a_live_page_is_readable_on_every_screen() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let folder = target.join("report-screenshots");
    fs::create_dir_all(&folder).unwrap();
    let run = Run { finished_unix_ms: None, ..sample::run() };
    let body = page_so_far(&run, &judge_at(&run, Moment::SoFar));
    let mut browser = Browser::start();
    for (state, input, body) in [("during", during(), body.as_str()), ("at-end", at_end(), "")] {
        let file = folder.join(format!("live-{state}.html"));
        fs::write(&file, live_page(&input.headline, &input, (body, "7/1"), "0.1.0")).unwrap();
        for (name, screen) in SCREENS {
            browser.open(&file, screen);
            browser.evaluate(LOST);
            fs::write(folder.join(format!("live-{state}-{name}.png")), browser.screenshot()).unwrap();
            browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)");
            let found = browser.evaluate(CHECKS);
            assert_eq!(found["wrong"], json!([]), "{state} on {name}");
            assert_eq!(
                browser.evaluate("document.querySelectorAll('#live svg.chart').length"),
                2,
                "on {name}"
            );
        }
    }
}

#[test]
fn a_run_that_goes_on_is_not_said_to_have_ended_early() {
    let mut run = Run { finished_unix_ms: None, ..sample::run() };
    // The subject of the last cell is still to come.
    let last = run.cells.len() as u32 - 1;
    run.trials.retain(|one| one.cell != last);
    // The newest search is not over.
    let cut = |count: usize| Run { trials: run.trials[..count].to_vec(), ..run.clone() };
    let is_cut_short = |run: &Run| {
        let verdict = judge(run);
        let mut bounds = verdict
            .subjects
            .iter()
            .flat_map(|subject| &subject.starts)
            .filter_map(|start| start.bounds.as_ref());
        bounds.any(|bounds| bounds.interrupted)
    };
    let run = (1..run.trials.len()).rev().map(cut).find(is_cut_short).unwrap();
    let early = ["did not finish", "It was never tried", "it did not", "interrupted before"];
    let at_end = page_body(&run, &judge(&run), None);
    for words in early {
        assert!(at_end.contains(words), "{words}");
    }
    let so_far = page_so_far(&run, &judge_at(&run, Moment::SoFar));
    for words in early {
        assert!(!so_far.contains(words), "{words}");
    }
    assert!(so_far.contains("This run goes on.") && so_far.contains("No load was tried yet."));
    let run = Run { trials: Vec::new(), cells: Vec::new(), ..run };
    assert!(
        page_so_far(&run, &judge_at(&run, Moment::SoFar))
            .contains("This run has no verdict on any name server yet.")
    );
}
