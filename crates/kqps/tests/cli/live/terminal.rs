//! `--tui` in a pseudo-terminal: figures, keys, sizes, colours, and the terminal as it was before when all is over.

use std::process::Stdio;

use kqps_kernel::process::Signal;
use kqps_observation::Trial;

use super::get;
use super::pty::Terminal;
use crate::load::bench::{Bench, kqps, words};

/// A load that only ends early.
const LONG: [&str; 5] = ["-Q", "2k", "-l", "1h", "--tui"];

#[test]
fn a_load_is_drawn_keys_work_and_the_accounts_are_printed_afterwards() {
    let bench = Bench::new();
    let printed = bench.folder.path().join("printed");
    let file = std::fs::File::create(&printed).unwrap();
    let mut command = bench.load(&LONG);
    command.arg("--json").env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let mut terminal = Terminal::start((24, 80), &command, |command| {
        command.stdout(Stdio::from(file));
    });
    for wanted in [
        "kqps load 127.0.0.1:",
        "sending, ",
        " of 3600.0 s",
        "2,000 q/s",
        "NOERROR ",
        "k q/s",
        "player 0.",
        "latency",
    ] {
        terminal.wait_for(wanted);
    }
    assert!(terminal.is_drawn() && terminal.was_colored, "{}", terminal.text());
    terminal.press("?");
    terminal.wait_for("the measurement goes on");
    terminal.press("?");
    terminal.wait("screen without help", |terminal| !terminal.text().contains("the measurement goes on"));
    terminal.press("p");
    terminal.wait_for("PAUSED");
    terminal.press("p");
    terminal.wait("screen that goes on", |terminal| !terminal.text().contains("PAUSED"));
    for (rows, columns) in [(40, 132), (5, 20), (1, 1), (24, 80)] {
        terminal.resize(rows, columns);
        let last = usize::from(rows) - 1;
        terminal.wait("keys in the last row", |terminal| {
            terminal.text().lines().nth(last).is_some_and(|line| line.starts_with('q'))
        });
    }
    // A key that arrives together with a new size is not lost.
    for round in 0..20 {
        let is_paused = round % 2 == 0;
        terminal.resize(24, if is_paused { 81 } else { 80 });
        terminal.press("p");
        terminal.wait("answer to a key", |terminal| terminal.text().contains("PAUSED") == is_paused);
    }
    terminal.press("q");
    let (status, left) = terminal.end();
    assert_eq!(status.code(), Some(130), "{left}");
    let trial: Trial = serde_json::from_slice(&std::fs::read(&printed).unwrap()).unwrap();
    trial.accounts.check().unwrap();
    assert!(trial.interrupted && trial.accounts.sent > 0 && trial.accounts.lost == 0, "{:?}", trial.accounts);
}

#[test]
fn without_colour_a_search_is_drawn_all_the_same_and_a_signal_restores_the_terminal() {
    let bench = Bench::new();
    let queries = bench.queries().display().to_string();
    let mut command = kqps(&["find", &bench.echo.address, "-d", &queries, "--no-ceiling", "--tui"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut terminal = Terminal::start((24, 80), &command, |_| ());
    // On a busy host some trials are over before they are drawn.
    for wanted in ["(search)", "overload ", "bounds"] {
        terminal.wait_for(wanted);
    }
    terminal.signal(Signal::Terminate);
    let was_colored = terminal.was_colored;
    let (status, left) = terminal.end();
    assert_eq!(status.code(), Some(143), "{left}");
    assert!(!was_colored);
    assert!(
        left.contains("grade") || left.contains("interrupted"),
        "the verdict is on the normal screen: {left}"
    );
}

/// A study of one cell whose trial only ends early.
pub(super) const STUDY: &str = r#"
name = "tiny"
title = "A tiny study"
question = "Does it show?"
source = "a test"
repetitions = 1
load = { rates_qps = [1000], seconds = 3600 }
[[experiment]]
name = "one"
title = "One"
[experiment.factors]
io = ["mmsg"]
"#;

#[test]
fn a_study_is_drawn_with_its_place_and_a_key_ends_it_early() {
    let folder = tempfile::tempdir().unwrap();
    let (study, out) = (folder.path().join("study.toml"), folder.path().join("out"));
    std::fs::write(&study, STUDY).unwrap();
    let mut command = kqps(&["run", &study.display().to_string(), "--records", "200", "--tui", "--out"]);
    command.args([&out.display().to_string(), "--live", "0", "--metrics", "0.0.0.0:0"]);
    command.env("TERM", "xterm").env_remove("KQPS_INSTALL_SUBJECTS");
    let mut terminal = Terminal::start((24, 80), &command, |_| ());
    for wanted in ["kqps run ", "cell 2 of 2, block 1 of 1, trial ", "(fixed rate)", "1,000 q/s", "NOERROR "]
    {
        terminal.wait_for(wanted);
    }
    for (name, path) in [("page", "/"), ("metrics", "/metrics")] {
        terminal.wait_for(&format!("{name} http://"));
        let text = terminal.text();
        let url = text.split_once(&format!("{name} http://")).unwrap().1.split_whitespace().next().unwrap();
        let address = url.strip_suffix(path).unwrap().parse().unwrap();
        assert!(get(address, path).0.starts_with("HTTP/1.1 200 "), "{text}");
    }
    let text = terminal.text();
    let open: Vec<&str> = text.lines().filter(|row| row.contains("(open to other hosts)")).collect();
    assert!(matches!(*open, [row] if row.starts_with("metrics http://0.0.0.0:")), "{text}");
    terminal.press("q");
    let (status, left) = terminal.end();
    assert_eq!(status.code(), Some(130), "{left}");
    assert!(left.contains("kqps run --resume --out"), "{left}");
}

#[test]
fn without_a_terminal_lines_are_printed_and_one_notice_says_so() {
    let bench = Bench::new();
    let notice = "--tui: standard error is no terminal, so lines are printed instead";
    let output = bench.load(&["-Q", "1k", "-l", "1200ms", "--tui"]).output().unwrap();
    let (accounts, said) = words(&output);
    assert!(output.status.success() && accounts.contains("correct"), "{accounts}{said}");
    assert!(said.matches(notice).count() == 1 && said.contains(" s  sent "), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");

    let mut command = bench.load(&["-Q", "1k", "-l", "200ms", "--tui"]);
    command.env("TERM", "dumb");
    let terminal = Terminal::start((100, 100), &command, |_| ());
    let (status, left) = terminal.end();
    assert!(status.success() && left.contains("TERM=dumb"), "{left}");
}
