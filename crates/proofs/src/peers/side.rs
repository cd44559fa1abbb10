//! A measurement: a fresh server on one core, a player on the other.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::probe;
use kqps_observation::Trial;
use kqps_testbed::path::LaidPath;
use serde::Serialize;

use super::figure::{Figure, Reported};
use super::foreign::Watch;
use super::players::{Load, Player};
use super::server::{FRAMES, Server, Up};
use super::{Bench, best_rate};
use crate::{path, program};

#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) player: &'static Player,
    /// Its flags, besides the rate, the duration and the query file.
    pub(super) flags: &'static [String],
    pub(super) server: &'static Server,
}

/// The figures of one measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    /// Correct answers a second, or handshakes if the player makes nothing else.
    pub(super) answered_qps: f64,
    /// CPU seconds of the player per million of them.
    pub(super) player_cpu_s_per_million: f64,
    /// CPU seconds of the server per million of them, if they are known. Those of a front do not include the servers
    /// behind it.
    pub(super) server_cpu_s_per_million: Option<f64>,
    /// Proportional memory of the server at the end, bytes, if the player watched it.
    pub(super) server_bytes: Option<u64>,
    /// Seconds from the server's start until it answered.
    pub(super) ready_s: f64,
    /// The median of latency, microseconds, if the player reports it.
    pub(super) latency_p50_us: Option<u64>,
    /// The rate that the player was given, queries a second, if it was given one.
    pub(super) given_qps: Option<u32>,
    /// Cores that other programs used meanwhile; `None` if the server's CPU time is not known, and for a front, since
    /// the servers behind it would count as other programs.
    pub(super) foreign_cores: Option<f64>,
}

impl Measured {
    pub(super) fn figure(&self, figure: Figure) -> f64 {
        match figure {
            Figure::AnsweredRate => self.answered_qps,
            Figure::PlayerCpu(_) => self.player_cpu_s_per_million,
            Figure::ServerCpu(_) => self.server_cpu_s_per_million.unwrap_or(f64::NAN),
            Figure::Memory => self.server_bytes.map_or(f64::NAN, |bytes| bytes as f64),
            Figure::LoadTime => self.ready_s,
            Figure::Latency => self.latency_p50_us.map_or(f64::NAN, |us| us as f64),
        }
    }

    /// The cores that the server used, if it is known as a whole.
    pub(super) fn server_cores(&self) -> Option<f64> {
        self.foreign_cores?;
        self.server_cpu_s_per_million.map(|cpu_s| cpu_s * self.answered_qps / 1e6)
    }
}

/// A side whose server answers.
struct Ready<'a> {
    side: Side,
    path: &'a LaidPath,
    server: &'a Up,
    queries: &'a Path,
}

/// Starts a server, plays at it, at `rate_qps` queries a second if that is given, and stops it.
pub(super) fn measure(bench: &Bench<'_>, side: Side, rate_qps: Option<u32>) -> Result<Measured> {
    at_server(bench, side, |ready| ready.play(bench, rate_qps))
}

/// The rate at which this side gets the most answers, queries a second, from plays at several rates; `None` for a
/// player that needs no rate.
pub(super) fn best_qps(bench: &Bench<'_>, side: Side) -> Result<Option<u32>> {
    if !side.player.makes_packets() {
        return Ok(None);
    }
    let first_qps = best_rate::first_qps(side.flags);
    if bench.is_short {
        return Ok(Some(first_qps));
    }
    at_server(bench, side, |ready| {
        let play = |rate_qps| ready.play(bench, Some(rate_qps));
        best_rate::best(first_qps, play, |found: &Measured| found.answered_qps)
    })
    .map(|best| best.given_qps)
}

/// Starts a side's server on a fresh path, plays, and stops the server.
fn at_server(
    bench: &Bench<'_>,
    side: Side,
    play: impl FnOnce(&Ready<'_>) -> Result<Measured>,
) -> Result<Measured> {
    let queries = side.queries(bench)?;
    let path = path::lay(side.server.path())?;
    let server = side.server.start(bench, &path)?;
    play(&Ready { side, path: &path, server: &server, queries: &queries })
}

impl Ready<'_> {
    fn play(&self, bench: &Bench<'_>, rate_qps: Option<u32>) -> Result<Measured> {
        let flags = self.side.flags(bench, rate_qps);
        let before_s = self.server.cpu_s()?;
        let watch = Watch::begin()?;
        let (target, seconds, cpu) = (self.server.address, bench.seconds, bench.kqps.player_cpu);
        let reported = match &self.side.player.other {
            None => self.kqps(bench, &flags)?,
            Some(other) => {
                let load = Load { target, queries: self.queries, flags: &flags, seconds, cpu };
                other.play(bench, self.path, &load)?
            }
        };
        let server_cpu_s = match &reported.server {
            Some(seen) => Some(seen.cpu_user_s + seen.cpu_system_s),
            None => self.server.cpu_s()?.zip(before_s).map(|(after_s, before_s)| after_s - before_s),
        };
        let millions = reported.answered as f64 / 1e6;
        let answered_qps = match server_cpu_s.filter(|_| self.side.player.makes_packets()) {
            // It counts what a full buffer of the server still yields after the load as answers of the load. The
            // server has one core, so that its CPU time is the least in which it can have answered.
            Some(cpu_s) => reported.answered_qps * (bench.seconds / cpu_s).min(1.0),
            None => reported.answered_qps,
        };
        Ok(Measured {
            answered_qps,
            player_cpu_s_per_million: reported.cpu_s / millions,
            server_cpu_s_per_million: server_cpu_s.map(|cpu_s| cpu_s / millions),
            server_bytes: reported.server.and_then(|seen| seen.pss_bytes),
            ready_s: self.server.ready_s,
            latency_p50_us: reported.latency_p50_us,
            given_qps: rate_qps,
            foreign_cores: match server_cpu_s {
                Some(cpu_s) if self.server.is_whole => Some(watch.foreign_cores(reported.cpu_s + cpu_s)?),
                _ => None,
            },
        })
    }

    /// Plays with one thread. An echo is not watched, since watching would cost the player CPU time.
    fn kqps(&self, bench: &Bench<'_>, own: &[String]) -> Result<Reported> {
        let server = self.side.server;
        let duration = format!("{}s", bench.seconds);
        let mut flags = vec!["-T", "1", "-l", &duration];
        flags.extend(own.iter().map(String::as_str));
        let pid = self.server.pid.to_string();
        if server.data().is_some() {
            flags.extend(["--subject-pid", &pid]);
        }
        let player = bench.kqps.start_load_over(self.path, self.server.address, self.queries, &flags)?;
        let played = program::finish(player)?;
        let cpu_s = played.cpu_s;
        let trial = played.measured()?;
        ensure!(trial.accounts.wrong == 0, "{}: wrong answers: {:?}", server.words(), trial.wrong_rcodes);
        trial.accounts.check()?;
        if let Some(connections) = &trial.connections {
            connections.check(trial.sent_on_connections())?;
        }
        let (answered, answered_qps) = self.counted(&trial)?;
        Ok(Reported {
            answered,
            answered_qps,
            cpu_s,
            latency_p50_us: trial.latency_us.p50,
            server: trial.subject,
        })
    }

    /// Correct answers or handshakes of a trial of kqps, and their rate a second.
    fn counted(&self, trial: &Trial) -> Result<(u64, f64)> {
        let Some(kind) = self.side.player.handshakes else {
            return Ok((trial.accounts.correct, trial.load.answered_qps));
        };
        let tls = trial.connections.as_ref().and_then(|connections| connections.tls.as_ref());
        let handshakes = &tls.context("the trial has no handshakes")?.handshakes;
        let made = handshakes.get(kind).copied().unwrap_or(0);
        Ok((made, made as f64 / trial.load.duration_s))
    }
}

impl Side {
    /// Its flags, with the server's core and the players' addresses in place of their names, and with the rate. All players
    /// that take a rate have the same flag for it.
    pub(super) fn flags(&self, bench: &Bench<'_>, rate_qps: Option<u32>) -> Vec<String> {
        let subject_cpu = bench.kqps.subject_cpu.to_string();
        let of_row = self.flags.iter().map(|flag| match flag.as_str() {
            "{subject}" => subject_cpu.clone(),
            "{sources}" => path::SOURCES.to_owned(),
            other => other.to_owned(),
        });
        let rate = rate_qps.into_iter().flat_map(|qps| ["-Q".to_owned(), qps.to_string()]);
        self.player.flags.iter().map(|flag| (*flag).to_owned()).chain(of_row).chain(rate).collect()
    }

    /// Why it cannot be measured on this host; `None` if it can, as far as is known before.
    pub(super) fn lacks(&self) -> Option<String> {
        let no_frames = || {
            let has_frames = self.flags.iter().any(|flag| flag == FRAMES) || self.server.needs_frames();
            let reason = probe::probe_one("af-xdp").err().filter(|_| has_frames)?;
            Some(format!("--io {FRAMES} needs AF_XDP: {reason}"))
        };
        self.player.lacks().or_else(|| self.server.lacks()).or_else(no_frames)
    }

    /// The player's query file. An echo gets one without other rcodes than its own, which it could not return, and so do
    /// programs that read no expectations.
    fn queries(&self, bench: &Bench<'_>) -> Result<PathBuf> {
        match (self.server.data(), &self.player.other) {
            (Some(data), None) => data.queries(bench),
            (Some(data), Some(other)) if other.makes_packets => data.bare_queries(bench),
            _ => Ok(bench.queries.to_owned()),
        }
    }
}
