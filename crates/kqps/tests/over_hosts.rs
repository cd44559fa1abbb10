//! `kqps run --hosts` as a user runs it. All agents are on this host, at addresses of loopback; the file reaches one by
//! no command and the others by env(1). A player that a busy host makes late voids its trial, so those that play have the
//! host to themselves: this is a test program of its own, and they take turns.

#[path = "cli/live/watched.rs"]
mod watched;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kqps_kernel::process::{Signal, signal};
use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Accounts, HostRole, Run, Store, Trial};
use tempfile::TempDir;
use watched::{Killed, Values, get, shown_at, values_of};

/// The echo at a fixed rate, by one player, by two, and by more than there are.
const STUDY: &str = r#"
name = "shared"
title = "A load that players share"
question = "Is the account the sum?"
repetitions = 1
load = { rates_qps = [2000], seconds = 1 }

[[experiment]]
name = "players"
title = "Players"
fixed = { io = "mmsg" }
[experiment.factors]
"hosts.players" = [1, 2, 3]
[[experiment.table]]
title = "Rates"
rows = ["hosts.players"]
show = ["median", "lost"]
"#;

/// Queries of a trial of [`STUDY`]: 2000 a second in 1 s.
const INTENDED: u64 = 2000;

/// A run is made again if the host made a player late each time.
const RUNS_MOST: u32 = 5;

/// Why trials of a run failed: first those that a busy host made void, and then the others.
fn failures(run: &Run) -> (Vec<&str>, Vec<&str>) {
    let all = run.trials.iter().filter_map(|one| one.failure());
    all.partition(|why| why.contains("in succession void"))
}

/// Whether a busy host left no trial at the study's rate of one player, or of two.
fn is_disturbed(run: &Run) -> bool {
    !failures(run).0.is_empty() && ["1", "2"].iter().any(|players| trials(run, players).is_empty())
}

/// The turn of the test that plays.
static TURN: Mutex<()> = Mutex::new(());

struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("study.toml"), STUDY).unwrap();
        Self { folder }
    }

    /// A server and two players, all of which are this host.
    fn hosts(&self) -> PathBuf {
        let kqps = env!("CARGO_BIN_EXE_kqps");
        self.file(&format!(
            "[server]\nname = \"ns1\"\nkqps = \"{kqps}\"\ndata = \"127.0.0.1\"\n\
             [[player]]\nname = \"p1\"\nreach = [\"env\"]\nkqps = \"{kqps}\"\ndata = \"127.0.0.1\"\n\
             [[player]]\nname = \"p2\"\nreach = \"env\"\nkqps = \"{kqps}\"\ndata = \"127.0.0.2\"\n"
        ))
    }

    /// A hosts' file with this text.
    fn file(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("hosts.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn kqps(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
        command.args(arguments).arg("--out").arg(self.out()).stdin(Stdio::null());
        // The folders of agents are in the cache.
        command.env_remove("KQPS_INSTALL_SUBJECTS").env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
    }

    fn study(&self, more: &[&str]) -> Command {
        let mut command = self.kqps(&["run"]);
        command
            .arg(self.folder.path().join("study.toml"))
            .args(["--records", "200", "--seed", "5"])
            .args(more);
        command
    }

    /// Runs the study over these hosts with its counts for Prometheus. Returns its output, and the last counts.
    fn scraped(&self, hosts: &str) -> (Output, Values) {
        let mut study = self.study(&["--hosts", hosts, "--metrics", "0", "--linger", "1h"]);
        let mut child = Killed(study.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut stdout = child.0.stdout.take().unwrap();
        let printed = thread::spawn(move || {
            let mut printed = Vec::new();
            stdout.read_to_end(&mut printed).unwrap();
            printed
        });
        let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
        let (address, mut said) = shown_at(&mut stderr, "/metrics");
        while !said.contains("Serving until ") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended by itself: {said}");
        }
        let metrics = values_of(&get(address, "/metrics").1);
        signal(child.0.id(), Signal::Interrupt).unwrap();
        stderr.read_to_string(&mut said).unwrap();
        let (status, stdout) = (child.0.wait().unwrap(), printed.join().unwrap());
        (Output { status, stdout, stderr: said.into_bytes() }, metrics)
    }

    fn stored(&self) -> Run {
        Store::read(&self.out().join("run.sqlite")).unwrap()
    }

    /// Kills a run over the hosts of this file once it has stored a trial. Returns what it stored.
    fn killed_after_a_trial(&self, hosts: &str) -> Run {
        let mut study = self.study(&["--hosts", hosts]);
        let mut child = Killed(study.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let has_trial =
            || Store::read(&self.out().join("run.sqlite")).is_ok_and(|run| !run.trials.is_empty());
        while !has_trial() {
            assert!(child.0.try_wait().unwrap().is_none(), "it ended before it could be killed");
            thread::sleep(Duration::from_millis(5));
        }
        drop(child);
        self.stored()
    }

    /// The error output of a run over the hosts of this file, which cannot begin.
    fn refused(&self, text: &str, status: i32) -> String {
        let hosts = self.file(text).display().to_string();
        let output = self.study(&["--hosts", &hosts]).output().unwrap();
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(!self.out().join("run.sqlite").exists(), "{said}");
        said
    }
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The trials at the study's rate of the subject's cell with this number of players.
fn trials<'a>(run: &'a Run, players: &str) -> Vec<&'a Trial> {
    let is_asked = |cell: u32| {
        let cell = &run.cells[cell as usize];
        cell.role == Role::Subject && cell.factors.word("hosts.players") == Some(players)
    };
    let at_rate = run.trials.iter().filter(|one| is_asked(one.cell) && one.purpose == Purpose::Rate);
    at_rate.filter_map(|one| one.measured()).collect()
}

/// The counts of an account that must be sums.
const BUCKETS: [fn(&Accounts) -> u64; 7] = [
    |account| account.intended,
    |account| account.sent,
    |account| account.correct,
    |account| account.wrong,
    |account| account.late,
    |account| account.lost,
    |account| account.unsent,
];

fn sum(of: fn(&Accounts) -> u64, trial: &Trial) -> u64 {
    trial.parts.iter().map(|part| of(&part.accounts)).sum()
}

#[test]
fn the_account_of_two_players_is_the_sum_of_both() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!((0..RUNS_MOST).any(|_| is_the_sum()), "no run was undisturbed");
}

fn is_the_sum() -> bool {
    let lab = Lab::new();
    let hosts = lab.hosts().display().to_string();
    let (output, metrics) = lab.scraped(&hosts);
    let said = text_of(&output);
    let run = lab.stored();
    if is_disturbed(&run) {
        return false;
    }
    expect_latencies(&metrics);
    assert!(run.finished_unix_ms.is_some(), "{said}");
    assert!(said.contains("Subjects are started on ns1 (127.0.0.1), and the players are p1, p2."), "{said}");
    let named: Vec<_> = run.hosts.iter().map(|host| (host.name.as_str(), host.role)).collect();
    assert_eq!(named, [("ns1", HostRole::Server), ("p1", HostRole::Player), ("p2", HostRole::Player)]);
    assert!(run.hosts.iter().all(|host| host.kqps.blake3 == run.hosts[0].kqps.blake3));
    let (_, failed) = failures(&run);
    assert!(failed.is_empty(), "{failed:?}");
    for (players, names) in [("1", &["p1"][..]), ("2", &["p1", "p2"])] {
        let measured = trials(&run, players);
        let trial = measured.first().unwrap_or_else(|| panic!("{players} players played nothing: {said}"));
        let parts: Vec<&str> = trial.parts.iter().map(|part| part.host.as_str()).collect();
        assert_eq!(parts, names, "{said}");
        assert_eq!(trial.accounts.check(), Ok(()));
        assert_eq!(trial.accounts.intended, INTENDED, "{players} players have the whole load");
        let each = INTENDED / names.len() as u64;
        assert!(trial.parts.iter().all(|part| part.accounts.intended == each), "{:?}", trial.parts);
        for of in BUCKETS {
            assert_eq!(sum(of, trial), of(&trial.accounts), "{players}: {:?}", trial.parts);
        }
        assert!(trial.accounts.correct > 0 && trial.accounts.wrong == 0, "{:?}", trial.accounts);
        assert!(trial.subject.is_some() && trial.speed.is_none(), "watched there, and not gauged");
        assert_eq!(trial.start_skew_us.is_some(), players == "2");
    }
    expect_residence(&run, &String::from_utf8_lossy(&output.stdout));
    let reason = &run.skipped["players: hosts.players=3"];
    assert_eq!(reason, "hosts.players = 3, and the hosts' file has 2 hosts to play");
    let kept = std::fs::read_to_string(lab.out().join("hosts.toml")).unwrap();
    assert!(kept.contains("[server]") && kept.contains("name = \"p2\""), "{kept}");
    true
}

/// Players on other hosts show nothing while they play, and all latencies when they have played.
fn expect_latencies(metrics: &Values) {
    let correct = metrics["kqps_replies_correct_total"] as u64;
    assert!(correct > 0, "{metrics:?}");
    for name in ["kqps_latency_seconds_count", r#"kqps_latency_seconds_bucket{le="+Inf"}"#] {
        assert_eq!(metrics[name] as u64, correct, "{name}");
    }
}

/// Checks that one trial of each cell was stamped at loopback: every query once, with its reply.
fn expect_residence(run: &Run, words: &str) {
    if let Err(reason) = kqps_kernel::probe::probe_one("packet-stamps") {
        assert!(run.skipped["residence"].contains(&reason), "{:?}", run.skipped);
        return kqps_skips::skip(kqps_skips::Capability::RawSockets, format!("no residence: {reason}"));
    }
    let stamped: Vec<_> = run.trials.iter().filter(|one| one.purpose == Purpose::Residence).collect();
    if stamped.is_empty() {
        // A busy host may leave no rate at which the goal was met.
        let is_explained = run.skipped.keys().any(|what| what.starts_with("residence of "));
        return assert!(is_explained, "{:?} {words}", run.skipped);
    }
    assert!(words.contains("Time in the server's host"), "{words}");
    for one in stamped {
        // A busy host may make it void.
        let Some(trial) = one.measured() else { continue };
        let facts = trial.residence.as_ref().unwrap_or_else(|| panic!("{:?}", trial.hosts));
        assert!(trial.disturbed && facts.contradiction().is_none(), "{facts:?}");
        assert_eq!((facts.device.as_str(), facts.one_in, facts.dropped), ("lo", 1, 0), "{facts:?}");
        // Half of the rate, for a second.
        assert_eq!(
            (trial.accounts.intended, trial.accounts.sent),
            (INTENDED / 2, facts.queries),
            "{facts:?}"
        );
        assert_eq!((facts.pairs, facts.unasked), (facts.queries - facts.unanswered, 0), "{facts:?}");
        assert!(
            facts.pairs >= trial.accounts.correct + trial.accounts.late,
            "{:?} {facts:?}",
            trial.accounts
        );
        let (inside, all) = (facts.residence_us.p50.unwrap(), trial.latency_us.p50.unwrap());
        assert!(inside <= all, "{inside} of {all} µs");
    }
}

#[test]
fn a_run_that_was_killed_goes_on_with_the_same_hosts_and_no_others() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    assert!((0..RUNS_MOST).any(|_| goes_on()), "no run was undisturbed");
}

fn goes_on() -> bool {
    let lab = Lab::new();
    let hosts = lab.hosts().display().to_string();
    let before = lab.killed_after_a_trial(&hosts);
    // The run has its own copy.
    std::fs::remove_file(&hosts).unwrap();
    let kept = lab.out().join("hosts.toml");
    let text = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, text.replace("127.0.0.2", "127.0.0.3")).unwrap();
    let output = lab.kqps(&["run", "--resume"]).output().unwrap();
    let said = text_of(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("p2 has another address than when the run began"), "{said}");
    assert!(said.contains("begin a new run") && lab.stored() == before, "{said}");
    std::fs::write(&kept, text).unwrap();
    let output = lab.kqps(&["run", "--resume"]).output().unwrap();
    let run = lab.stored();
    if is_disturbed(&run) {
        return false;
    }
    assert!(run.finished_unix_ms.is_some(), "{}", text_of(&output));
    assert_eq!(run.trials[..before.trials.len()], before.trials, "no committed trial is lost");
    assert!(trials(&run, "2").iter().all(|trial| trial.parts.len() == 2) && !trials(&run, "2").is_empty());
    let numbers: BTreeSet<u64> = run.trials.iter().map(|one| one.number).collect();
    assert_eq!(numbers.len(), run.trials.len());
    true
}

#[test]
fn a_dry_run_asks_the_hosts_and_writes_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let hosts = lab.hosts().display().to_string();
    let output = lab.study(&["--hosts", &hosts, "--dry-run"]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(words.contains("players: hosts.players=2: 1 rate, 1 s each"), "{words}");
    assert!(words.contains("Left out: players: hosts.players=3: "), "{words}");
    assert!(!lab.out().exists());
    let alone = lab.study(&["--dry-run"]).output().unwrap();
    let words = String::from_utf8_lossy(&alone.stdout).into_owned();
    let reason = "hosts.players = 2 needs several hosts: name them with --hosts FILE";
    let left_out = format!("Left out: players: hosts.players=2: {reason}");
    assert!(words.contains(&left_out) && words.contains("players: hosts.players=1: 1 rate"), "{words}");
}

#[test]
fn a_dry_run_brings_no_program_to_the_hosts() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let hosts = lab.hosts().display().to_string();
    let output = lab.study(&["--hosts", &hosts, "--dry-run", "--push"]).output().unwrap();
    let said = text_of(&output);
    // A build with libraries is refused, and a static one is only looked for.
    let is_refused = said.contains("is not a static program");
    assert!(is_refused || said.contains("a dry run brings no program to p2"), "{said}");
    let cache = lab.folder.path().join("cache/kqps");
    let names = std::fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let brought: Vec<_> = names.filter(|name| name.len() == 64).collect();
    assert!(brought.is_empty() && !lab.out().exists(), "{brought:?}");
}

/// A server at an address of loopback that is reached by these words of TOML.
fn server(reach: &str) -> String {
    let kqps = env!("CARGO_BIN_EXE_kqps");
    format!("[server]\nname = \"ns1\"\nreach = {reach}\nkqps = \"{kqps}\"\ndata = \"127.0.0.1\"\n")
}

fn player(reach: &str) -> String {
    server(reach).replace("[server]\nname = \"ns1\"", "[[player]]\nname = \"p1\"")
}

#[test]
fn hosts_that_cannot_take_part_are_named_and_nothing_is_begun() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let good = "[\"env\"]";
    let unknown = "[\"sh\", \"-c\", \"echo 'ssh: Could not resolve hostname ns1.invalid' >&2; exit 255\"]";
    let said = lab.refused(&(server(unknown) + &player(good)), 1);
    assert!(said.contains("ns1") && said.contains("Could not resolve hostname ns1.invalid"), "{said}");
    let away = "[\"sh\", \"-c\", \"echo 'ssh: connect to host p1 port 22: No route to host' >&2; exit 255\"]";
    let said = lab.refused(&(server(good) + &player(away)), 1);
    assert!(said.contains("p1 cannot be reached") && said.contains("No route to host"), "{said}");
    let said = lab.refused(&(server("[\"kqps-no-such-program\"]") + &player(good)), 1);
    assert!(said.contains("ns1") && said.contains("kqps-no-such-program"), "{said}");
    let both = lab.refused(&(server(unknown) + &player(away)), 1);
    assert!(
        both.contains("ns1.invalid") && both.contains("p1 cannot be reached"),
        "each has a sentence: {both}"
    );
    let no_core = player(good) + "cores = \"8000\"\n";
    let said = lab.refused(&(server(good) + &no_core), 1);
    assert!(said.contains("p1: the hosts' file allows core 8000"), "{said}");
}

#[test]
fn a_folder_that_is_taken_is_found_before_any_host_is_asked() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    std::fs::create_dir(lab.out()).unwrap();
    std::fs::write(lab.out().join("study.toml"), "mine").unwrap();
    let asked = lab.folder.path().join("asked");
    let reach = format!("[\"sh\", \"-c\", \"touch '{}'; exit 255\"]", asked.display());
    for more in [&[][..], &["--push"]] {
        let hosts = lab.file(&(server(&reach) + &player(&reach))).display().to_string();
        let output = lab.study(&[&["--hosts", &hosts][..], more].concat()).output().unwrap();
        let said = text_of(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no run wrote it") && !asked.exists(), "{said}");
    }
}

#[test]
fn what_the_hosts_file_names_and_a_host_lacks_is_refused() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let good = "[\"env\"]";
    let said = lab.refused(&(server(good) + "device = \"none0\"\n" + &player(good)), 1);
    assert!(said.contains("ns1: this host has no interface `none0`"), "{said}");
    let sources = player(good) + "sources = \"192.0.2.64/28\"\n";
    let said = lab.refused(&(server(good) + &sources), 1);
    assert!(said.contains("p1: this host cannot send from 192.0.2.65 ("), "{said}");
}

#[test]
fn a_wrong_hosts_file_is_one_clear_error() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let good = "[\"env\"]";
    let said = lab.refused(&server(good), 2);
    assert!(said.contains("hosts.toml:") && said.contains("[[player]]"), "{said}");
    let said = lab.refused(&(server(good) + &player(good)).replace("reach", "raech"), 2);
    assert!(said.contains("hosts.toml:3:") && said.contains("did you mean `reach`?"), "{said}");
    let said = lab.refused("[server\n", 2);
    assert!(said.contains("hosts.toml:1:"), "{said}");
    let none = lab.study(&["--hosts", "./no-such-hosts.toml"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2), "{}", text_of(&none));
    assert!(text_of(&none).contains("cannot read ./no-such-hosts.toml"), "{}", text_of(&none));
}

#[test]
fn flags_that_need_hosts_or_exclude_them_are_refused() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::new();
    let hosts = lab.hosts().display().to_string();
    let push = lab.study(&["--push"]).output().unwrap();
    assert_eq!(push.status.code(), Some(2), "{}", text_of(&push));
    assert!(text_of(&push).contains("name them with --hosts FILE"), "{}", text_of(&push));
    for more in [&["--target", "127.0.0.1:53", "-d", "queries"][..], &["--resume"]] {
        let output = lab.kqps(&[&["run", "--hosts", &hosts][..], more].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", text_of(&output));
        assert!(text_of(&output).contains("cannot be used with"), "{more:?}: {}", text_of(&output));
    }
}
