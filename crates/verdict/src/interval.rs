//! Figures with the range that they leave, and medians with a range that needs no model: order statistics.

use serde::{Deserialize, Serialize};

/// A figure with the range that covers its true median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The median of what was measured; of ratios the geometric mean.
    pub median: f64,
    /// The least that the true value may be.
    pub low: f64,
    /// The most that it may be.
    pub high: f64,
    /// The probability that the range covers it, 0 to 1. Fewer than six figures cannot reach 0.95.
    pub coverage: f64,
    /// How many figures were measured.
    pub count: u32,
}

impl Interval {
    /// The same figure in a unit of which it has so many times as many.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { median: self.median * factor, low: self.low * factor, high: self.high * factor, ..self }
    }

    /// Half of the range as a share of the median; 0 when the median is 0.
    pub fn half_width(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median.abs() }
    }
}

/// What an interval should cover at least.
const WANTED_COVERAGE: f64 = 0.95;

/// The median with its order-statistic interval: the narrowest pair of the k-th smallest and the k-th
/// largest figure that covers the true median with a probability of 95 % or more. With fewer than six
/// figures that is the smallest and the largest, and the coverage says how little they tell. None without
/// figures; those that are no numbers are left out.
pub fn median_interval(figures: &[f64]) -> Option<Interval> {
    median_interval_covering(figures, WANTED_COVERAGE)
}

/// As [`median_interval`], with a coverage of one's own, above 0 and below 1. The result says when the figures
/// are too few for it.
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
    Some(Interval { median: median(&sorted), low, high, coverage, count: count as u32 })
}

/// A figure this many times as far from the median as is usual stands out.
const FAR: f64 = 5.0;

/// Figures that are nearer to each other than this, in logarithms, are usually as far apart: rounding alone makes
/// most of them equal at times.
const USUAL_LEAST: f64 = 0.002;

/// Which figures stand out, above 0 each: those whose ratio to the median is over five times the usual one, both in
/// logarithms. They are told, and count like all others. None of fewer than five.
pub fn outlying(figures: &[f64]) -> Vec<usize> {
    let logs: Vec<f64> = figures.iter().map(|figure| figure.ln()).collect();
    let middle_of = |figures: &[f64]| median_interval_covering(figures, 0.5).map(|interval| interval.median);
    let Some(middle) = middle_of(&logs).filter(|_| logs.len() >= 5) else { return Vec::new() };
    let deviations: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    let usual = middle_of(&deviations).unwrap_or(0.0).max(USUAL_LEAST);
    (0..).zip(&deviations).filter(|(_, far)| **far > FAR * usual).map(|(at, _)| at).collect()
}

/// The probability that the true median lies between the figures of this rank from below and from above,
/// counted from 0: one less twice the chance that at most `rank` of `count` fair coins show heads.
fn rank_coverage(count: usize, rank: usize) -> f64 {
    let mut chance = 0.5f64.powi(count as i32);
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

    fn of(count: u32) -> Interval {
        let figures: Vec<f64> = (1..=count).rev().map(f64::from).collect();
        median_interval(&figures).unwrap()
    }

    #[test]
    fn it_is_the_pair_of_order_statistics_that_tables_give() {
        // n, ranks from 1, coverage: the sign test's table.
        for (count, low, high, coverage) in
            [(6, 1, 6, 0.969), (8, 1, 8, 0.992), (9, 2, 8, 0.961), (10, 2, 9, 0.979), (20, 6, 15, 0.959)]
        {
            let interval = of(count);
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
        assert!((of(3).coverage - 0.75).abs() < 1e-12);
        assert!((of(5).coverage - 0.9375).abs() < 1e-12);
    }
}
