//! A ramp: in each tenth of a second as many queries are due, and leave, as the area below it.

use anyhow::{Result, ensure};
use kqps_observation::Trial;

use super::super::patience::{ATTEMPTS, until_proved};
use super::super::{Bench, QUERIES};

/// The largest difference from the area, as a share of it.
const WITHIN: f64 = 0.01;

/// Queries that may fall to the neighbouring moment in any case, of each player.
const NEIGHBOURS: f64 = 2.0;

/// A query that leaves later than this changes a tenth of a second by more than a hundredth, microseconds.
const LAG_MOST_US: u64 = 1_000;

const MOMENT_S: f64 = 0.1;

/// The counts of each tenth of a second beside the area below a course.
pub(crate) struct Bins<'a> {
    pub(crate) trial: &'a Trial,
    pub(crate) players: usize,
    /// The area below the course until a second.
    pub(crate) area: &'a dyn Fn(f64) -> f64,
}

impl Bins<'_> {
    /// Checks the moments by due time, which hold however late queries leave, and the tenths of a second in which queries
    /// left. The inner error names the standstill that moved them.
    pub(crate) fn check(&self) -> Result<Result<f64, String>> {
        let trial = self.trial;
        ensure!(!trial.moments.is_empty(), "the record has no moments");
        for moment in &trial.moments {
            let off = self.off(moment.at_s, moment.seconds, moment.intended);
            ensure!(off <= WITHIN, "at {} s {} queries are due, {off:.4} off", moment.at_s, moment.intended);
        }
        let whole = (trial.load.duration_s / MOMENT_S).round() as usize;
        let left = trial.sent_per_100ms.iter().take(whole).enumerate();
        let off = left.map(|(number, sent)| self.off(number as f64 * MOMENT_S, MOMENT_S, *sent));
        let most = off.fold(0.0, f64::max);
        let lag_us = trial.lag_us.max.unwrap_or(0);
        Ok(if most <= WITHIN {
            Ok(most)
        } else {
            ensure!(lag_us > LAG_MOST_US, "a tenth of a second is {most:.4} off, and no query left late");
            Err(format!(
                "a standstill: a query left {lag_us} µs late, and a tenth of a second is {most:.4} off"
            ))
        })
    }

    /// How far a count is from the area, as a share of it.
    fn off(&self, at_s: f64, seconds: f64, count: u64) -> f64 {
        let due = (self.area)(at_s + seconds) - (self.area)(at_s);
        let beyond = (count as f64 - due).abs() - NEIGHBOURS * self.players as f64;
        if beyond <= 0.0 { 0.0 } else { beyond / due.max(1.0) }
    }
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (from, to, seconds) = bench.choose((1_000.0, 20_000.0, 1.0), (1_000.0, 200_000.0, 10.0));
    let ramp = format!("{from}..{to}/{seconds}s");
    let area = |at_s: f64| {
        let at_s = at_s.clamp(0.0, seconds);
        at_s * (from + (to - from) / seconds * at_s / 2.0)
    };
    let queries = bench.queries(QUERIES)?;
    let (_echo, address) = bench.kqps.echo("mmsg")?;
    let off = until_proved(ATTEMPTS, |_| {
        let flags = ["--ramp", &ramp, "-T", "1", "-t", "1s", "--lag", "1m"];
        let trial = bench.kqps.trial(address, &queries, &flags)?;
        let all = area(seconds);
        ensure!((trial.accounts.intended as f64 - all).abs() <= 1.0, "{} intended", trial.accounts.intended);
        Bins { trial: &trial, players: 1, area: &area }.check()
    })?;
    eprintln!(
        "--ramp {ramp}: {:.0} queries, each tenth of a second within {:.2} %",
        area(seconds),
        100.0 * off
    );
    Ok(())
}
