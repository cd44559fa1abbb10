//! Scale: 200 players that send nothing, each with a clock of its own, under one controller. They start within the skew
//! that is stated, 200 records with full histograms are merged in time, and the controller stays small.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use kqps_host::ledger::across;
use kqps_kernel::namespace;
use kqps_observation::accounts::Accounts;
use kqps_observation::histogram::LONGEST_US;
use kqps_observation::merge::{Part, merge};
use kqps_observation::{Histogram, Run, StartFacts, Trial};
use kqps_skips::{Capability, skip};

use super::super::{Bench, Size, kept_trials};
use super::check::offset_error_ns;
use super::network::{ip, quiet_network};
use crate::child::{Running, status_kib};

/// Duration of the recorded trial, and of each that is played.
const TRIAL: &str = "500ms";
const TRIAL_S: f64 = 0.5;

/// The longest time for reading and merging the records of all players.
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
repetitions = {repetitions}
load = { rates_qps = [200000], seconds = {seconds} }

[[experiment]]
name = "echo"
title = "Players"
[experiment.factors]
io = ["mmsg"]
"#;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let agent = match agent(bench) {
        Ok(agent) => agent,
        Err(reason) if bench.size == Size::Small => {
            skip(Capability::Programs, format_args!("{reason:#}"));
            return Ok(());
        }
        Err(reason) => return Err(reason),
    };
    let players = bench.choose(40, 200);
    let folder = bench.folder.path().canonicalize()?.join("scale");
    fs::create_dir_all(folder.join("starts"))?;
    let record = record(bench)?;
    fs::write(folder.join("record.json"), serde_json::to_string(&record)?)?;
    let took = merged(&record, players)?;
    // The small form runs beside other tests, and its time says nothing.
    ensure!(
        bench.size == Size::Small || took < MERGE_WITHIN,
        "reading and merging {players} records took {:.2} s",
        took.as_secs_f64()
    );
    let (run, memory_kib) = play(bench, &agent, &folder, players)?;
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

/// The address of the server, from the benchmarking network (RFC 2544, appendix C.2.2).
const SERVER: &str = "198.18.0.1";

fn address(player: usize) -> String {
    format!("198.18.1.{}", player + 1)
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

/// Reads as many copies of a record as come from players, and merges them. Returns how long that took.
fn merged(record: &Trial, players: usize) -> Result<Duration> {
    let line = serde_json::to_string(record)?;
    let (lines, bytes) = (vec![line.as_str(); players], line.len());
    let part = |(player, line): (usize, &str)| -> Result<Part> {
        let start = StartFacts { late_ns: 0, offset_ns: 0, uncertainty_ns: 1_000 };
        Ok(Part { host: name(player), trial: serde_json::from_str(line)?, start })
    };
    let began = Instant::now();
    let parts = lines.into_iter().enumerate().map(part).collect::<Result<Vec<Part>>>()?;
    let trial = merge(parts, None, across)?;
    let took = began.elapsed();
    ensure!(
        trial.accounts.correct == players as u64 * record.accounts.correct,
        "{} records of {} queries were merged to {}",
        players,
        record.accounts.correct,
        trial.accounts.correct
    );
    eprintln!(
        "{players} records of {:.0} kB each were read and merged in {:.3} s",
        bytes as f64 / 1e3,
        took.as_secs_f64()
    );
    Ok(took)
}

/// Plays a study with silent players. Returns the run, and the most memory that the controller had, KiB.
fn play(bench: &Bench, agent: &Path, folder: &Path, players: usize) -> Result<(Run, u64)> {
    let network = quiet_network()?;
    let addresses = folder.join("addresses");
    let line = |address: &String| format!("address add {address}/32 dev lo\n");
    let all: Vec<String> = [SERVER.to_owned()].into_iter().chain((0..players).map(address)).collect();
    fs::write(&addresses, all.iter().map(line).collect::<String>())?;
    ip(&network, &["-batch", &addresses.display().to_string()])?;
    let study =
        STUDY.replace("{repetitions}", bench.choose("1", "2")).replace("{seconds}", &format!("{TRIAL_S:.1}"));
    fs::write(folder.join("scale.toml"), study)?;
    fs::write(folder.join("hosts.toml"), hosts(bench, agent, players))?;
    let out = folder.join("run");
    let mut command = std::process::Command::new(&bench.kqps.program);
    command.args(["run", "--seed", "7", "--records", "200", "--hosts"]).arg(folder.join("hosts.toml"));
    command.arg("--out").arg(&out).arg(folder.join("scale.toml")).current_dir(folder);
    command.env("HOME", folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("KQPS_PROOF_FOLDER", folder).env("KQPS_PROOF_PROGRAM", &bench.kqps.program);
    let running = Running::start(namespace::enter(&mut command, &network)?)?;
    let (end, mut most_kib) = (Instant::now() + RUN_WITHIN, 0);
    while !running.has_ended()? {
        most_kib = most_kib.max(status_kib(running.pid(), "VmHWM").unwrap_or_default());
        ensure!(Instant::now() < end, "the run hangs");
        std::thread::sleep(LOOK);
    }
    let ended = running.wait(RUN_WITHIN)?;
    ensure!(matches!(ended.code, Some(0 | 3)), "the run ended with {:?}", ended.code);
    ensure!(most_kib > 0, "the memory of the controller cannot be read");
    Ok((kept_trials::survived(&out, None)?, most_kib))
}

/// The silent agent, built beside the program. An error if there is none, or if it is older than what it is built of.
/// The program itself may be newer: it is no part of the agent.
fn agent(bench: &Bench) -> Result<PathBuf> {
    const BUILD: &str =
        "build it: cargo build --package kqps-proofs --example agent, with --release for a release build";
    let agent = bench.kqps.program.with_file_name("examples/agent");
    let built = fs::metadata(&agent).and_then(|facts| facts.modified());
    let built = built.with_context(|| format!("there is no agent {}; {BUILD}", agent.display()))?;
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for part in ["proofs/examples", "hosts/src", "host/src", "kernel/src", "lab/src", "observation/src"] {
        if let Some(newer) = newer_than(built, &crates.join(part))? {
            bail!("{} is older than {}; {BUILD}", agent.display(), newer.display());
        }
    }
    Ok(agent)
}

/// A source below a folder that was changed after this time; `None` if there is none, or no such folder.
fn newer_than(time: SystemTime, folder: &Path) -> Result<Option<PathBuf>> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::metadata(&path)?.modified()? > time {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

fn hosts(bench: &Bench, agent: &Path, players: usize) -> String {
    let mut text = format!(
        "[server]\nname = \"server\"\nreach = \"env\"\nkqps = \"{}\"\ndata = \"{SERVER}\"\n",
        bench.kqps.program.display()
    );
    for player in 0..players {
        let (name, ahead) = (name(player), ahead_s(player));
        let _ = write!(
            text,
            "\n[[player]]\nname = \"{name}\"\nreach = \"env KQPS_PROOF_HOST={name} unshare --time --monotonic={ahead} \
             --boottime={ahead} --fork --kill-child\"\nkqps = \"{}\"\ndata = \"{}\"\n",
            agent.display(),
            address(player)
        );
    }
    text
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
            offset_error_ns(&part.host, truth_ns, part.start.offset_ns, part.start.uncertainty_ns)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_was_changed_later_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let source = inner.join("source.rs");
        fs::write(&source, "").unwrap();
        let changed = fs::metadata(&source).unwrap().modified().unwrap();
        let found = |time| newer_than(time, folder.path()).unwrap();
        assert_eq!(found(changed), None);
        assert_eq!(found(changed - Duration::from_secs(1)), Some(source.clone()));
        assert_eq!(newer_than(changed, &folder.path().join("none")).unwrap(), None);
    }
}
