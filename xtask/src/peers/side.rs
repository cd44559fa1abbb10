//! One measurement: a fresh echo on one core, a player on the other.

use anyhow::Result;
use serde::Serialize;

use super::foreign::Watch;
use super::rows::Figure;
use super::{Bench, dnsperf};

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) player: Player,
    /// Its flags, beside the duration and the query file.
    pub(super) flags: &'static [&'static str],
    /// The echo's I/O model.
    pub(super) echo: &'static str,
}

/// Who plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Player {
    Kqps,
    Dnsperf,
}

/// What one measurement gave.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    /// Correct answers a second.
    pub(super) answered_qps: f64,
    /// CPU seconds of the player per million answers.
    pub(super) player_cpu_s_per_million: f64,
    /// CPU seconds of the echo per million answers.
    pub(super) server_cpu_s_per_million: f64,
    /// Cores that other programs used meanwhile.
    pub(super) foreign_cores: f64,
}

/// What a player reports of itself.
pub(super) struct Reported {
    pub(super) answered: u64,
    pub(super) answered_qps: f64,
    pub(super) cpu_s: f64,
}

impl Measured {
    pub(super) fn figure(&self, figure: Figure) -> f64 {
        match figure {
            Figure::AnsweredRate => self.answered_qps,
            Figure::PlayerCpu => self.player_cpu_s_per_million,
        }
    }
}

/// Starts an echo, plays at it, and stops it.
pub(super) fn measure(bench: &Bench<'_>, side: Side) -> Result<Measured> {
    let (echo, address) = bench.kqps.echo(side.echo)?;
    let watch = Watch::begin()?;
    let before_s = echo.cpu_s()?;
    let reported = match side.player {
        Player::Kqps => kqps(bench, side, address)?,
        Player::Dnsperf => dnsperf::play(bench, side.flags, address)?,
    };
    let server_cpu_s = echo.terminate()?.cpu_s - before_s;
    let millions = reported.answered as f64 / 1e6;
    Ok(Measured {
        answered_qps: reported.answered_qps,
        player_cpu_s_per_million: reported.cpu_s / millions,
        server_cpu_s_per_million: server_cpu_s / millions,
        foreign_cores: watch.foreign_cores(reported.cpu_s + server_cpu_s)?,
    })
}

fn kqps(bench: &Bench<'_>, side: Side, address: std::net::SocketAddr) -> Result<Reported> {
    let duration = format!("{}s", bench.seconds);
    let mut flags = vec!["-T", "1", "-l", &duration];
    flags.extend(side.flags);
    let played = bench.kqps.load(address, bench.queries, &flags)?;
    let cpu_s = played.cpu_s;
    let trial = played.measured()?;
    Ok(Reported { answered: trial.accounts.correct, answered_qps: trial.load.answered_qps, cpu_s })
}
