//! Times in a high dynamic range histogram: 1 µs to 60 s at 3 significant digits. Histograms are merged by
//! adding them. Quantiles are never averaged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::percentile::{Percentile, left_out, left_out_at_least};

/// The longest time that a histogram distinguishes, in microseconds (60 s). Longer times count as this.
pub const LONGEST_US: u64 = 60_000_000;

/// A quantile is reported only if at least this many samples lie beyond it.
pub const SAMPLES_BEYOND: f64 = 100.0;

/// Times in microseconds.
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(hdrhistogram::Histogram::new_with_bounds(1, LONGEST_US, 3).expect("the bounds are valid"))
    }
}

impl Histogram {
    /// Records one time. Less than 1 µs counts as 0, more than 60 s as 60 s.
    #[inline]
    pub fn record_us(&mut self, time_us: u64) {
        self.0.saturating_record(time_us);
    }

    /// Records `count` times of the same length.
    pub fn record_many_us(&mut self, time_us: u64, count: u64) {
        self.0.saturating_record_n(time_us.min(LONGEST_US), count);
    }

    /// Adds the samples of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// The number of samples.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time at a quantile from 0 to 1; `None` if fewer than [`SAMPLES_BEYOND`] samples lie beyond it.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let beyond = self.0.len() as f64 * (1.0 - quantile).min(quantile);
        // Slightly less, so that 10,000 samples give a p99 despite the binary fraction.
        (beyond > SAMPLES_BEYOND - 1e-6).then(|| self.0.value_at_quantile(quantile))
    }

    /// A time that is not below the quantile, with a confidence of [`crate::percentile::CONFIDENCE`]; `None` if the
    /// samples are too few to say so.
    pub fn at_most_us(&self, quantile: f64) -> Option<u64> {
        self.time_before_us(left_out(self.0.len(), 1.0 - quantile)?)
    }

    /// A time that is not above the quantile, with the same confidence; `None` if the samples are too few to say so.
    pub fn at_least_us(&self, quantile: f64) -> Option<u64> {
        let time_us = self.time_before_us(left_out_at_least(self.0.len(), 1.0 - quantile)?)?;
        Some(self.0.lowest_equivalent(time_us))
    }

    /// The greatest time if this many greater ones are left out.
    fn time_before_us(&self, left_out: u64) -> Option<u64> {
        let rank = self.0.len().checked_sub(left_out)?;
        let mut seen = 0;
        self.times().find_map(|(time_us, count)| {
            seen += count;
            (seen >= rank).then_some(time_us)
        })
    }

    /// The times that were recorded, microseconds, each as the longest that is counted as the same, and how many they
    /// are. The shortest come first.
    pub fn times(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
    }

    /// Whether two times are counted as the same.
    pub fn are_same(&self, one_us: u64, other_us: u64) -> bool {
        self.0.equivalent(one_us, other_us)
    }

    /// The share of samples that were longer than `time_us`, 0 to 1.
    pub fn share_above(&self, time_us: u64) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        let within = self.0.count_between(0, time_us);
        (self.0.len() - within) as f64 / self.0.len() as f64
    }

    /// The figures for a trial's record.
    pub fn quantiles(&self) -> Quantiles {
        if self.0.is_empty() {
            return Quantiles::default();
        }
        Quantiles {
            min: Some(self.0.min()),
            mean: Some(self.0.mean()),
            stddev: Some(self.0.stdev()),
            p50: self.quantile_us(0.50),
            p90: self.quantile_us(0.90),
            p95: self.quantile_us(0.95),
            p99: self.quantile_us(0.99),
            p999: self.quantile_us(0.999),
            max: Some(self.0.max()),
            count: Some(self.0.len()),
            at_most: Some(QuantileBounds {
                p50: self.at_most_us(0.50),
                p90: self.at_most_us(0.90),
                p95: self.at_most_us(0.95),
                p99: self.at_most_us(0.99),
                p999: self.at_most_us(0.999),
            }),
        }
    }

    /// The `HdrHistogram` V2 deflate format, in base64.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).expect("writing to memory succeeds");
        BASE64.encode(bytes)
    }

    /// Reads what [`Self::encode`] wrote; `None` if the text is something else.
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text).ok()?;
        let read: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
        if (read.low(), read.high(), read.sigfig()) == (1, LONGEST_US, 3) {
            return Some(Self(read));
        }
        let mut histogram = Self::default();
        histogram.0.add(&read).ok()?;
        Some(histogram)
    }
}

/// Figures of a histogram of times in microseconds. A quantile is `None` if too few samples lie beyond it.
/// Every figure is `None` if nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names say it
pub struct Quantiles {
    pub min: Option<u64>,
    pub mean: Option<f64>,
    pub stddev: Option<f64>,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
    pub max: Option<u64>,
    /// How many times they are of. `None` in records older than the field, as is the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Upper bounds of the quantiles, which fewer samples show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<QuantileBounds>,
}

/// Times that quantiles do not exceed, with a confidence of 95 % each, whatever the distribution is; microseconds. A
/// bound is `None` if the samples are too few for it: p99 takes 299 of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names say it
pub struct QuantileBounds {
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
}

impl Quantiles {
    /// Estimate of p99 from the samples; `None` without samples, and if a record older than `at_most` has none.
    pub fn p99(&self) -> Option<Percentile> {
        self.shown(self.p99, |bounds| bounds.p99)
    }

    /// Estimate of p99.9, like [`Self::p99`].
    pub fn p999(&self) -> Option<Percentile> {
        self.shown(self.p999, |bounds| bounds.p999)
    }

    fn shown(
        &self,
        estimate: Option<u64>,
        bound: impl Fn(&QuantileBounds) -> Option<u64>,
    ) -> Option<Percentile> {
        let bound = || self.at_most.map(|bounds| bound(&bounds).map(Percentile::AtMost));
        let greatest = || self.max.map(Percentile::Greatest);
        estimate.map(Percentile::Is).or_else(|| bound()?.or_else(greatest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_needs_a_hundred_samples_beyond_it() {
        let mut histogram = Histogram::default();
        histogram.record_many_us(80, 9_999);
        assert_eq!(histogram.quantile_us(0.99), None);
        histogram.record_us(80);
        assert_eq!(histogram.quantile_us(0.99), Some(80));
        assert_eq!(histogram.quantile_us(0.999), None);
    }

    /// A thousand different times: at most 4 of them may be left out, and at least 15.
    #[test]
    fn a_quantile_of_few_samples_has_bounds() {
        let mut histogram = Histogram::default();
        (1..=298).for_each(|time_us| histogram.record_us(time_us));
        assert_eq!(
            (histogram.at_most_us(0.99), histogram.quantiles().p99()),
            (None, Some(Percentile::Greatest(298)))
        );
        (299..=1_000).for_each(|time_us| histogram.record_us(time_us));
        assert_eq!((histogram.at_most_us(0.99), histogram.at_least_us(0.99)), (Some(996), Some(985)));
        let quantiles = histogram.quantiles();
        assert_eq!(
            (quantiles.p99, quantiles.p99(), quantiles.count),
            (None, Some(Percentile::AtMost(996)), Some(1_000))
        );
        assert_eq!(quantiles.at_most.unwrap().p999, None);
        assert_eq!(Quantiles { p99: Some(7), ..quantiles }.p99(), Some(Percentile::Is(7)));
        assert_eq!(Quantiles { at_most: None, ..quantiles }.p99(), None, "an older record");
    }

    #[test]
    fn it_survives_being_stored() {
        let mut histogram = Histogram::default();
        for time_us in [1, 17, 1_000, 59_999_999, 80_000_000] {
            histogram.record_us(time_us);
        }
        let read = Histogram::decode(&histogram.encode()).unwrap();
        assert_eq!(read.quantiles(), histogram.quantiles());
        assert!(Histogram::decode("nonsense").is_none());
    }
}
