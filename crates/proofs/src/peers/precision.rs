//! The open loop's precision: how far the queries sent in each second, and in each tenth of a second, are
//! from the intended rate.

use anyhow::Result;
use kqps_observation::Trial;
use kqps_testbed::path::LaidPath;
use serde::Serialize;

use super::block::Spread;
use super::{Bench, Name};
use crate::program::Carrier;

/// The transport of an open loop's queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OpenLoop {
    Udp,
    /// Kept connections.
    Tcp,
}

impl OpenLoop {
    /// The open loop that a table measures; `None` if it measures none.
    pub(super) fn from_name(name: Name) -> Option<Self> {
        match name {
            Name::Player => Some(Self::Udp),
            Name::Transports => Some(Self::Tcp),
            Name::Echo | Name::Auth | Name::Front | Name::Cache | Name::Xdp | Name::Replay => None,
        }
    }

    /// Its words in tables.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Udp => "open loop",
            Self::Tcp => "open loop over tcp, 8 kept connections,",
        }
    }

    /// The intended rates, queries a second.
    fn rates_qps(self) -> &'static [u32] {
        match self {
            Self::Udp => &[10_000, 100_000, 200_000],
            Self::Tcp => &[10_000, 50_000],
        }
    }

    /// The player's flags for it.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Udp => &[],
            Self::Tcp => &["-m", "tcp", "-c", "8"],
        }
    }
}

/// The largest deviation of a one-second bin, as a share.
pub(super) const SECOND_WITHIN: f64 = 0.001;
/// The largest deviation of a 100 ms bin, as a share.
pub(super) const TENTH_WITHIN: f64 = 0.01;

/// The warning that other programs or the hypervisor used the player's core.
const NOISY: &str = "noisy-host";
/// How often a trial on a noisy host is made. The last attempt counts in any case.
const ATTEMPTS: u32 = 3;

/// The worst bins of one rate, over all blocks.
#[derive(Serialize)]
pub(super) struct Precision {
    pub(super) over: OpenLoop,
    pub(super) rate_qps: u32,
    /// The worst one-second bin of each block, as a share of the rate.
    pub(super) second_off: Spread,
    /// The worst 100 ms bin of each block, as a share of the rate.
    pub(super) tenth_off: Spread,
    /// Trials that were made again because the host was noisy; they do not count.
    pub(super) repeated: u32,
}

impl Precision {
    /// Whether every bin of every block is precise enough.
    pub(super) fn is_met(&self) -> bool {
        self.second_off.high <= SECOND_WITHIN && self.tenth_off.high <= TENTH_WITHIN
    }
}

/// Plays each rate once in every block.
pub(super) fn measure(bench: &Bench<'_>, blocks: u32, over: OpenLoop) -> Result<Vec<Precision>> {
    let rates = over.rates_qps().iter();
    let mut rates: Vec<AtRate> =
        rates.map(|&rate_qps| AtRate { rate_qps, off: Vec::new(), repeated: 0 }).collect();
    for number in 0..blocks {
        for AtRate { rate_qps, off, repeated } in &mut rates {
            let (trial, again) = play(bench, *rate_qps, over)?;
            *repeated += again;
            let (second, tenth) = bins_off(&trial, f64::from(*rate_qps));
            let words = over.words();
            eprintln!("{words} at {rate_qps} {}/{blocks}: 1 s {second:.5}, 100 ms {tenth:.5}", number + 1);
            off.push((second, tenth));
        }
    }
    let precision = |AtRate { rate_qps, off, repeated }: AtRate| Precision {
        over,
        rate_qps,
        second_off: Spread::from_values(off.iter().map(|off| off.0)),
        tenth_off: Spread::from_values(off.iter().map(|off| off.1)),
        repeated,
    };
    Ok(rates.into_iter().map(precision).collect())
}

/// The trials at one rate.
struct AtRate {
    rate_qps: u32,
    /// How far the bins of each trial were off at most: those of a second, and of a tenth of one.
    off: Vec<(f64, f64)>,
    repeated: u32,
}

/// Plays one trial, with player and server on a core each, and again if the host withheld the CPU: the
/// promise holds only for a player that has its core. Also returns the number of repetitions.
fn play(bench: &Bench<'_>, rate_qps: u32, over: OpenLoop) -> Result<(Trial, u32)> {
    // At least a second, so that there is one whole bin.
    let duration = format!("{}s", bench.seconds.max(1.0));
    let server_cpu = bench.kqps.subject_cpu.to_string();
    let rate = rate_qps.to_string();
    let mut flags = vec!["-Q", &rate, "-l", &duration, "--subject-cpus", &server_cpu];
    flags.extend(over.flags());
    let mut repeated = 0;
    loop {
        let (_echo, address) = match over {
            OpenLoop::Udp => bench.kqps.echo("mmsg")?,
            OpenLoop::Tcp => bench.kqps.stream_echo(Carrier::Tcp, &LaidPath::Loopback)?,
        };
        let played = bench.kqps.load(address, bench.queries, &flags)?;
        let is_noisy = played.warnings.iter().any(|code| code == NOISY);
        if !is_noisy || repeated + 1 == ATTEMPTS {
            return Ok((played.measured()?, repeated));
        }
        repeated += 1;
    }
}

/// Deviations of the worst one-second bin and of the worst 100 ms bin, as shares of the rate. A last bin that
/// is not whole does not count. The record ends with the last bin in which something happened; in bins after
/// that nothing was sent.
fn bins_off(trial: &Trial, rate_qps: f64) -> (f64, f64) {
    let worst = |sent: &dyn Fn(usize) -> Option<u64>, bin_s: f64| {
        let whole = (trial.load.duration_s / bin_s + 1e-6) as usize;
        let off = |bin| (sent(bin).unwrap_or(0) as f64 / (rate_qps * bin_s) - 1.0).abs();
        (0..whole).map(off).fold(0.0, f64::max)
    };
    let second = worst(&|bin| trial.intervals.get(bin).map(|interval| interval.sent), 1.0);
    let tenth = worst(&|bin| trial.sent_per_100ms.get(bin).copied(), 0.1);
    (second, tenth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::trial::{Interval, LoadFacts};

    fn interval(at_s: u64, sent: u64) -> Interval {
        Interval { at_s, sent, correct: sent }
    }

    #[test]
    fn a_bin_that_is_missing_had_nothing_in_it() {
        let trial = Trial {
            load: LoadFacts { duration_s: 2.0, ..LoadFacts::default() },
            intervals: vec![interval(1, 1_000), interval(2, 900)],
            sent_per_100ms: vec![100; 19],
            ..Trial::default()
        };
        let (second, tenth) = bins_off(&trial, 1_000.0);
        assert!((second - 0.1).abs() < 1e-9 && (tenth - 1.0).abs() < 1e-9, "{second} {tenth}");
        let silent = Trial { intervals: Vec::new(), sent_per_100ms: Vec::new(), ..trial };
        assert_eq!(bins_off(&silent, 1_000.0), (1.0, 1.0));
    }

    #[test]
    fn the_worst_whole_bin_counts() {
        let trial = Trial {
            load: LoadFacts { duration_s: 2.05, ..LoadFacts::default() },
            intervals: vec![interval(1, 1_000), interval(2, 1_010), interval(3, 40)],
            sent_per_100ms: [100; 20].into_iter().chain([40]).collect(),
            ..Trial::default()
        };
        let (second, tenth) = bins_off(&trial, 1_000.0);
        assert!((second - 0.01).abs() < 1e-9 && tenth.abs() < 1e-9, "{second} {tenth}");
    }
}
