//! How the logarithms of block ratios scatter, and what follows: the interval of their mean, its probability
//! among equals, and the least detectable difference.

use super::LEAST_BLOCKS;
use crate::interval::{self, Interval};
use crate::mean::{mean, squares};
use crate::narrow::narrow;
use crate::student::{chance_beyond, quantile};

/// Fewer blocks of A against itself do not show how much A scatters.
const SAME_LEAST: usize = 3;

/// The probability, 0 to 1, that a difference as large as the MDE is found.
const FOUND: f64 = 0.95;

/// Equals reach the claimed distance with this multiple of the probability that an interval misses the truth. A
/// difference of a part of the MDE is then seldom claimed, too.
const RARELY: f64 = 0.2;

/// The ratios of blocks, as logarithms.
pub(super) struct Logs {
    logs: Vec<f64>,
}

impl Logs {
    /// The logarithms of the ratios that are finite and above 0.
    pub(super) fn from_ratios(ratios: &[f64]) -> Self {
        Self { logs: ratios.iter().map(|ratio| ratio.ln()).filter(|log| log.is_finite()).collect() }
    }

    /// The geometric mean with an interval that misses the true ratio with a probability of `error_rate`. The
    /// interval of fewer than [`LEAST_BLOCKS`] blocks has coverage 0: by Student's t, that of two blocks would span
    /// orders of magnitude. `None` without a ratio.
    pub(super) fn interval(&self, error_rate: f64) -> Option<Interval> {
        let count = self.logs.len();
        let freedom = count.checked_sub(1)?;
        let mean = mean(&self.logs);
        let (reach, coverage) = match self.variance() {
            Some(variance) if count >= LEAST_BLOCKS as usize => (
                quantile(1.0 - error_rate / 2.0, freedom) * (variance / count as f64).sqrt(),
                1.0 - error_rate,
            ),
            _ => (0.0, 0.0),
        };
        let (low, high) = ((mean - reach).exp(), (mean + reach).exp());
        Some(Interval { median: mean.exp(), low, high, coverage, count: narrow(count) })
    }

    /// The probability, among equals, of a mean at least as far from equality as this one (Student's t-test).
    pub(super) fn chance_of_equality(&self) -> f64 {
        let Some(variance) = self.variance() else { return 1.0 };
        let error = (variance / self.logs.len() as f64).sqrt();
        match mean(&self.logs) / error {
            // All blocks are equal, and their mean is 0.
            far if far.is_nan() => 1.0,
            far => chance_beyond(far, self.logs.len() - 1),
        }
    }

    fn variance(&self) -> Option<f64> {
        (self.logs.len() > 1).then(|| squares(&self.logs) / (self.logs.len() - 1) as f64)
    }
}

/// The least difference, a share, that a comparison with these ratios of B to A finds in 95 of 100 cases, if
/// its interval misses the truth with a probability of `error_rate`. The true ratio of A to itself is 1.
/// `share` is the variance of a block's ratio divided by the variance of A to itself. Both variances are
/// pooled; if the variance of the ratios alone is greater, it counts. `None` with fewer than three blocks of A
/// against itself, or with fewer than [`LEAST_BLOCKS`] ratios.
pub(super) fn least_detectable(ratios: &Logs, same: &Logs, share: f64, error_rate: f64) -> Option<f64> {
    let (count, of_same) = (ratios.logs.len(), same.logs.len());
    if count < LEAST_BLOCKS as usize || of_same < SAME_LEAST {
        return None;
    }
    let freedom = of_same + count - 1;
    let astray: f64 = same.logs.iter().map(|log| log * log).sum();
    let of_both = (share * astray + squares(&ratios.logs)) / freedom as f64;
    let variance = ratios.variance()?.max(of_both);
    let errors = quantile(1.0 - error_rate * RARELY / 2.0, count - 1) + quantile(FOUND, count - 1);
    Some((errors * (variance / count as f64).sqrt()).exp_m1())
}

/// The indices of blocks whose ratio stands out.
pub(super) fn outlying(ratios: &[f64]) -> Vec<usize> {
    let usable: Vec<(usize, f64)> =
        (0..).zip(ratios.iter().copied()).filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0).collect();
    let only: Vec<f64> = usable.iter().map(|(_, ratio)| *ratio).collect();
    interval::outlying(&only).into_iter().map(|at| usable[at].0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(logs: &[f64]) -> Logs {
        Logs { logs: logs.to_vec() }
    }

    #[test]
    fn the_interval_and_the_chance_are_students() {
        // Mean 0.02, standard deviation 0.01, five degrees of freedom.
        let of = logs(&[0.02 - 0.009_129, 0.02 + 0.009_129].repeat(3));
        let interval = of.interval(0.05).unwrap();
        let reach = 2.5706 * 0.01 / 6.0_f64.sqrt();
        assert!((interval.low.ln() - (0.02 - reach)).abs() < 1e-5, "{interval:?}");
        assert!((interval.high.ln() - (0.02 + reach)).abs() < 1e-5, "{interval:?}");
        assert!((interval.coverage - 0.95).abs() < 1e-12 && interval.count == 6);
        // t = 4.899
        assert!((of.chance_of_equality() - 0.0045).abs() < 1e-4, "{}", of.chance_of_equality());
    }

    #[test]
    fn too_few_blocks_say_how_little_they_show() {
        for few in 1..LEAST_BLOCKS as usize {
            let few = logs(&[0.1, 0.3].repeat(3)[..few]).interval(0.05).unwrap();
            assert_eq!((few.low, few.high, few.coverage), (few.median, few.median, 0.0));
        }
        assert!((logs(&[0.1]).chance_of_equality() - 1.0).abs() < 1e-12);
        assert_eq!(Logs::from_ratios(&[f64::NAN, 0.0, f64::INFINITY]).interval(0.05), None);
        assert!((logs(&[0.0; 6]).chance_of_equality() - 1.0).abs() < 1e-12);
        assert!(logs(&[0.1; 6]).chance_of_equality() < 1e-12);
    }

    #[test]
    fn what_is_least_detectable_takes_both_scatters_and_the_number_of_blocks() {
        let (ratios, same) = (logs(&[0.01, -0.01].repeat(3)), logs(&[0.01, -0.01].repeat(3)));
        // Five degrees of freedom: 4.032 + 2.015. The variance is that of the ratios, 1.2e-4, which is the
        // greater one.
        let mde = least_detectable(&ratios, &same, 1.0, 0.05).unwrap();
        assert!((mde.ln_1p() - 6.047 * (1.2e-4_f64 / 6.0).sqrt()).abs() < 1e-5, "{mde}");
        // A scatters twice as far: (6 x 4e-4 x 3/4 + 6e-4) / 11.
        let wide = least_detectable(&ratios, &logs(&[0.02, -0.02].repeat(3)), 0.75, 0.05).unwrap();
        assert!((wide.ln_1p() - 6.047 * (2.1818e-4_f64 / 6.0).sqrt()).abs() < 1e-5, "{wide}");
        let many =
            least_detectable(&logs(&[0.01, -0.01].repeat(12)), &logs(&[0.01, -0.01].repeat(12)), 1.0, 0.05);
        assert!(many.unwrap() < mde * 0.40);
        assert_eq!(least_detectable(&ratios, &logs(&[0.01; 2]), 1.0, 0.05), None);
        assert_eq!(least_detectable(&logs(&[0.01; 5]), &same, 1.0, 0.05), None);
    }

    #[test]
    fn an_outlier_is_flagged_where_it_stands() {
        assert_eq!(outlying(&[f64::NAN, 1.0, 1.001, 0.999, 1.0005, 0.7]), [5]);
    }
}
