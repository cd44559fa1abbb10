//! A player with a small part of a core would measure itself. It must say so and give no rate.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Bench;
use super::quota::Quota;
use super::work::spinner;
use crate::child::{Running, pinned};
use crate::program::{Played, Program, finish};

/// The player's share of a core.
const SHARE: f64 = 0.05;

/// The niceness that leaves the player about that share beside one busy thread (weights 56 and 1024,
/// sched(7)). Unlike a control group, it takes no privilege.
const NICENESS: &str = "13";

/// The longest time from the end of a trial's output to the end of its process.
const END_WITHIN: Duration = Duration::from_mins(5);

/// Plays at a rate that a player with a whole core would reach easily.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (_echo, address) = bench.kqps.echo("mmsg")?;
    // Few names, since reading them takes CPU time too.
    let file = bench.queries(5_000)?;
    let length = bench.choose("2s", "10s");
    let (played, words) = match Quota::new(SHARE) {
        Ok(quota) => {
            eprintln!("starved by a control group");
            play(|| quota.command(&bench.kqps.program), &bench.kqps, address, &file, length)?
        }
        Err(reason) => {
            eprintln!("starved by a busy thread beside it, since there is no control group: {reason:#}");
            let spinner = spinner(("the spinner", "spinner"), bench.kqps.player_cpu)?;
            let command = || {
                let mut command = pinned(&bench.kqps.player_cpu.to_string(), "nice");
                command.args(["-n", NICENESS]).arg(&bench.kqps.program);
                command
            };
            let played = play(command, &bench.kqps, address, &file, length);
            spinner.stop()?;
            played?
        }
    };
    let trial = played.trial.context("kqps load printed no record")?;
    trial.accounts.check()?;
    eprintln!(
        "starved: {:.2} s of CPU in {:.1} s, warnings {:?}, status {:?}",
        trial.players.first.cpu_s, trial.load.duration_s, played.warnings, played.code
    );
    if !played.warnings.iter().any(|code| code == "player-limited") {
        bail!("a starved player is not called player-limited, but: {:?}", played.warnings);
    }
    if played.code != Some(0) {
        bail!("a load that ran ends with 0, and this one ended with {:?}", played.code);
    }
    match words.lines().find(|line| line.contains("Capacity:")) {
        Some(line) if line.contains("cannot show one (player-limited") => Ok(()),
        line => {
            bail!("beside a starved player's rate it is to say what it cannot show: {line:?} in\n{words}")
        }
    }
}

/// Plays one trial for its record and another for its words, with commands that start kqps starved.
fn play(
    command: impl Fn() -> Command,
    kqps: &Program,
    target: SocketAddr,
    file: &Path,
    length: &str,
) -> Result<(Played, String)> {
    let start = |form: &[&str]| {
        let mut command = command();
        command
            .args(["load", &target.to_string(), "--cpus", &kqps.player_cpu.to_string(), "--queries"])
            .arg(file);
        Running::start(command.args(["-Q", "100k", "-l", length]).args(form))
    };
    let played = finish(start(&["--json"])?)?;
    Ok((played, start(&[])?.wait(END_WITHIN)?.output))
}
