//! Figures with their intervals, and medians with an interval that needs no model: order statistics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::narrow::narrow;

/// A figure with the interval that covers its true median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The median of the measured values; for ratios, the geometric mean.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The probability that the interval covers the true value, 0 to 1. Fewer than six figures cannot reach
    /// 0.95.
    pub coverage: f64,
    /// The number of figures that were measured.
    pub count: u32,
}

impl Interval {
    /// The figure and its interval, multiplied by a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { median: self.median * factor, low: self.low * factor, high: self.high * factor, ..self }
    }

    /// Half the width of the interval as a share of the median; 0 if the median is 0.
    pub fn half_width(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median.abs() }
    }
}

/// The least coverage that an interval should reach.
const WANTED_COVERAGE: f64 = 0.95;

/// The median with its order-statistic interval: the narrowest pair of the k-th smallest and the k-th largest
/// figure that covers the true median with a probability of 95 % or more. With fewer than six figures, the pair
/// is the smallest and the largest, and `coverage` states the lower probability. `None` without figures. Values
/// that are not finite are left out.
pub fn median_interval(figures: &[f64]) -> Option<Interval> {
    median_interval_covering(figures, WANTED_COVERAGE)
}

/// As [`median_interval`], with a given coverage, above 0 and below 1. If there are too few figures, the
/// result's `coverage` is lower.
pub fn median_interval_covering(figures: &[f64], wanted: f64) -> Option<Interval> {
    let mut sorted: Vec<f64> = figures.iter().copied().filter(|figure| figure.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (mut rank, mut coverage) = (0, rank_coverage(count, 0));
    while rank + 1 < count.div_ceil(2) {
        let narrower = rank_coverage(count, rank + 1);
        if narrower < wanted {
            break;
        }
        (rank, coverage) = (rank + 1, narrower);
    }
    let (low, high) = (*sorted.get(rank)?, *sorted.get(count.checked_sub(rank + 1)?)?);
    Some(Interval { median: median(&sorted), low, high, coverage, count: narrow(count) })
}

/// A figure stands out if its distance from the median is more than this many times the usual distance.
const FAR: f64 = 5.0;

/// The least usual distance, in logarithms. Rounding alone makes most figures equal at times, and their
/// distance 0.
const USUAL_LEAST: f64 = 0.002;

/// The indices of figures that stand out: those whose ratio to the median is more than five times the usual
/// ratio, both as logarithms. All figures must be above 0. They count like all others. Empty for fewer than
/// five figures.
pub fn outlying(figures: &[f64]) -> Vec<usize> {
    let logs: Vec<f64> = figures.iter().map(|figure| figure.ln()).collect();
    let middle_of = |figures: &[f64]| median_interval_covering(figures, 0.5).map(|interval| interval.median);
    let Some(middle) = middle_of(&logs).filter(|_| logs.len() >= 5) else { return Vec::new() };
    let deviations: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    let usual = middle_of(&deviations).unwrap_or(0.0).max(USUAL_LEAST);
    (0..).zip(&deviations).filter(|(_, far)| **far > FAR * usual).map(|(at, _)| at).collect()
}

/// The probability that the true median lies between the figures of this rank, from 0, counted from below and
/// from above: one minus twice the probability that at most `rank` of `count` fair coins show heads.
fn rank_coverage(count: usize, rank: usize) -> f64 {
    let mut chance = 0.5f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut tail = chance;
    for heads in 1..=rank {
        chance *= (count - heads + 1) as f64 / heads as f64;
        tail += chance;
    }
    (1.0 - 2.0 * tail).max(0.0)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_from_most_stands_out_unless_there_are_few() {
        assert_eq!(outlying(&[100.0, 101.0, 99.0, 100.5, 60.0]), [4]);
        assert!(outlying(&[100.0, 101.0, 99.0, 60.0]).is_empty());
        assert_eq!(outlying(&[100.0, 100.0, 100.0, 100.5, 60.0]), [4]);
    }

    fn interval_up_to(count: u32) -> Interval {
        let figures: Vec<f64> = (1..=count).rev().map(f64::from).collect();
        median_interval(&figures).unwrap()
    }

    #[test]
    fn it_is_the_pair_of_order_statistics_that_tables_give() {
        // n, ranks from 1, coverage: the sign test's table.
        for (count, low, high, coverage) in
            [(6, 1, 6, 0.969), (8, 1, 8, 0.992), (9, 2, 8, 0.961), (10, 2, 9, 0.979), (20, 6, 15, 0.959)]
        {
            let interval = interval_up_to(count);
            assert!((interval.low - f64::from(low)).abs() < 1e-9, "{count}: {interval:?}");
            assert!((interval.high - f64::from(high)).abs() < 1e-9, "{count}: {interval:?}");
            assert!((interval.coverage - coverage).abs() < 0.000_9, "{count}: {interval:?}");
            assert!((interval.median - f64::from(count + 1) / 2.0).abs() < 1e-9);
        }
    }

    #[test]
    fn few_figures_say_how_little_they_cover() {
        assert_eq!(median_interval(&[]), None);
        let one = median_interval(&[7.0]).unwrap();
        assert_eq!((one.low, one.high, one.coverage, one.count), (7.0, 7.0, 0.0, 1));
        assert!((interval_up_to(3).coverage - 0.75).abs() < 1e-12);
        assert!((interval_up_to(5).coverage - 0.9375).abs() < 1e-12);
    }
}
