//! Finds the times when the host stood still in a trial: the subject's core was withheld for longer than its
//! buffer lasts, or the player's core was, so that the burst afterwards exceeded a buffer. Queries that were
//! due then, and just after, count neither for nor against a load. A subject that stands still by itself, while
//! its core runs, is not excused.

use kqps_observation::Trial;
use kqps_observation::trial::{LoadMode, Mishap};

/// Small datagrams that a socket buffer of the usual size holds: 212,992 bytes, of which the kernel counts 768
/// for each.
const BUFFER_PACKETS: f64 = 277.0;

/// After the player stood still it sends a burst on top of the queue, so that fewer packets may be too many.
const BURST_PACKETS: f64 = 200.0;

/// After a standstill the queue stays longer for this time, nanoseconds.
const RECOVERY_NS: u64 = 20_000_000;

/// The greatest share of a trial that standstills may take.
const STILL_MOST: f64 = 0.5;

/// Width of the bins in which mishaps are counted, nanoseconds.
const BIN_NS: u64 = 10_000_000;

/// The part of a trial that is left without its standstills.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remainder {
    /// Nanoseconds since the start that do not count: from, to.
    spans: Vec<(u64, u64)>,
    /// Share of the trial's time that the standstills take, recovery included, 0 to 1.
    pub still_share: f64,
    /// Upper limit for the longest standstill of a core, seconds.
    pub longest_s: f64,
    /// Queries that were intended in the part that is left.
    pub intended: u64,
    /// The number of these that had no correct reply in time.
    pub bad: u64,
}

impl Remainder {
    /// The remainder of a trial in open loop whose host was watched; `None` for any other trial.
    pub fn from_trial(trial: &Trial) -> Option<Self> {
        let rate_qps = trial.load.intended_qps.filter(|_| trial.load.mode == LoadMode::Open)?;
        let stalls = trial.stalls.as_ref()?;
        let sending = trial.sending_ns();
        let end_ns = sending.end - sending.start;
        let mut remainder = Self::default();
        for stall in stalls.within(&sending) {
            let still_s = (stall.late_us + stalls.period_us) as f64 / 1e6;
            if still_s * rate_qps > BUFFER_PACKETS {
                let woke_ns = stall.end_ns() - sending.start;
                remainder.add(woke_ns.saturating_sub((still_s * 1e9) as u64), woke_ns, end_ns);
                remainder.longest_s = remainder.longest_s.max(still_s);
            }
        }
        for mishap in &trial.mishaps {
            let still_s = f64::from(mishap.lag_us) / 1e6;
            if still_s * rate_qps > BURST_PACKETS {
                let due_ns = u64::from(mishap.at_10ms) * BIN_NS;
                remainder.add(due_ns, due_ns + BIN_NS, end_ns);
                remainder.longest_s = remainder.longest_s.max(still_s);
            }
        }
        remainder.merge(end_ns);
        remainder.count(trial, rate_qps);
        Some(remainder)
    }

    /// Adds a standstill with the recovery after it.
    fn add(&mut self, from_ns: u64, to_ns: u64, end_ns: u64) {
        let whole = |ns: u64| ns / BIN_NS * BIN_NS;
        let to_ns = (whole(to_ns + RECOVERY_NS) + BIN_NS).min(end_ns.max(BIN_NS));
        if whole(from_ns) < to_ns {
            self.spans.push((whole(from_ns), to_ns));
        }
    }

    fn merge(&mut self, end_ns: u64) {
        self.spans.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for &(from_ns, to_ns) in &self.spans {
            match merged.last_mut() {
                Some((_, last_ns)) if from_ns <= *last_ns => *last_ns = (*last_ns).max(to_ns),
                _ => merged.push((from_ns, to_ns)),
            }
        }
        let still_ns: u64 = merged.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum();
        self.still_share = still_ns as f64 / end_ns.max(1) as f64;
        self.spans = merged;
    }

    fn count(&mut self, trial: &Trial, rate_qps: f64) {
        let bad = trial.accounts.intended.saturating_sub(trial.accounts.correct);
        let is_still = |mishap: &&Mishap| {
            let due_ns = u64::from(mishap.at_10ms) * BIN_NS;
            self.spans.iter().any(|(from_ns, to_ns)| (*from_ns..*to_ns).contains(&due_ns))
        };
        let excused: u64 = trial.mishaps.iter().filter(is_still).map(|mishap| u64::from(mishap.bad)).sum();
        let still_s: f64 = self.spans.iter().map(|(from_ns, to_ns)| (to_ns - from_ns) as f64 / 1e9).sum();
        self.bad = bad.saturating_sub(excused);
        self.intended = trial.accounts.intended.saturating_sub((still_s * rate_qps) as u64).max(self.bad);
    }

    /// Whether less than half of the trial is left.
    pub fn is_too_little(&self) -> bool {
        self.still_share > STILL_MOST
    }

    /// Share of the queries intended in the part that is left that had no correct reply in time, 0 to 1; 0 if
    /// nothing is left.
    pub fn bad_ratio(&self) -> f64 {
        if self.intended == 0 { 0.0 } else { self.bad as f64 / self.intended as f64 }
    }
}

/// The share of a trial's counted queries that had no correct reply in time, 0 to 1. If too little is left
/// without the standstills, all queries count: a player that cannot keep up at all must not make a subject look
/// better.
pub fn bad_ratio(trial: &Trial) -> f64 {
    let remainder = Remainder::from_trial(trial).filter(|remainder| !remainder.is_too_little());
    remainder.map_or_else(|| trial.accounts.bad_ratio(), |remainder| remainder.bad_ratio())
}

#[cfg(test)]
mod tests {
    use kqps_observation::trial::LoadFacts;
    use kqps_observation::{Accounts, Stall, StallFacts};

    use super::*;

    /// Half a second at 100,000 queries a second that lost 300 queries in one bin, and `lost_elsewhere` in
    /// another.
    fn trial(lost_elsewhere: u32) -> Trial {
        let lost = 300 + lost_elsewhere;
        let mishap = |at_10ms, bad, lag_us| Mishap { at_10ms, intended: 1000, bad, lag_us };
        Trial {
            load: LoadFacts { intended_qps: Some(1e5), duration_s: 0.5, ..LoadFacts::default() },
            accounts: Accounts { intended: 50_000, correct: 50_000 - u64::from(lost), ..Accounts::default() },
            stalls: Some(StallFacts { period_us: 2_000, cores: vec![1], ..StallFacts::default() }),
            mishaps: vec![mishap(10, 300, 0), mishap(40, lost_elsewhere, 0)],
            ..Trial::default()
        }
    }

    fn stall(trial: &mut Trial, at_ms: u64, late_us: u64) {
        let stall = Stall { cpu: 1, at_ns: at_ms * 1_000_000, late_us };
        trial.stalls.as_mut().unwrap().stalls.push(stall);
    }

    #[test]
    fn what_was_due_while_the_host_stood_still_counts_for_nothing() {
        let mut trial = trial(0);
        assert!((bad_ratio(&trial) - 0.006).abs() < 1e-12, "no witness saw the host stand still");
        stall(&mut trial, 101, 1_000);
        let remainder = Remainder::from_trial(&trial).unwrap();
        // From the bin of 99 ms to that of 122 ms, or 40 of 500 ms.
        assert_eq!((remainder.intended, remainder.bad), (46_000, 0));
        assert!((remainder.still_share - 0.08).abs() < 1e-9 && (remainder.longest_s - 0.003).abs() < 1e-9);
    }

    #[test]
    fn what_was_lost_at_another_time_counts() {
        let mut trial = trial(100);
        stall(&mut trial, 101, 1_000);
        assert!((bad_ratio(&trial) - 100.0 / 46_000.0).abs() < 1e-12);
    }

    #[test]
    fn a_standstill_that_a_buffer_outlasts_excuses_nothing() {
        let mut trial = trial(0);
        // 2.6 ms are 260 packets.
        stall(&mut trial, 101, 600);
        assert!((bad_ratio(&trial) - 0.006).abs() < 1e-12);
    }

    #[test]
    fn a_player_that_stood_still_is_the_host_too() {
        let mut trial = trial(0);
        trial.mishaps[0].lag_us = 2_100;
        assert_eq!(Remainder::from_trial(&trial).unwrap().bad, 0);
        trial.mishaps[0].lag_us = 1_900;
        assert_eq!(Remainder::from_trial(&trial).unwrap().bad, 300);
    }

    #[test]
    fn a_player_that_is_late_all_the_time_excuses_nothing() {
        let mut trial = trial(0);
        let mishap = |at_10ms| Mishap { at_10ms, intended: 1000, bad: 6, lag_us: 9_000 };
        trial.mishaps = (0..50).map(mishap).collect();
        assert!((bad_ratio(&trial) - 0.006).abs() < 1e-12);
    }

    #[test]
    fn without_a_witness_nothing_is_excused() {
        let mut trial = Trial { stalls: None, ..trial(0) };
        trial.mishaps[0].lag_us = 5_000;
        assert_eq!(Remainder::from_trial(&trial), None);
        assert!((bad_ratio(&trial) - 0.006).abs() < 1e-12);
    }
}
