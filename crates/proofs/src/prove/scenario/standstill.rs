//! Silences: a server stands still for one class alone, over each wire. The longest silence of that class is as long, and
//! that of the other class is short.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kqps_faults::streams::{Kind, Server, ServerSettings, Standstill};

use super::{played, two};
use crate::prove::Bench;
use crate::prove::connections::wire::Wired;
use crate::prove::patience::{ATTEMPTS, until_proved};
use crate::prove::stand_in::StandIn;

/// How long the server stands still.
const STILL: Duration = Duration::from_millis(300);

/// When it does, seconds after the start.
const STILL_AT_S: f64 = 0.4;

/// The greatest deviation of the silence, and of its begin, seconds. Other programs may disturb the small form.
const WITHIN_S: f64 = 0.005;
const SMALL_WITHIN_S: f64 = 0.05;

/// The longest silence of the other class, seconds.
const OTHER_MOST_S: f64 = 0.05;
const SMALL_OTHER_MOST_S: f64 = 0.15;

/// The name whose queries wait, and its first label as a query has it (RFC 1035, section 3.1).
const NAMED: &str = "held.example.test.";
const LABEL: &[u8] = b"\x04held";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    over_udp(bench).context("udp")?;
    Kind::ALL.into_iter().try_for_each(|kind| over(bench, kind).with_context(|| kind.name()))
}

/// The rate of each class, queries a second, and how long it lasts.
fn load(bench: &Bench) -> (u64, &'static str) {
    bench.choose((1_000, "1s"), (5_000, "3s"))
}

fn standstill(bench: &Bench) -> Standstill {
    Standstill::new(LABEL, (load(bench).0 as f64 * STILL_AT_S) as u64, STILL)
}

fn over_udp(bench: &Bench) -> Result<()> {
    until_proved(ATTEMPTS, |_| {
        let server = StandIn::standing_still(bench.kqps.subject_cpu, standstill(bench))?;
        let outcome = compare(bench, "udp", server.address, &[])?;
        server.stop()?;
        Ok(outcome)
    })
}

fn over(bench: &Bench, kind: Kind) -> Result<()> {
    let wired = Wired::new(bench, kind)?;
    until_proved(ATTEMPTS, |_| {
        let settings = ServerSettings { standstill: Some(standstill(bench)), ..wired.server(bench) };
        let server = Server::start(settings)?;
        let outcome = compare(bench, kind.name(), server.address(), &wired.flags(&["-c", "4"]))?;
        server.stop()?;
        Ok(outcome)
    })
}

/// Plays both classes, and compares their silences with the standstill. A silence that differs may be the host's.
fn compare(bench: &Bench, name: &str, server: SocketAddr, flags: &[&str]) -> Result<Result<(), String>> {
    let (rate, duration) = load(bench);
    let rate = rate.to_string();
    let good = ["-Q", &rate, "-l", duration, "-T", "1", "-t", "2s", "--lag", "1m"];
    let connections = if flags.is_empty() { "" } else { "connections = 4" };
    let class = format!("ask = [\"{NAMED} A\"]\nrate = {rate}\n{connections}");
    let trial = played(bench, server, (&[flags, &good].concat(), &class))?;
    let (good, held) = two(&trial)?;
    for class in [good, held] {
        let accounts = &class.accounts;
        if accounts.correct != accounts.intended {
            return Ok(Err(format!("not every query was answered: {accounts:?}")));
        }
    }
    let Some(silence) = held.silences.first() else { return Ok(Err("no silence".into())) };
    let other_s = good.silences.first().map_or(0.0, |silence| silence.seconds);
    let seen = format!(
        "{name}: silent for {:.4} s from {:.4} s on, the other class for {other_s:.4} s",
        silence.seconds, silence.at_s
    );
    let within_s = bench.choose(SMALL_WITHIN_S, WITHIN_S);
    let is_near = |seen_s: f64, known_s: f64| (seen_s - known_s).abs() <= within_s;
    if !is_near(silence.seconds, STILL.as_secs_f64())
        || !is_near(silence.at_s, STILL_AT_S)
        || other_s > bench.choose(SMALL_OTHER_MOST_S, OTHER_MOST_S)
    {
        return Ok(Err(seen));
    }
    eprintln!("{seen}");
    Ok(Ok(()))
}
