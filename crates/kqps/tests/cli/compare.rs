//! `kqps compare` as a user runs it.

mod stored;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kqps_kernel::process::{Signal, signal};
use kqps_observation::run::{CellLoad, Purpose};
use kqps_observation::{Cell, Run, RunTrial, Store};
use serde_json::Value;

/// An echo that works so long on each query that it is the limit, and not the player.
fn echo(work_ns: u32) -> String {
    format!("{{kqps}} serve echo --listen 127.0.0.1:{{port}} --io mmsg --work {work_ns}ns --for 2m")
}

fn kqps(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("compare").args(arguments).stdin(Stdio::null());
    command
}

/// A comparison of two echoes. Each cell plays for less than a second, too short to measure the noise of a
/// busy host.
fn live(work_ns: [u32; 2], out: &Path, more: &[&str]) -> Command {
    let mut command = kqps(&["--a", &echo(work_ns[0]), "--b", &echo(work_ns[1])]);
    command.args(["--duration", "100ms", "--records", "200", "--seed", "3", "--out"]).arg(out).args(more);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed_comparisons(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The number of starts that were loaded, however often each: if the host spoils a trial, it is made again,
/// if need be in another start.
fn starts_of(trials: &[RunTrial]) -> usize {
    let loaded = trials.iter().filter(|it| it.purpose == Purpose::Closed);
    loaded.map(|it| (it.block, it.cell)).collect::<BTreeSet<_>>().len()
}

#[test]
fn a_small_part_of_the_rate_is_slower_and_fails_a_build() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // A twentieth of the rate is far beyond any noise of a host.
    let output =
        live([20_000, 500_000], &out, &["-q", "8", "--blocks", "6", "--json", "--fail-on", "slower:5%"])
            .output()
            .unwrap();
    let comparisons = printed_comparisons(&output);
    assert_eq!(comparisons.len(), 1, "{}", stderr(&output));
    let comparison = &comparisons[0];
    assert_eq!(comparison["kind"], "comparison");
    assert_eq!(comparison["outcome"], "slower", "{comparison}");
    assert_eq!(comparison["figure"], "answered-rate");
    assert!(comparison["ratio"]["median"].as_f64().unwrap() < 0.5, "{comparison}");
    assert_eq!(comparison["blocks"].as_array().unwrap().len(), 6);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("--fail-on slower:5% holds"), "{}", stderr(&output));

    let run = Store::read(&out.join("run.sqlite")).unwrap();
    assert_eq!((run.study.as_str(), run.cells.len(), run.blocks), ("compare", 3, 6));
    // In every block all three are started before the first of them is loaded.
    for block in 0..6 {
        let of_block: Vec<_> = run.trials.iter().filter(|it| it.block == block).collect();
        let warmed: BTreeSet<u32> =
            of_block.iter().take_while(|it| it.purpose == Purpose::WarmUp).map(|it| it.cell).collect();
        assert_eq!(warmed, BTreeSet::from([0, 1, 2]), "block {block}");
    }
    assert_eq!(starts_of(&run.trials), 18);
    assert!(out.join("report.html").exists());

    // The stored run gives the same comparison again, and so do its cells by name.
    let stored = kqps(&[out.to_str().unwrap(), "--json"]).output().unwrap();
    assert_eq!((printed_comparisons(&stored), stored.status.code()), (comparisons, Some(0)));
    let cells = [out.to_str().unwrap(), "--a", "kqps --work 20000ns", "--b", "kqps --work 500000ns"];
    let by_name = kqps(&cells).output().unwrap();
    let words = String::from_utf8_lossy(&by_name.stdout).into_owned();
    let head = "A is kqps --work 20000ns, B is kqps --work 500000ns.\n";
    assert!(words.starts_with(head), "the builds are named by their difference: {words}{}", stderr(&by_name));
    assert!(words.contains("\nslower: kqps --work 500000ns has "), "{words}");
    let row = words.lines().find(|line| line.trim_start().starts_with("answered rate")).unwrap();
    assert!(row.contains("slower") && (row.contains("±") || row.contains("a factor of")), "{words}");
    assert!(words.contains("of A and B, each against itself"), "{words}");

    // Two runs are recognised as two sessions of the same programs.
    let again = folder.path().join("again");
    std::fs::create_dir(&again).unwrap();
    std::fs::copy(out.join("run.sqlite"), again.join("run.sqlite")).unwrap();
    let same = kqps(&[out.to_str().unwrap(), again.to_str().unwrap()]).output().unwrap();
    let words = String::from_utf8_lossy(&same.stdout).into_owned();
    assert_eq!(same.status.code(), Some(0), "{}", stderr(&same));
    assert!(
        words.contains("different sessions") && words.contains("no program is known to differ"),
        "{words}"
    );
}

#[test]
fn cells_that_were_not_asked_the_same_in_two_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stored = |name: &str, duration_s: f64| {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let cell = Cell { name: "nsd".into(), load: CellLoad::Closed(duration_s), ..Cell::default() };
        let run = Run { schema: kqps_observation::SCHEMA, cells: vec![cell], ..Run::default() };
        Store::create(&place.join("run.sqlite"), &run).unwrap();
        place.display().to_string()
    };
    let output = kqps(&[&stored("a", 1.0), &stored("b", 2.0)]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let wanted = "nsd was not asked the same in both runs: the load differs: a closed loop of 1 s and a closed loop of \
                  2 s";
    assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
}

#[test]
fn killed_in_the_middle_it_goes_on_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let trials = || Store::read(&out.join("run.sqlite")).map_or(Vec::new(), |run| run.trials);
    let mut child = live([20_000; 2], &out, &["--blocks", "1"]).stderr(Stdio::null()).spawn().unwrap();
    while trials().len() < 4 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = trials();
    let output = kqps(&["--resume", "--out", out.to_str().unwrap(), "--json", "--fail-on", "slower"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 of 1 comparisons are inconclusive"), "{}", stderr(&output));
    let goes_on = format!(
        "Going on with the comparison in {}: {} trials stored, and 1 block planned.",
        out.display(),
        before.len()
    );
    assert!(stderr(&output).contains(&goes_on), "{}", stderr(&output));
    let passing =
        kqps(&["--resume", "--out", out.to_str().unwrap(), "--fail-on", "slower", "--allow-inconclusive"])
            .output()
            .unwrap();
    assert_eq!(passing.status.code(), Some(0), "{}", stderr(&passing));
    assert!(stderr(&passing).contains("--allow-inconclusive lets them pass"), "{}", stderr(&passing));
    let is_over = format!("The comparison in {} is finished: nothing more is measured.", out.display());
    assert!(stderr(&passing).contains(&is_over), "{}", stderr(&passing));
    let after = trials();
    assert_eq!(after[..before.len()], before);
    assert_eq!(starts_of(&after), 3);
    let comparison = &printed_comparisons(&output)[0];
    assert_eq!((&comparison["outcome"], &comparison["more_blocks"]), (&"inconclusive".into(), &5.into()));
    assert_eq!(comparison["more_at_least"], true, "a block is too little to estimate it");
}

#[test]
fn an_interrupted_comparison_says_what_was_compared_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let trials = || Store::read(&out.join("run.sqlite")).map_or(Vec::new(), |run| run.trials);
    let mut command = live([20_000; 2], &out, &["--blocks", "2"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A whole block, and a start of the next one.
    while starts_of(&trials()) < 4 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be interrupted");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(child.id(), Signal::Terminate).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", stderr(&output));
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(words.contains("inconclusive") && words.contains("B/A"), "{words}");
    assert!(stderr(&output).contains("To go on: kqps compare --resume --out"), "{}", stderr(&output));
}

#[test]
fn at_a_fixed_rate_time_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let more = ["-Q", "2k", "--blocks", "1", "--json", "--fail-on", "inconclusive"];
    let output = live([20_000; 2], &out, &more).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    // 120 queries have no p99.
    let figures: Vec<_> = printed_comparisons(&output).iter().map(|it| it["figure"].clone()).collect();
    assert_eq!(figures, ["cpu-per-answer"], "{}", stderr(&output));
    assert!(stderr(&output).contains("There is no verdict below 6 blocks: "), "{}", stderr(&output));
}

#[test]
fn bad_usage_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let cases: [(&[&str], &str); 20] = [
        (&["--a", "knot workers=1", "--b", "knot worker=2"], "did you mean `workers`?"),
        (
            &["--a", "nsd", "--b", "nsd", "--blocks", "9", "--budget", "9s"],
            "a budget of 9 s is too short: 9 blocks take about",
        ),
        (
            &["--a", "nsd", "--b", "nsd", "--blocks", "6", "--budget", "3m", "--duration", "2s"],
            "two of them give the third; leave one out",
        ),
        (&["--a", "nsd", "--b", "sh {port}", "--budget", "5s"], "a budget of 5 s is too short: six blocks"),
        (&["--target", "udp://127.0.0.1:1", "-d", "/etc/passwd"], "expected two, one for each side, found 1"),
        (&["--a", "udp://127.0.0.1:1", "--b", "udp://127.0.0.1:2"], "give its queries with -d FILE"),
        (
            &["--a", "udp://127.0.0.1:1", "--b", "kqps-auth", "-d", "/etc/passwd"],
            "would serve a generated zone",
        ),
        (&["--a", "udp://192.0.2.1", "--b", "echo", "-d", "/etc/passwd"], "allow it with --allow-target"),
        (
            &["--a", "udp://192.0.2.1", "--allow-target", "192.0.2.0/24", "--b", "echo", "-d", "/etc/passwd"],
            "is on another host, and echo on this one",
        ),
        (&[], "required"),
        (&["--a", "nsd"], "--b"),
        (&["--a", "nds", "--b", "knot"], "did you mean `nsd`?"),
        (&["--a", "sh -p 53", "--b", "nsd"], "{port} or {endpoint} is missing"),
        (&["--a", "sh --backend udp://127.0.0.1:1", "--b", "nsd"], "{port} or {endpoint} is missing"),
        (&["--a", "sh {port}", "--b", "sh {port}", "--fail-on", "slow"], "expected faster, slower"),
        (&["--a", "sh {port}", "--b", "sh {port}", "-q", "1", "-Q", "1"], "cannot be used with"),
        (&["--a", "nsd", "--b", "knot", "--allow-inconclusive"], "--fail-on"),
        (
            &["--a", "nsd", "--b", "knot", "--fail-on", "inconclusive", "--allow-inconclusive"],
            "contradict each other",
        ),
        (&[here], "holds no run"),
        (&["--resume"], "no unfinished comparison in "),
    ];
    for (arguments, expected) in cases {
        // The user's own data may have an unfinished comparison.
        let output = kqps(arguments).current_dir(here).env("XDG_DATA_HOME", here).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    for made in ["kqps-runs", "kqps"] {
        assert!(!folder.path().join(made).exists(), "nothing is half-made");
    }
}
