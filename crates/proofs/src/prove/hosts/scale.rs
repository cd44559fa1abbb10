//! Scale: 200 players that send nothing, each with a clock of its own, under one controller. They start within the skew
//! that is stated, 200 records with full histograms are merged in time, and the controller stays small.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_hosts::merge::{Part, merge};
use kqps_kernel::namespace;
use kqps_observation::accounts::Accounts;
use kqps_observation::histogram::LONGEST_US;
use kqps_observation::{Histogram, Run, StartFacts, Trial};

use super::super::{Bench, kept};
use super::network::{ip, quiet_network};
use crate::child::Running;

/// Duration of the recorded trial, and of each that is played.
const TRIAL: &str = "500ms";
const TRIAL_S: f64 = 0.5;

/// The longest time for merging the records of all players.
const MERGE_WITHIN: Duration = Duration::from_secs(2);

/// The most memory of the controller, KiB.
const MEMORY_MOST_KIB: u64 = 200_000;

/// How long the run may take.
const RUN_WITHIN: Duration = Duration::from_mins(15);
const LOOK: Duration = Duration::from_millis(20);

/// A start belongs to the trial that began at most this long before or after it, nanoseconds.
const SAME_TRIAL_NS: i64 = 250_000_000;

const STUDY: &str = r#"
name = "scale"
title = "Many players"
question = "Does one controller hold many players?"
repetitions = 2
load = { rates_qps = [200000], seconds = {seconds} }

[[experiment]]
name = "echo"
title = "Players"
[experiment.factors]
io = ["mmsg"]
"#;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let players = bench.choose(40, 200);
    let folder = bench.folder.path().canonicalize()?.join("scale");
    fs::create_dir_all(folder.join("starts"))?;
    let record = record(bench)?;
    fs::write(folder.join("record.json"), serde_json::to_string(&record)?)?;
    merged(&record, players)?;
    let (run, memory_kib) = play(bench, &folder, players)?;
    ensure!(memory_kib <= MEMORY_MOST_KIB, "the controller took {memory_kib} KiB");
    let skews = starts(&run, &folder, players)?;
    eprintln!(
        "{players} players with clocks of their own: {} trials; starts were {:.0} µs apart at most, and {:.0} µs were \
         stated; the controller took {:.0} MB",
        skews.len(),
        skews.iter().map(|(true_us, _)| *true_us).fold(0.0, f64::max),
        skews.iter().map(|(_, stated_us)| *stated_us).fold(0.0, f64::max),
        memory_kib as f64 / 1e3
    );
    Ok(())
}

/// How far the clock of a player is ahead, seconds.
fn ahead_s(player: usize) -> i64 {
    let step = 1_000 * player as i64;
    // Every third clock is behind, and by less than any machine has been up.
    if player.is_multiple_of(3) { -(player as i64 % 5) } else { step }
}

fn name(player: usize) -> String {
    format!("p{player}")
}

/// A real record, with histograms that have a sample in every bucket.
fn record(bench: &Bench) -> Result<Trial> {
    let (_echo, address) = bench.kqps.echo("mmsg")?;
    let queries = bench.queries(1_000)?;
    let mut trial = bench.kqps.trial(address, &queries, &["-Q", "1k", "-l", TRIAL, "--check", "off"])?;
    let mut full = Histogram::default();
    let mut time_us = 1;
    while time_us <= LONGEST_US {
        full.record_us(time_us);
        // Three significant digits: no bucket is wider than a thousandth.
        time_us += (time_us / 1_000).max(1);
    }
    for text in trial.histograms.values_mut() {
        *text = full.encode();
    }
    let count = full.len();
    trial.accounts = Accounts { intended: count, sent: count, correct: count, ..Accounts::default() };
    trial.response_rcodes = [("NOERROR".to_owned(), count)].into();
    for causes in [
        &mut trial.unsent_causes,
        &mut trial.wrong_causes,
        &mut trial.send_failed_causes,
        &mut trial.wrong_rcodes,
        &mut trial.lost_causes,
        &mut trial.lost_expected,
    ] {
        causes.clear();
    }
    Ok(trial)
}

/// Merges as many copies of a record.
fn merged(record: &Trial, players: usize) -> Result<()> {
    let part = |player: usize| Part {
        host: name(player),
        trial: record.clone(),
        start: StartFacts { late_ns: 0, offset_ns: 0, uncertainty_ns: 1_000 },
    };
    let parts: Vec<Part> = (0..players).map(part).collect();
    let bytes = serde_json::to_string(record)?.len();
    let began = Instant::now();
    let trial = merge(parts, None)?;
    let took = began.elapsed();
    ensure!(
        trial.accounts.correct == players as u64 * record.accounts.correct,
        "{} records of {} queries were merged to {}",
        players,
        record.accounts.correct,
        trial.accounts.correct
    );
    ensure!(took < MERGE_WITHIN, "merging {players} records took {:.2} s", took.as_secs_f64());
    eprintln!(
        "{players} records of {:.0} kB each were merged in {:.3} s",
        bytes as f64 / 1e3,
        took.as_secs_f64()
    );
    Ok(())
}

/// Plays a study with silent players. Returns the run, and the most memory that the controller had, KiB.
fn play(bench: &Bench, folder: &Path, players: usize) -> Result<(Run, u64)> {
    let network = quiet_network()?;
    // Every address of the network for benchmarks is here.
    ip(&network, &["address", "add", "198.18.0.1/15", "dev", "lo"])?;
    let agent = agent(bench)?;
    fs::write(folder.join("scale.toml"), STUDY.replace("{seconds}", &format!("{TRIAL_S:.1}")))?;
    fs::write(folder.join("hosts.toml"), hosts(bench, &agent, players))?;
    let out = folder.join("run");
    let mut command = std::process::Command::new(&bench.kqps.program);
    command.args(["run", "--seed", "7", "--records", "200", "--hosts"]).arg(folder.join("hosts.toml"));
    command.arg("--out").arg(&out).arg(folder.join("scale.toml")).current_dir(folder);
    command.env("HOME", folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("KQPS_PROOF_FOLDER", folder).env("KQPS_PROOF_PROGRAM", &bench.kqps.program);
    let running = Running::start(namespace::enter(&mut command, &network)?)?;
    let (end, mut most_kib) = (Instant::now() + RUN_WITHIN, 0);
    while !running.has_ended()? {
        most_kib = most_kib.max(peak_kib(running.pid()).unwrap_or_default());
        ensure!(Instant::now() < end, "the run hangs");
        std::thread::sleep(LOOK);
    }
    let ended = running.wait(RUN_WITHIN)?;
    ensure!(matches!(ended.code, Some(0 | 3)), "the run ended with {:?}", ended.code);
    ensure!(most_kib > 0, "the memory of the controller cannot be read");
    Ok((kept::survived(&out, None)?, most_kib))
}

/// The silent agent, built beside the program.
fn agent(bench: &Bench) -> Result<PathBuf> {
    let agent = bench.kqps.program.with_file_name("examples/agent");
    ensure!(
        agent.is_file(),
        "build it first: cargo build --package kqps-proofs --example agent, with --release for a release build"
    );
    Ok(agent)
}

fn hosts(bench: &Bench, agent: &Path, players: usize) -> String {
    let mut text = format!(
        "[server]\nname = \"server\"\nreach = \"env\"\nkqps = \"{}\"\ndata = \"198.18.0.1\"\n",
        bench.kqps.program.display()
    );
    for player in 0..players {
        let (name, ahead) = (name(player), ahead_s(player));
        let _ = write!(
            text,
            "\n[[player]]\nname = \"{name}\"\nreach = \"env KQPS_PROOF_HOST={name} unshare --time --monotonic={ahead} \
             --boottime={ahead} --fork --kill-child\"\nkqps = \"{}\"\ndata = \"198.18.1.{}\"\n",
            agent.display(),
            player + 1
        );
    }
    text
}

/// The most memory that a process had so far, KiB (`VmHWM`, proc(5)).
fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Checks every trial's offsets and skew with what the players noted. Returns the true and the stated skew of each,
/// microseconds.
fn starts(run: &Run, folder: &Path, players: usize) -> Result<Vec<(f64, f64)>> {
    let truth: BTreeMap<String, i64> =
        (0..players).map(|one| (name(one), ahead_s(one) * 1_000_000_000)).collect();
    let noted = (0..players).map(|one| noted(folder, one)).collect::<Result<Vec<_>>>()?;
    let mut skews = Vec::new();
    for trial in run.trials.iter().filter_map(|one| one.measured()) {
        ensure!(trial.parts.len() == players, "a trial has {} parts", trial.parts.len());
        for part in &trial.parts {
            let truth_ns =
                *truth.get(&part.host).with_context(|| format!("no player is called {}", part.host))?;
            let error_ns = part.start.offset_ns.abs_diff(truth_ns);
            ensure!(
                error_ns <= part.start.uncertainty_ns,
                "the clock of {} is {error_ns} ns off, which is more than {} ns",
                part.host,
                part.start.uncertainty_ns
            );
        }
        let began_ns = trial.started_monotonic_ns as i64 - truth[&trial.parts[0].host];
        let all: Vec<i64> = noted
            .iter()
            .filter_map(|starts| starts.iter().copied().min_by_key(|start| (start - began_ns).abs()))
            .filter(|start| (start - began_ns).abs() < SAME_TRIAL_NS)
            .collect();
        ensure!(all.len() == players, "{} of {players} players noted the start of a trial", all.len());
        let apart_ns = all.iter().max().zip(all.iter().min()).map_or(0, |(last, first)| last - first);
        let stated_us = trial.start_skew_us.context("no skew is stated")?;
        let apart_us = apart_ns as f64 / 1e3;
        ensure!(
            apart_us <= stated_us + 1.0,
            "starts were {apart_us:.1} µs apart, and {stated_us:.1} µs are stated"
        );
        skews.push((apart_us, stated_us));
    }
    ensure!(!skews.is_empty(), "no trial was measured");
    Ok(skews)
}

/// When a player began its trials, nanoseconds on the controller's clock.
fn noted(folder: &Path, player: usize) -> Result<Vec<i64>> {
    let name = name(player);
    let text = fs::read_to_string(folder.join("starts").join(&name)).with_context(|| name.clone())?;
    let began = |line: &str| -> Option<i64> { line.split_once(' ')?.1.parse().ok() };
    let starts: Option<Vec<i64>> = text.lines().map(began).collect();
    let ahead_ns = ahead_s(player) * 1_000_000_000;
    let starts = starts.with_context(|| format!("{name} noted what is no start"))?;
    Ok(starts.into_iter().map(|began_ns| began_ns - ahead_ns).collect())
}
