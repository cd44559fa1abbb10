//! Classes of clients in one load: each has the fates that the server gave it and no other's, the player plays two classes
//! as well as one, good clients are played in time beside an attack, or the record says that the player was the limit, the
//! silence of a class is as long as the server stood still for it, and the breaking point of good clients is known. What
//! attackers did is what a server counted of it, events are done when the answers say so, and a reload of a real server
//! loses what a relay saw lost.

mod attackers;
mod breaking;
mod events;
mod reload;
mod serials;
mod standstill;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_observation::Trial;
use kqps_observation::trial::ClassTrial;

use super::patience::{ATTEMPTS, until_proved};
use super::stand_in::StandIn;
use super::{Bench, Part};
use crate::program::{Expected, Played, write_queries};

const PARTS: [Part; 8] = [
    ("apart", apart),
    ("together", together),
    ("attack", attack),
    ("breaking", breaking::prove),
    ("standstill", standstill::prove),
    ("attackers", attackers::prove),
    ("events", events::prove),
    ("reload", reload::prove),
];

/// The least rate of two classes, as a share of that of one.
const RATE_LEAST: f64 = 0.97;

/// The greatest CPU time of a query of two classes, as a multiple of that of one.
const CPU_MOST: f64 = 1.05;

/// The least share of the good clients' queries that leave in time.
const IN_TIME_LEAST: f64 = 0.999;

/// The name whose queries are dropped, and its first label as a query has it (RFC 1035, section 3.1).
const NAMED: &str = "dropped.example.test.";
const LABEL: &[u8] = b"\x07dropped";

/// Where a name begins in a query.
const NAME_AT: usize = 12;

/// The server drops one in so many of them.
const ONE_IN: u64 = 10;

/// Warnings that the player was the limit.
const OF_THE_PLAYER: [&str; 2] = ["lagging", "player-limited"];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}

/// The record of a load of the good clients with a scenario of these keys beside it.
fn played(bench: &Bench, target: SocketAddr, load: (&[&str], &str)) -> Result<Trial> {
    loaded(bench, target, load)?.measured()
}

fn loaded(bench: &Bench, target: SocketAddr, (good, class): (&[&str], &str)) -> Result<Played> {
    let file = bench.folder.path().join("scenario.toml");
    fs::write(&file, format!("[[class]]\nname = \"other\"\ncheck = \"off\"\n{class}\n"))?;
    let flags = [good, &["--scenario", file.to_str().context("a path in UTF-8")?]].concat();
    bench.kqps.load(target, &queries(bench)?, &flags)
}

/// Queries of the good clients, none of which the server drops.
fn queries(bench: &Bench) -> Result<PathBuf> {
    let path = bench.folder.path().join("good.queries");
    if !path.exists() {
        write_queries(&path, 10_000, Expected::Nothing)?;
    }
    Ok(path)
}

/// The two classes of a trial.
fn two(trial: &Trial) -> Result<(&Trial, &Trial)> {
    match &trial.classes[..] {
        [ClassTrial { trial: good, .. }, ClassTrial { trial: other, .. }] => Ok((good, other)),
        classes => bail!("{} classes", classes.len()),
    }
}

/// The rule of a server that drops each tenth query for one name.
fn drops_named() -> impl FnMut(&[u8]) -> bool {
    let mut named = 0_u64;
    move |message| {
        let is_named = message.get(NAME_AT..).is_some_and(|name| name.starts_with(LABEL));
        named += u64::from(is_named);
        !(is_named && named.is_multiple_of(ONE_IN))
    }
}

/// A server that drops each tenth query of the other class alone.
fn apart(bench: &Bench) -> Result<()> {
    let (queries, rate) = bench.choose((20_000, "5k"), (10_000_000, "40k"));
    let seconds = format!("{}s", queries / bench.choose(5_000, 40_000));
    let (sent, lost) = until_proved(ATTEMPTS, |_| {
        let server = StandIn::start(bench.kqps.subject_cpu, drops_named())?;
        let good = ["-Q", "5k", "-l", &seconds, "-T", "1", "-t", "1s", "--lag", "1m"];
        let trial =
            played(bench, server.address, (&good, &format!("ask = [\"{NAMED} A\"]\nrate = \"{rate}\"")))?;
        let dropped = server.stop()?;
        let (good, other) = two(&trial)?;
        let (lost, all) = (other.accounts.lost, other.accounts.intended);
        let held_up = [good, other].map(|class| class.accounts.late + class.accounts.unsent);
        if lost > dropped || held_up != [0, 0] {
            return Ok(Err(format!("{lost} lost, {dropped} dropped, {held_up:?} late or unsent")));
        }
        ensure!(good.accounts.correct == good.accounts.intended, "good clients lost: {:?}", good.accounts);
        ensure!(all == queries && dropped == queries / ONE_IN, "{dropped} of {all} dropped");
        ensure!(lost == dropped, "{lost} lost, {dropped} dropped");
        Ok(Ok((good.accounts.sent, lost)))
    })?;
    eprintln!("of {queries} queries of one class {lost} were dropped and lost; of {sent} good ones none");
    Ok(())
}

/// Two classes at a rate in all, beside one class at that rate.
fn together(bench: &Bench) -> Result<()> {
    let (half, whole, seconds) = bench.choose(("2k", "4k", "1s"), ("50k", "100k", "10s"));
    let queries = queries(bench)?;
    let (_echo, address) = bench.kqps.echo("mmsg")?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..bench.choose(1, 5) {
        let flags = ["-Q", whole, "-l", seconds, "-T", "2", "-t", "1s"];
        let one = bench.kqps.trial(address, &queries, &flags)?;
        let file = queries.display();
        let class = format!("queries = \"{file}\"\nrate = \"{half}\"");
        let both = played(bench, address, (&["-Q", half, "-l", seconds, "-T", "1", "-t", "1s"], &class))?;
        let cost = |trial: &Trial| {
            let threads = trial.players.iter().flat_map(|player| &player.per_thread);
            threads.map(|thread| thread.cpu_s).sum::<f64>()
        };
        let per_query = |trial: &Trial| cost(trial) / trial.accounts.sent.max(1) as f64;
        rates.push(both.load.answered_qps / one.load.answered_qps);
        costs.push(per_query(&both) / per_query(&one));
    }
    let (rate, cost) = (median(&mut rates), median(&mut costs));
    eprintln!("two classes answer {rate:.3} of the rate of one, at {cost:.3} of its CPU time for a query");
    // A second of a load is soon over, and a process's own start weighs.
    let is_good = rate >= RATE_LEAST && cost <= CPU_MOST;
    ensure!(bench.choose(rate > 0.5, is_good), "rate {rate:.3}, CPU time {cost:.3}");
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Good clients beside an attack from one host.
fn attack(bench: &Bench) -> Result<()> {
    let (good, attack, seconds) = bench.choose(("1k", "20k", "1s"), ("10k", "500k", "10s"));
    let (_echo, address) = bench.kqps.echo("mmsg")?;
    let class = format!("ask = [\"{NAMED} A\"]\nrate = \"{attack}\"");
    let loaded = loaded(bench, address, (&["-Q", good, "-l", seconds, "-T", "1", "-t", "250ms"], &class))?;
    let is_said = loaded.warnings.iter().any(|code| OF_THE_PLAYER.contains(&code.as_str()));
    let played = loaded.measured()?;
    let (good, other) = two(&played)?;
    let in_time = good.accounts.sent as f64 / good.accounts.intended.max(1) as f64;
    eprintln!(
        "{:.3} % of the good queries left in time, beside {} of {} of the attack",
        100.0 * in_time,
        other.accounts.sent,
        other.accounts.intended
    );
    ensure!(in_time >= IN_TIME_LEAST || is_said, "{in_time:.4}, and nothing says so");
    Ok(())
}
