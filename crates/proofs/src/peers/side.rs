//! One measurement: a fresh server on one core, a player on the other.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::figure::{Figure, Reported, SUBJECT_CPU};
use super::foreign::Watch;
use super::server::{Server, Up};
use super::{Bench, dnsperf};

#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) player: Player,
    /// Its flags, besides the rate, the duration and the query file.
    pub(super) flags: &'static [&'static str],
    pub(super) server: Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Player {
    Kqps,
    Dnsperf,
}

/// The figures of one measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    /// Correct answers a second.
    pub(super) answered_qps: f64,
    /// CPU seconds of the player per million answers.
    pub(super) player_cpu_s_per_million: f64,
    /// CPU seconds of the server per million answers. Those of a front do not include the servers behind it.
    pub(super) server_cpu_s_per_million: f64,
    /// Proportional memory of the server at the end, bytes, if the player watched it.
    pub(super) server_bytes: Option<u64>,
    /// Seconds from the server's start until it answered.
    pub(super) ready_s: f64,
    /// The median of latency, microseconds, if the player reports it.
    pub(super) latency_p50_us: Option<u64>,
    /// Cores that other programs used meanwhile; `None` for a front, since the servers behind it would count
    /// as other programs.
    pub(super) foreign_cores: Option<f64>,
}

impl Measured {
    pub(super) fn figure(&self, figure: Figure) -> f64 {
        match figure {
            Figure::AnsweredRate => self.answered_qps,
            Figure::PlayerCpu { .. } => self.player_cpu_s_per_million,
            Figure::ServerCpu { .. } => self.server_cpu_s_per_million,
            Figure::Memory => self.server_bytes.map_or(f64::NAN, |bytes| bytes as f64),
            Figure::LoadTime => self.ready_s,
            Figure::Latency => self.latency_p50_us.map_or(f64::NAN, |us| us as f64),
        }
    }
}

/// Starts a server, plays at it, at `rate_qps` queries a second if that is given, and stops it.
pub(super) fn measure(bench: &Bench<'_>, side: Side, rate_qps: Option<u32>) -> Result<Measured> {
    let flags = side.flags(bench, rate_qps);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let queries = side.queries(bench)?;
    let server = side.server.start(bench)?;
    let before_s = server.cpu_s()?;
    let watch = Watch::begin()?;
    let reported = match side.player {
        Player::Kqps => kqps(bench, side.server, &flags, &server, &queries)?,
        Player::Dnsperf => dnsperf::play(bench, &flags, server.address)?,
    };
    let server_cpu_s = match &reported.server {
        Some(seen) => seen.cpu_user_s + seen.cpu_system_s,
        None => server.cpu_s()? - before_s,
    };
    let millions = reported.answered as f64 / 1e6;
    Ok(Measured {
        answered_qps: reported.answered_qps,
        player_cpu_s_per_million: reported.cpu_s / millions,
        server_cpu_s_per_million: server_cpu_s / millions,
        server_bytes: reported.server.and_then(|seen| seen.pss_bytes),
        ready_s: server.ready_s,
        latency_p50_us: reported.latency_p50_us,
        foreign_cores: if server.is_whole {
            Some(watch.foreign_cores(reported.cpu_s + server_cpu_s)?)
        } else {
            None
        },
    })
}

/// Plays with one thread. An echo is not watched, since watching would cost the player CPU time.
fn kqps(bench: &Bench<'_>, server: Server, own: &[&str], up: &Up, queries: &Path) -> Result<Reported> {
    let duration = format!("{}s", bench.seconds);
    let mut flags = vec!["-T", "1", "-l", &duration];
    flags.extend(own);
    let pid = up.pid.to_string();
    if server.data().is_some() {
        flags.extend(["--subject-pid", &pid]);
    }
    let played = bench.kqps.load(up.address, queries, &flags)?;
    let cpu_s = played.cpu_s;
    let trial = played.measured()?;
    ensure!(trial.accounts.wrong == 0, "{}: wrong answers: {:?}", server.words(), trial.wrong_rcodes);
    Ok(Reported {
        answered: trial.accounts.correct,
        answered_qps: trial.load.answered_qps,
        cpu_s,
        latency_p50_us: trial.latency_us.p50,
        server: trial.subject,
    })
}

impl Side {
    /// Its flags, with the server's core in place of the placeholder, and with the rate. Both players have
    /// the same flag for it.
    pub(super) fn flags(&self, bench: &Bench<'_>, rate_qps: Option<u32>) -> Vec<String> {
        let subject_cpu = bench.kqps.subject_cpu.to_string();
        let named = |&flag: &&str| if flag == SUBJECT_CPU { subject_cpu.clone() } else { flag.to_owned() };
        let rate = rate_qps.into_iter().flat_map(|qps| ["-Q".to_owned(), qps.to_string()]);
        self.flags.iter().map(named).chain(rate).collect()
    }

    /// The player's query file. An echo gets one without other rcodes than its own, which it could not
    /// return.
    fn queries(&self, bench: &Bench<'_>) -> Result<PathBuf> {
        self.server.data().map_or_else(|| Ok(bench.queries.to_owned()), |data| data.queries(bench))
    }
}
