//! `--live` in headless Chromium: figures move while a study is played, and what is left is the study's report.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::process::Stdio;
use std::time::Instant;

use kqps_kernel::process::{Signal, signal};
use serde_json::Value;

use super::browser::{Browser, Screen};
use super::{PATIENCE, answer, shown_at};
use crate::load::bench::kqps;

/// Two cells at fixed rates.
const STUDY: &str = r#"
name = "tiny"
title = "A tiny study <b>of two</b>"
question = "Does it show?"
source = "a test"
repetitions = 1
load = { rates_qps = [1000, 2000], seconds = 1.5 }

[[experiment]]
name = "models"
title = "Models"
[experiment.factors]
io = ["poll", "mmsg"]
"#;

#[test]
fn figures_move_while_a_study_is_played_and_the_end_is_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let (study, out) = (folder.path().join("study.toml"), folder.path().join("out"));
    std::fs::write(&study, STUDY).unwrap();
    let mut browser = Browser::start();
    let mut command = kqps(&["run", &study.display().to_string(), "--records", "200", "--seed", "5"]);
    command.args(["--live", "0", "--linger", "1h", "--out"]).arg(&out).env_remove("KQPS_INSTALL_SUBJECTS");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let address = shown_at(&mut stderr, "/");
    let drained = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap());
    let screen = Screen { width: 1200, height: 800, phone: false, dark: false };
    browser.go(&format!("http://{address}/"), screen);
    let (began, mut facts, mut standings) = (Instant::now(), BTreeSet::new(), BTreeSet::new());
    let shown = r#"[document.body.dataset.over === "1", document.getElementById("live-facts")?.innerText ?? "",
        document.getElementById("live-standing")?.innerText ?? ""]"#;
    loop {
        let now = browser.evaluate(shown);
        facts.insert(now[1].as_str().unwrap().to_owned());
        standings.insert(now[2].as_str().unwrap().to_owned());
        if now[0] == Value::Bool(true) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{standings:?}");
    }
    assert!(facts.iter().filter(|text| text.contains("NOERROR")).count() >= 3, "{facts:?}");
    let has = |wanted: &str| standings.iter().any(|text| text.contains(wanted));
    assert!(has("1,000 q/s") && has("fixed rate") && has("sending"), "{standings:?}");
    assert!(answer(address, b"nonsense\r\n\r\n").0.starts_with("HTTP/1.1 400 "));

    let body = "document.body.innerHTML.trim()";
    let live = browser.evaluate(body);
    let requested: Vec<&String> = browser.requested.iter().filter(|url| url.starts_with("http")).collect();
    assert!(requested.iter().all(|url| url.starts_with(&format!("http://{address}/"))), "{requested:?}");
    browser.open(&out.join("report.html"), screen);
    let report = browser.evaluate(body);
    assert_eq!(live, report);
    assert!(report.as_str().unwrap().contains("A tiny study &lt;b&gt;of two&lt;/b&gt;"), "{report}");
    assert_eq!(browser.evaluate("document.scripts.length"), 0, "a finished page has no script");
    signal(child.id(), Signal::Interrupt).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let said = drained.join().unwrap();
    assert!(said.contains("Serving until "), "{said}");
}
