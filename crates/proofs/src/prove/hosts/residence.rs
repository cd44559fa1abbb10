//! Residence: a server holds each query for a known time, and a slow wire lies between it and the players. The time in the
//! server's host is that of the server alone, and the players' latency has both. Every query that a player sent is
//! stamped once, with its reply.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::{namespace, probe};
use kqps_observation::run::Purpose;
use kqps_observation::{Histogram, Quantiles, Run, Trial};
use kqps_programs::shell;
use kqps_skips::{Capability, skip};
use kqps_verdict::judge::judge;

use super::super::{Bench, Size};
use super::lab::Lab;
use super::network::ip;
use super::subject::planted;
use super::{leftovers, study};
use crate::child::Running;

const DISK: &str = "64m";

const WIRE: &str = include_str!("residence/wire.py");
const SLOW: &str = include_str!("residence/slow.py");

/// The ends of the link between the wire and the switch.
const NEAR: &str = "wire0";
const FAR: &str = "wire1";

const STUDY: &str = r#"
name = "residence"
title = "Time in the server's host"
question = "Is it the server's own time, wherever the players are?"
repetitions = 1
load = { closed_s = 0.5 }
fixed = { "player.timeout_s" = 0.5, "player.window" = 32 }

[[experiment]]
name = "slow"
title = "A server that holds each query"
subjects = ["./slow.toml"]
"#;

/// How long the server holds a query, and each of a packet's two ways over the wire, milliseconds.
#[derive(Clone, Copy, Debug)]
struct Delays {
    server_ms: u64,
    way_ms: u64,
}

/// Quantiles that one run measured, microseconds.
#[derive(Clone, Copy, Debug)]
struct Measured {
    residence: Quantiles,
    latency: Quantiles,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Err(reason) = probe::probe_one("packet-stamps") {
        skip(Capability::RawSockets, format!("packets cannot be stamped: {reason}"));
        return Ok(());
    }
    shell::find("python3").context("there is no python3")?;
    let lab = Lab::new(bench, DISK)?;
    let before = leftovers::settings(&lab)?;
    cut(&lab)?;
    // A closed loop over a way without delay is faster than programs in Python.
    let least = Delays { server_ms: 2, way_ms: 3 };
    let slow = Delays { server_ms: 7, way_ms: 18 };
    if bench.size == Size::Small {
        return played(bench, &lab, slow).map(drop);
    }
    let base = played(bench, &lab, least)?;
    for (what, delays) in [
        ("the server's delay", Delays { server_ms: slow.server_ms, ..least }),
        ("the wire's", Delays { way_ms: slow.way_ms, ..least }),
        ("both", slow),
    ] {
        let delayed = played(bench, &lab, delays)?;
        let moved = |of: fn(&Measured) -> Quantiles| -> Result<f64> {
            let (from, to) = (of(&base).p50.context("no median")?, of(&delayed).p50.context("no median")?);
            Ok((to as f64 - from as f64) / 1e3)
        };
        let (inside_ms, all_ms) = (moved(|one| one.residence)?, moved(|one| one.latency)?);
        let (server_ms, way_ms) = (delays.server_ms - least.server_ms, delays.way_ms - least.way_ms);
        let wanted = (server_ms as f64, (server_ms + 2 * way_ms) as f64);
        eprintln!(
            "{what}: residence moved by {inside_ms:.1} ms, latency by {all_ms:.1} ms; made were {wanted:?}"
        );
        let is_near = |moved_ms: f64, wanted_ms: f64| (moved_ms - wanted_ms).abs() <= TOLERANCE_MS;
        ensure!(
            is_near(inside_ms, wanted.0) && is_near(all_ms, wanted.1),
            "{what} moved residence by {inside_ms:.1} ms and latency by {all_ms:.1} ms, and not by {wanted:?}"
        );
    }
    leftovers::nowhere(&lab, &before, leftovers::AFTER_END).map(drop)
}

/// Programs in Python on a busy machine are late by about this much, milliseconds.
const TOLERANCE_MS: f64 = 3.0;

/// A player that a busy machine makes late voids its trial. Then the run is made again.
const RUNS_MOST: u32 = 3;

/// Takes the server's port off the switch, and gives the switch the far end of a link instead.
fn cut(lab: &Lab) -> Result<()> {
    let at = lab.data.namespace();
    let port = lab.server().data_port.name();
    let bridge = ["link", "set", port, "nomaster"];
    ip(at, &bridge)?;
    ip(at, &["link", "add", "name", NEAR, "type", "veth", "peer", "name", FAR])?;
    ip(at, &["link", "set", NEAR, "up"])?;
    lab.data.join(FAR)
}

/// Plays the study with these delays, and checks what does not depend on how busy the machine is.
fn played(bench: &Bench, lab: &Lab, delays: Delays) -> Result<Measured> {
    let Delays { server_ms, way_ms } = delays;
    let write = |name: &str, text: &str| -> Result<_> {
        let path = lab.home.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    let (wire, script) = (write("wire.py", WIRE)?, write("slow.py", SLOW)?);
    let (script, held) = (script.display().to_string(), server_ms.to_string());
    let command = ["python3", &script, "{address}", "{port}", &held];
    write("slow.toml", &planted("slow", "blocking", &command))?;
    let file = write("residence.toml", STUDY)?;
    let mut between = Command::new("python3");
    between.arg(wire).args([lab.server().data_port.name(), NEAR, &way_ms.to_string()]);
    namespace::enter(&mut between, lab.data.namespace())?;
    let mut between = Running::start(&mut between)?;
    ensure!(between.line()?.trim() == "up", "the slow wire did not begin");

    let (name, program) = ("residence-hosts.toml", &bench.kqps.program);
    let hosts = study::write_hosts(bench, lab, name, program, |host| lab.ssh(&host.name))?;
    for attempt in 1..=RUNS_MOST {
        let out = lab.home.join(format!("residence-{server_ms}-{way_ms}-{attempt}"));
        let run = study::play(study::command(bench, lab, &file, &hosts, &out)?, &out)?.run;
        let stamped = run.trials.iter().filter(|one| one.purpose == Purpose::Residence);
        let stamped: Vec<&Trial> = stamped.filter_map(|one| one.measured()).collect();
        if let [trial] = stamped[..] {
            return check(&run, trial, delays).with_context(|| format!("{delays:?}"));
        }
        eprintln!("{delays:?}: a busy machine left no trial to stamp: {}", trials(&run));
    }
    bail!("{delays:?}: no trial was stamped in {RUNS_MOST} runs")
}

/// The trials of a run in a few words.
fn trials(run: &Run) -> String {
    let each = run.trials.iter().map(|one| match one.measured() {
        Some(trial) => format!("{:?} {:?}", one.purpose, trial.accounts),
        None => format!("{:?}: {}", one.purpose, one.failure().unwrap_or_default()),
    });
    each.collect::<Vec<String>>().join("; ")
}

/// Checks a stamped trial, and what its run shows of it.
fn check(run: &Run, trial: &Trial, delays: Delays) -> Result<Measured> {
    let facts = trial.residence.as_ref().context("the trial has no residence")?;
    ensure!(facts.contradiction().is_none() && facts.dropped == 0 && facts.one_in == 1, "{facts:?}");
    let (sent, answered) = (trial.accounts.sent, trial.accounts.correct + trial.accounts.late);
    ensure!(sent > 0 && facts.queries == sent, "players sent {sent} queries: {facts:?}");
    ensure!(facts.pairs == facts.queries, "the server answered all: {facts:?}");
    ensure!(answered <= facts.pairs, "{answered} replies came back: {facts:?}");
    let held = Histogram::decode(&facts.histogram).context("the histogram cannot be read")?;
    ensure!(held.len() == facts.pairs, "{} residences of {} pairs", held.len(), facts.pairs);
    let (residence, latency) = (facts.residence_us, trial.latency_us);
    let least_us = delays.server_ms * 1_000;
    ensure!(residence.min.is_some_and(|us| us >= least_us), "a query was held for less: {residence:?}");
    let way_us = 2 * delays.way_ms * 1_000;
    ensure!(latency.min.is_some_and(|us| us >= least_us + way_us), "a reply came too soon: {latency:?}");
    let verdict = judge(run);
    let shown = verdict.subjects.iter().find_map(|subject| subject.residence.clone());
    let shown = shown.context("the verdict has no residence")?;
    ensure!(shown.failure.is_none() && shown.doubt.is_none(), "{shown:?}");
    ensure!((shown.residence_us, shown.latency_us) == (residence, latency), "{shown:?}");
    ensure!(
        residence.p50.zip(latency.p50).is_some_and(|(inside, all)| inside + way_us <= all),
        "the median residence {residence:?} has a part of the way, of {latency:?}"
    );
    eprintln!(
        "{delays:?}: {} queries, each stamped once with its reply; median residence {:.2} ms of {:.2} ms",
        facts.pairs,
        residence.p50.unwrap_or_default() as f64 / 1e3,
        latency.p50.unwrap_or_default() as f64 / 1e3
    );
    Ok(Measured { residence, latency })
}
