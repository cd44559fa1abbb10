//! Sums of counts. The accounts are checked before, so sums of their parts fit; no other sum wraps.

use std::collections::BTreeMap;

use crate::moments::{Moment, Moments};
use crate::trial::{Interval, Mishap};
use crate::{Accounts, Trial};

use super::starts::Starts;
use super::{MergeError, Part};

/// Counts by cause.
pub(super) type Counts = BTreeMap<String, u64>;

/// The sum of all players' accounts.
pub(super) fn accounts(parts: &[Part]) -> Result<Accounts, MergeError> {
    parts.iter().try_fold(Accounts::default(), |sum, part| {
        let too_large = || MergeError::TooLarge { host: part.host.clone() };
        sum.checked_add(&part.trial.accounts).ok_or_else(too_large)
    })
}

/// The sum of counts by cause.
pub(super) fn by_cause<'a>(all: impl IntoIterator<Item = &'a Counts>) -> Counts {
    let mut sum = Counts::new();
    for (cause, count) in all.into_iter().flatten() {
        let entry = sum.entry(cause.clone()).or_default();
        *entry = entry.saturating_add(*count);
    }
    sum
}

/// The sum of a count.
pub(super) fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// The mean over all items, of each part's mean over its own number of them; `None` if no part has a mean.
pub(super) fn mean(
    parts: &[Part],
    mean: fn(&Trial) -> Option<f64>,
    items: fn(&Accounts) -> u64,
) -> Option<f64> {
    let known =
        parts.iter().filter_map(|part| Some((mean(&part.trial)?, items(&part.trial.accounts) as f64)));
    let (sum, count) =
        known.fold((0.0, 0.0), |(sum, count), (mean, items)| (sum + mean * items, count + items));
    (count > 0.0).then(|| sum / count)
}

/// Width of the bins of `sent_per_100ms`, nanoseconds.
const TENTH_NS: u64 = 100_000_000;

/// The queries of all players in each bin of 100 ms.
pub(super) fn sent_per_100ms(parts: &[Part], starts: &Starts) -> Vec<u64> {
    let mut bins: Vec<u64> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let from = starts.shift(number, TENTH_NS);
        for (bin, count) in (from..).zip(&part.trial.sent_per_100ms) {
            if bins.len() <= bin {
                bins.resize(bin + 1, 0);
            }
            bins[bin] = bins[bin].saturating_add(*count);
        }
    }
    bins
}

/// The seconds of all players.
pub(super) fn intervals(parts: &[Part], starts: &Starts) -> Vec<Interval> {
    let mut seconds: BTreeMap<u64, Interval> = BTreeMap::new();
    for (number, part) in parts.iter().enumerate() {
        let from = starts.shift(number, 10 * TENTH_NS) as u64;
        for second in &part.trial.intervals {
            let at_s = second.at_s.saturating_add(from);
            let sum = seconds.entry(at_s).or_insert(Interval { at_s, ..Interval::default() });
            sum.sent = sum.sent.saturating_add(second.sent);
            sum.correct = sum.correct.saturating_add(second.correct);
        }
    }
    seconds.into_values().collect()
}

/// The moments of all players. Their due times count from the start that all were given.
pub(super) fn moments(parts: &[Part]) -> Vec<Moment> {
    let mut sum = Moments::default();
    for part in parts {
        sum.add(&Moments::from_record(&part.trial.moments));
    }
    sum.record()
}

/// Width of the bins of mishaps, nanoseconds.
const HUNDREDTH_NS: u64 = 10_000_000;

/// Mishaps are kept of the first minute.
const MISHAP_BINS: u32 = 6_000;

/// The mishaps of all players, by the bins of 10 ms in which queries were due.
pub(super) fn mishaps(parts: &[Part], starts: &Starts) -> Vec<Mishap> {
    let mut bins: BTreeMap<u32, Mishap> = BTreeMap::new();
    for (number, part) in parts.iter().enumerate() {
        let from = u32::try_from(starts.shift(number, HUNDREDTH_NS)).unwrap_or(u32::MAX);
        for mishap in &part.trial.mishaps {
            let at_10ms = mishap.at_10ms.saturating_add(from);
            if at_10ms >= MISHAP_BINS {
                continue;
            }
            let sum = bins.entry(at_10ms).or_insert(Mishap { at_10ms, ..Mishap::default() });
            sum.intended = sum.intended.saturating_add(mishap.intended);
            sum.bad = sum.bad.saturating_add(mishap.bad);
            sum.lag_us = sum.lag_us.max(mishap.lag_us);
        }
    }
    bins.into_values().collect()
}
