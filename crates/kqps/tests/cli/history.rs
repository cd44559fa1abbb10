//! `kqps history` as a user runs it, over runs that are written with known figures. No load is played, except to
//! confirm.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kqps_history::{Added, Store as History};
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Accounts, Cell, Run, RunTrial, SCHEMA, Store, Trial};
use kqps_testbed::subject::Definition;
use serde_json::Value;
use tempfile::TempDir;

/// The runs before the change, and all.
const BEFORE: u32 = 20;
const RUNS: u32 = 24;

const FIRST_UNIX_MS: u64 = 1_795_000_000_000;
const DAY_MS: u64 = 86_400_000;

/// The change of the rate, a tenth.
const CHANGED: f64 = 0.9;

fn kqps(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("history").args(words).args(["--store", "history.sqlite"]).current_dir(home);
    // A confirmation keeps its run there.
    command.env("XDG_DATA_HOME", home).output().unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn cell(name: &str, role: Role) -> Cell {
    let (subject, load) = (name.to_owned(), CellLoad::Closed(1.0));
    Cell { name: name.into(), role, subject, io: "mmsg".into(), workers: 1, load, ..Cell::default() }
}

fn trial(rate_qps: f64) -> Trial {
    let count = rate_qps as u64;
    let mut trial = Trial {
        schema: SCHEMA,
        kind: "trial".into(),
        accounts: Accounts { intended: count, sent: count, correct: count, ..Accounts::default() },
        ..Trial::default()
    };
    trial.load.mode = LoadMode::Closed;
    (trial.load.answered_qps, trial.load.duration_s) = (rate_qps, 1.0);
    trial
}

/// Stores a run of an echo and a server, which answers half as much, or less from a certain run on.
fn store(home: &Path, number: u32, build: Option<&str>) -> PathBuf {
    let folder = home.join(format!("run-{number:02}"));
    let cells = vec![cell("echo mmsg", Role::EchoCeiling), cell("server", Role::Subject)];
    let mut run = Run { schema: SCHEMA, study: "nightly".into(), blocks: 6, cells, ..Run::default() };
    run.started_unix_ms = FIRST_UNIX_MS + DAY_MS * u64::from(number);
    fs::create_dir(&folder).unwrap();
    if let Some(build) = build {
        let definition = Definition::of_command(&format!("{build} -p {{port}}")).unwrap();
        fs::create_dir(folder.join("subjects")).unwrap();
        fs::write(folder.join("subjects/server.toml"), definition.text).unwrap();
        let facts = BinaryFacts { path: build.to_owned(), version: None, blake3: Some(hash(build)) };
        run.fingerprint.binaries.insert(build.to_owned(), facts);
    }
    let store = Store::create(&folder.join("run.sqlite"), &run).unwrap();
    for (index, (block, of_cell)) in (1..).zip((0..6).flat_map(|block| [(block, 0), (block, 1)])) {
        let spread = f64::from((number * number * 3 + number * 5 + block * 2 + of_cell) % 17) / 1_700.0;
        let share = match (of_cell, number >= BEFORE) {
            (0, _) => 1.0,
            (_, false) => 0.5,
            (_, true) => 0.5 * CHANGED,
        };
        let purpose = if of_cell == 0 { Purpose::Ceiling } else { Purpose::Closed };
        let outcome = Outcome::Measured(Box::new(trial(600_000.0 * share * (1.0 + spread))));
        store
            .commit(&RunTrial { number: index, cell: of_cell, block, start: index, purpose, outcome })
            .unwrap();
    }
    store.finish(1).unwrap();
    folder
}

/// BLAKE3 of a file, as the run recorded it.
fn hash(path: &str) -> String {
    blake3::hash(&fs::read(path).unwrap()).to_hex().to_string()
}

/// A folder with all runs, and their history.
fn remembered(build: impl Fn(u32) -> Option<&'static str>) -> TempDir {
    let home = TempDir::new().unwrap();
    let runs: Vec<PathBuf> = (0..RUNS).map(|number| store(home.path(), number, build(number))).collect();
    let output = kqps(home.path(), &names(&runs, "add"));
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    assert!(words(&output.stdout).starts_with("24 runs added, 0 renewed, 0 known; the history has 24 runs"));
    home
}

fn names<'a>(runs: &'a [PathBuf], command: &'a str) -> Vec<&'a str> {
    [command].into_iter().chain(runs.iter().map(|run| run.to_str().unwrap())).collect()
}

#[test]
fn a_change_is_found_shown_and_fails_a_job() {
    let home = remembered(|_| None);
    let check = |more: &[&str]| kqps(home.path(), &[&["check"], more].concat());
    let output = check(&["--fail-on", "slower:2%", "--comment", "comment.md"]);
    let said = words(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}{}", words(&output.stderr));
    assert!(said.starts_with("1 series over 24 runs: 1 change, 1 of them new.\n"), "{said}");
    assert!(said.contains("run-20") && said.contains("worse, strong, new"), "{said}");
    assert!(
        words(&output.stderr)
            .contains("--fail-on slower:2% holds for nightly: server, share of the ceiling.")
    );
    let comment = fs::read_to_string(home.path().join("comment.md")).unwrap();
    assert!(
        comment.contains("| worse, strong, new | nightly: server, share of the ceiling | -10."),
        "{comment}"
    );
    for (more, status) in [
        (&["--fail-on", "slower:20%"][..], 0),
        (&["--fail-on", "faster"], 0),
        (&["--fail-on", "different", "--last", "3"], 0),
        (&["--fail-on", "different", "--last", "4"], 3),
        (&[], 0),
    ] {
        let output = check(more);
        assert_eq!(output.status.code(), Some(status), "{more:?}: {}", words(&output.stderr));
    }
    let printed: Value = serde_json::from_str(&words(&check(&["--json"]).stdout)).unwrap();
    assert_eq!((&printed["strength"], &printed["is_worse"]), (&"strong".into(), &true.into()), "{printed}");
    let ratio = printed["ratio"]["median"].as_f64().unwrap();
    assert!((ratio - CHANGED).abs() < 0.005, "{printed}");
    assert!(printed["after"].as_str().unwrap().ends_with("/run-20"), "{printed}");

    fs::write(home.path().join("run-23/report.html"), "").unwrap();
    let output = kqps(home.path(), &["page"]);
    assert_eq!(words(&output.stdout), "history.html\n", "{}", words(&output.stderr));
    let page = fs::read_to_string(home.path().join("history.html")).unwrap();
    assert!(
        page.contains("1 change in 1 series: 1 for the worse")
            && page.contains("href=\"run-23/report.html\"")
    );
}

#[test]
fn the_history_goes_to_other_programs() {
    let home = remembered(|_| None);
    let export = |words_of: &[&str]| words(&kqps(home.path(), &[&["export"], words_of].concat()).stdout);
    let bmf: Value = serde_json::from_str(&export(&["bmf"])).unwrap();
    let metric = &bmf["nightly: server"]["ceiling-share"];
    assert!((metric["value"].as_f64().unwrap() - 0.45).abs() < 0.005, "{bmf}");
    assert!(metric["lower_value"].as_f64() < metric["value"].as_f64(), "{bmf}");
    let csv = export(&["csv"]);
    assert_eq!((csv.lines().count(), csv.matches("ceiling-share").count()), (25, 24), "{csv}");
    assert!(export(&["markdown"]).starts_with("### kqps history\n"));
    assert_eq!(export(&["csv", "-o", "history.csv"]), "");
    assert_eq!(fs::read_to_string(home.path().join("history.csv")).unwrap(), csv);
}

#[test]
fn a_bad_folder_is_named_and_the_others_are_added() {
    let home = TempDir::new().unwrap();
    let good = [store(home.path(), 0, None), store(home.path(), 1, None)];
    let at = |name: &str| home.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir(at("text")).unwrap();
    fs::write(
        at("text/run.sqlite"),
        "no database, but longer than the header of one, by some bytes or more, so",
    )
    .unwrap();
    fs::create_dir(at("begun")).unwrap();
    Store::create(&at("begun/run.sqlite"), &Run { schema: SCHEMA, study: "x".into(), ..Run::default() })
        .unwrap();
    fs::create_dir(at("cut")).unwrap();
    let whole = fs::read(good[0].join("run.sqlite")).unwrap();
    fs::write(at("cut/run.sqlite"), &whole[..whole.len() / 2]).unwrap();
    fs::create_dir(at("nothing")).unwrap();
    let nothing = Run { schema: SCHEMA, study: "x".into(), ..Run::default() };
    Store::create(&at("nothing/run.sqlite"), &nothing).unwrap().finish(1).unwrap();

    let bad = ["none", "empty", "text", "begun", "cut", "nothing"].map(at);
    let all: Vec<PathBuf> = bad.iter().chain(&good).cloned().collect();
    let output = kqps(home.path(), &names(&bad, "add"));
    assert_eq!(output.status.code(), Some(2));
    assert!(!at("history.sqlite").exists(), "nothing was added");
    let output = kqps(home.path(), &names(&all, "add"));
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for (name, reason) in [
        ("none", "cannot be read"),
        ("empty", "holds no run"),
        ("text", "is not the store of a run"),
        ("begun", "did not finish"),
        ("nothing", "no figure that compares between runs"),
    ] {
        let line = said
            .lines()
            .find(|line| line.contains(&format!("/{name}: ")))
            .unwrap_or_else(|| panic!("{said}"));
        assert!(line.starts_with("Left out ") && line.contains(reason), "{line}");
    }
    assert_eq!(said.lines().count(), bad.len(), "{said}");
    assert!(words(&output.stdout).starts_with("2 runs added"), "{}", words(&output.stdout));
    let again = kqps(home.path(), &names(&good, "add"));
    assert!(words(&again.stdout).starts_with("0 runs added, 0 renewed, 2 known; the history has 2 runs"));

    // A lost history is made anew from the folders.
    let before = History::read(&at("history.sqlite")).unwrap();
    fs::remove_file(at("history.sqlite")).unwrap();
    kqps(home.path(), &names(&good, "add"));
    assert_eq!(History::read(&at("history.sqlite")).unwrap(), before);
}

#[test]
fn a_history_that_is_none_is_one_clear_error() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("history.sqlite"), "text ".repeat(99)).unwrap();
    for command in [&["check"][..], &["page"], &["export", "csv"]] {
        let output = kqps(home.path(), command);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(words(&output.stderr).contains("is not a history"), "{}", words(&output.stderr));
    }
    fs::remove_file(home.path().join("history.sqlite")).unwrap();
    for (command, expected) in [
        (&["check"][..], "there is no history yet; `kqps history add DIR` makes it"),
        (&["check", "--fail-on", "inconclusive"], "never inconclusive"),
        (&["check", "--fail-on", "slow"], "expected faster, slower"),
        (&["check", "--a", "nsd", "--b", "nsd"], "--confirm"),
        (&["check", "--last", "0.5"], "expected"),
        (&["export", "xml"], "markdown"),
        (&["add"], "<DIR>"),
    ] {
        let output = kqps(home.path(), command);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(words(&output.stderr).contains(expected), "{command:?}: {}", words(&output.stderr));
    }
    assert!(!home.path().join("history.sqlite").exists());
}

#[test]
fn runs_of_older_versions_are_added_as_far_as_they_have_figures() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../observation/tests/fixtures");
    let home = TempDir::new().unwrap();
    let mut added = Vec::new();
    for schema in 1..SCHEMA {
        let folder = home.path().join(schema.to_string());
        fs::create_dir(&folder).unwrap();
        let store = rusqlite::Connection::open(folder.join("run.sqlite")).unwrap();
        store
            .execute_batch(&fs::read_to_string(fixtures.join(format!("schema{schema}.sql"))).unwrap())
            .unwrap();
        drop(store);
        let output = kqps(home.path(), &["add", folder.to_str().unwrap()]);
        let said = words(&output.stderr);
        assert!(output.status.success() || said.starts_with("Left out "), "schema {schema}: {said}");
        added.push(output.status.code());
    }
    assert!(added.iter().all(|status| matches!(status, Some(0 | 2))), "{added:?}");
}

#[test]
fn only_builds_that_differ_and_are_still_there_confirm_a_change() {
    // Both runs measured the same program.
    let home = remembered(|_| Some("/bin/sh"));
    let fail = ["check", "--confirm", "--fail-on", "slower:2%"];
    let output = kqps(home.path(), &fail);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
    assert!(
        words(&output.stdout).contains("both runs measured the same program"),
        "{}",
        words(&output.stdout)
    );

    // The builds are not known.
    let home = remembered(|_| None);
    let output = kqps(home.path(), &fail);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output.stdout));
    let said = words(&output.stderr);
    assert!(
        said.contains("cannot be judged for")
            && said.contains("keep builds and name their folder by --builds"),
        "{said}"
    );
    let output = kqps(home.path(), &[&fail[..], &["--allow-inconclusive"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));

    // A single block decides nothing.
    let echo = |work: &str| {
        format!("{{kqps}} serve echo --listen 127.0.0.1:{{port}} --io mmsg --work {work} --for 2m")
    };
    let (a, b) = (echo("20us"), echo("30us"));
    let sides = ["--a", &a, "--b", &b, "--blocks", "1", "--duration", "100ms"];
    let output = kqps(home.path(), &[&fail[..], &sides].concat());
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("as inconclusive: there is no verdict below 6 blocks"), "{said}");
}

/// A job that confirms changes is set up wrongly on the day that it is set up, not on that of the first change.
#[test]
fn what_confirms_changes_is_checked_though_there_is_none() {
    let home = TempDir::new().unwrap();
    let run = store(home.path(), 0, None);
    kqps(home.path(), &names(std::slice::from_ref(&run), "add"));
    for (flags, status, expected) in [
        (&["--a", "nosuch", "--b", "nsd"][..], 2, "no subject is called `nosuch`"),
        (&["--a", "nsd", "--b", "nsd worker=2"], 2, "did you mean `workers`?"),
        (&["--a", "nsd", "--b", "sh -c true"], 2, "no subject is called `sh`"),
        (&["--blocks", "10001"], 2, "--blocks 10001: expected 1 to 10000"),
        (&["--duration", "1ms"], 2, "--duration: expected at least 10ms"),
        (&["--budget", "1s"], 2, "a budget of 1 s is too short"),
        (&["--a", "nsd", "--b", "sh -c true {port}"], 0, ""),
    ] {
        let output = kqps(home.path(), &[&["check", "--confirm"], flags].concat());
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{flags:?}: {said}");
        assert!(said.contains(expected), "{flags:?}: {said}");
    }
}

#[test]
fn adding_says_what_it_changed() {
    let home = TempDir::new().unwrap();
    let run = store(home.path(), 0, None);
    let path = home.path().join("history.sqlite");
    kqps(home.path(), &names(std::slice::from_ref(&run), "add"));
    let moved = home.path().join("moved");
    fs::rename(&run, &moved).unwrap();
    let output = kqps(home.path(), &names(std::slice::from_ref(&moved), "add"));
    assert!(words(&output.stdout).starts_with("0 runs added, 1 renewed, 0 known; the history has 1 run"));
    let records = History::read(&path).unwrap();
    assert_eq!(records.entries[0].name(), "moved");
    let mut store = History::open(&path).unwrap();
    let entry = (records.entries[0].clone(), records.hosts[&records.entries[0].host].clone());
    assert_eq!(store.add(&[entry]).unwrap(), [Added::Known]);
}

/// A history that is young never looks like a pass.
#[test]
fn too_few_runs_are_said_and_fail_a_condition_unless_that_is_allowed() {
    let home = TempDir::new().unwrap();
    let runs: Vec<PathBuf> = (0..5).map(|number| store(home.path(), number, None)).collect();
    kqps(home.path(), &names(&runs, "add"));
    let check = |more: &[&str]| {
        let output = kqps(home.path(), &[&["check", "--comment", "comment.md"], more].concat());
        (output.status.code(), words(&output.stdout), words(&output.stderr))
    };
    let (status, said, _) = check(&[]);
    assert_eq!((status, &*said), (Some(0), "1 series over 5 runs.\nToo few runs to see a change: 5 of 8.\n"));
    let comment = fs::read_to_string(home.path().join("comment.md")).unwrap();
    assert!(comment.contains("\n**Too few runs to see a change: 5 of 8.**\n"), "{comment}");
    let (status, _, said) = check(&["--fail-on", "slower:2%"]);
    assert_eq!(
        (status, &*said),
        (
            Some(3),
            "--fail-on slower:2% cannot be judged, as there are too few runs to see a change: 5 of 8: that counts as \
             failed; to let it pass add --allow-few-runs.\n"
        )
    );
    let (status, _, said) = check(&["--fail-on", "slower:2%", "--allow-few-runs", "--json"]);
    assert_eq!(
        (status, &*said),
        (Some(0), "Too few runs to see a change: 5 of 8; --allow-few-runs lets it pass.\n")
    );
    let (status, _, said) = check(&["--json"]);
    assert_eq!((status, &*said), (Some(0), "Too few runs to see a change: 5 of 8.\n"));
    assert_eq!(check(&["--allow-few-runs"]).0, Some(2), "it is for --fail-on");
}

/// The builds before and after the change are kept by commit; today's and yesterday's would both be slow.
#[test]
fn a_change_is_confirmed_by_the_kept_builds_around_it() {
    let home = TempDir::new().unwrap();
    let program = env!("CARGO_BIN_EXE_kqps");
    let server = home.path().join("new/my-server");
    let started = home.path().join("started");
    let write = |path: &Path, work: &str, commit: u32| {
        let log = started.display();
        let text = format!(
            "#!/bin/sh\necho {commit} >>{log}\nexec {program} serve echo --listen 127.0.0.1:$2 --io mmsg --work {work} --for 2m\n"
        );
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    let mut runs = Vec::new();
    for number in 0..RUNS {
        write(&server, if number < BEFORE { "20us" } else { "200us" }, number);
        let kept = home.path().join(format!("builds/{number}/my-server"));
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::copy(&server, kept).unwrap();
        runs.push(store(home.path(), number, Some(server.to_str().unwrap())));
    }
    kqps(home.path(), &names(&runs, "add"));
    let check = |more: &[&str]| {
        kqps(home.path(), &[&["check", "--confirm", "--fail-on", "slower:2%"], more].concat())
    };
    let output = check(&["--builds", "none"]);
    assert_eq!(output.status.code(), Some(2), "{}", words(&output.stderr));
    fs::create_dir(home.path().join("empty")).unwrap();
    let output = check(&["--builds", "empty"]);
    let said = words(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains(
            "/new/my-server is no longer the build that run-19 measured, and empty does not have it"
        ),
        "{said}"
    );

    let output = check(&["--builds", "builds", "--blocks", "6", "--duration", "300ms", "--json"]);
    let (printed, said) = (words(&output.stdout), words(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{printed}{said}");
    let change: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!((&change["shape"], &change["fails"]), (&"step".into(), &true.into()), "{change}");
    assert!(change["after"].as_str().unwrap().ends_with("/run-20"), "{change}");
    // The later build takes ten times as long, which shows on the busiest host.
    assert_eq!(change["confirmation"]["verdict"], "confirmed", "{change}");
    let ratio = change["confirmation"]["comparison"]["ratio"]["median"].as_f64().unwrap();
    assert!(ratio < 0.25, "{change}");
    let played: BTreeSet<u32> =
        fs::read_to_string(&started).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(played, BTreeSet::from([BEFORE - 1, BEFORE]), "the builds around the change, and no other");
}
