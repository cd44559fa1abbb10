//! The study that every way to reach a host plays: one player, and two, at a server that leaves its counts. Its rate is
//! so low that no packet is lost on the way. Each query is a packet of its own, since a segmented message would pass the
//! counters on the way as one.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::process;
use kqps_observation::Run;
use kqps_programs::shell;

use super::super::{Bench, kept_trials};
use super::host::LabHost;
use super::lab::Lab;
use super::void::{self, VoidQueries};
use super::{check, counted};
use crate::wait::until;

/// How long a run of this study may take.
const RUN_WITHIN: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_millis(20);

const STUDY: &str = r#"
name = "hosts"
title = "One player, and two, each on a host of its own"
question = "Does the server receive what the players send?"
repetitions = {repetitions}
residence = false
load = { rates_qps = [{rate}], seconds = {seconds} }
fixed = { "player.timeout_s" = 0.5, "player.io" = "mmsg" }

[[experiment]]
name = "players"
title = "Players"
subjects = ["./counted.toml"]
[experiment.factors]
"hosts.players" = [1, 2]
"#;

/// The counts that no run over several hosts has.
const NEVER_OVER_HOSTS: &str = "drop reasons";

/// The extent of the study.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) repetitions: u32,
    pub(super) rate_qps: u32,
    pub(super) seconds: f64,
}

impl Extent {
    pub(super) fn from_bench(bench: &Bench) -> Self {
        bench.choose(
            Self { repetitions: 1, rate_qps: 2_000, seconds: 1.0 },
            Self { repetitions: 10, rate_qps: 5_000, seconds: 2.0 },
        )
    }
}

/// Writes the study and its subject into the controller's home. Returns the study's path.
pub(super) fn write(lab: &Lab, extent: Extent) -> Result<PathBuf> {
    let text = STUDY
        .replace("{repetitions}", &extent.repetitions.to_string())
        .replace("{rate}", &extent.rate_qps.to_string())
        .replace("{seconds}", &format!("{:.1}", extent.seconds));
    let file = lab.home.join("hosts-study.toml");
    fs::write(&file, text)?;
    fs::write(lab.home.join("counted.toml"), counted::subject(&counted::file(lab)))?;
    Ok(file)
}

/// Writes a file of hosts, each reached by these words and with this program. Returns its path.
pub(super) fn write_hosts(
    bench: &Bench,
    lab: &Lab,
    name: &str,
    kqps: &Path,
    reach: impl Fn(&LabHost) -> String,
) -> Result<PathBuf> {
    let kqps = kqps.display();
    let mut text = String::new();
    for (number, host) in lab.hosts.iter().enumerate() {
        let (head, core) = match number {
            0 => ("[server]", bench.kqps.subject_cpu),
            _ => ("[[player]]", bench.kqps.player_cpu),
        };
        let _ = write!(
            text,
            "{head}\nname = \"{}\"\nreach = \"{}\"\nkqps = \"{kqps}\"\ndata = \"{}\"\ncores = \"{core}\"\n\
             device = \"{}\"\n\n",
            host.name,
            reach(host),
            host.data,
            super::host::DATA
        );
    }
    let file = lab.home.join(name);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// The controller's command that runs a study over hosts into a folder.
pub(super) fn command(bench: &Bench, lab: &Lab, study: &Path, hosts: &Path, out: &Path) -> Result<Command> {
    let mut command = lab.command(&bench.kqps.program)?;
    command.arg("run").arg(study).arg("--hosts").arg(hosts).arg("--out").arg(out);
    command.args(["--seed", "7", "--records", "200"]);
    Ok(command)
}

/// Plays the study over the hosts of a file or an inventory, by a command that is prepared further, and compares its
/// records with both counts of the server and with the hosts' clocks. Returns the study's path.
pub(super) fn agrees(
    bench: &Bench,
    lab: &Lab,
    (by, hosts): (&str, &Path),
    prepare: impl FnOnce(&mut Command),
) -> Result<PathBuf> {
    counted::begin(&lab.server().network)?;
    let file = write(lab, Extent::from_bench(bench))?;
    let out = lab.home.join(by.replace(' ', "-"));
    let mut command = command(bench, lab, &file, hosts, &out)?;
    prepare(&mut command);
    let Played { run, void } = play(command, &out)?;
    let mut checked = check::run(lab, &run)?;
    ensure!(checked.players == [1, 2].into(), "trials had {:?} players", checked.players);
    counted::compare(lab, &run, &void)?;
    checked.print(by);
    Ok(file)
}

/// A run that was played to its end.
pub(super) struct Played {
    pub(super) run: Run,
    /// The queries of its void trials, which are in no record, by the players' hosts.
    pub(super) void: VoidQueries,
}

/// Runs a command to its end, and returns the run that it left in this folder.
pub(super) fn play(mut command: Command, out: &Path) -> Result<Played> {
    let (status, said) = ended(&mut command)?;
    // Status 3 means that a figure is refused, which a busy host may cause.
    let words = shell::words(&command);
    ensure!(matches!(status.code(), Some(0 | 3)), "{words} ended with {status}: {}", said.trim());
    let run = kept_trials::survived(out, None)?;
    ensure!(run.finished_unix_ms.is_some(), "the run is not marked as finished: {}", said.trim());
    let left_out: Vec<_> = run.skipped.iter().filter(|(what, _)| *what != NEVER_OVER_HOSTS).collect();
    ensure!(left_out.is_empty(), "cells were left out: {left_out:?}");
    Ok(Played { run, void: void::queries(&said)? })
}

/// Runs a command to its end. Returns its status and its standard error. One that hangs is killed, and so is every one
/// if this program dies.
fn ended(command: &mut Command) -> Result<(ExitStatus, String)> {
    let words = shell::words(command);
    let mut said = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
    let mut child = process::tie(command).spawn().with_context(|| format!("cannot start {words}"))?;
    let late = || format!("{words} did not end within {} s", RUN_WITHIN.as_secs());
    let ended = until((RUN_WITHIN, LOOK), || Ok(child.try_wait()?), late);
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    let status = ended?;
    let mut text = Vec::new();
    said.rewind()?;
    said.read_to_end(&mut text)?;
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}
