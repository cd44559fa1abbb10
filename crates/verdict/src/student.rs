//! Student's t-distribution, for means of a few logarithms.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The value below which this share of the distribution lies, 0 to 1. `freedom`: degrees of
/// freedom, 1 or more.
pub fn quantile(share: f64, freedom: usize) -> f64 {
    standard(freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(share))
}

/// The probability of a value at least as far from 0 as this one, on either side.
pub fn chance_beyond(value: f64, freedom: usize) -> f64 {
    standard(freedom).map_or(1.0, |student| 2.0 * student.sf(value.abs()))
}

fn standard(freedom: usize) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom as f64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_table() {
        for (freedom, quantile_of_both) in [(1, 12.706), (5, 2.571), (11, 2.201), (30, 2.042)] {
            assert!((quantile(0.975, freedom) - quantile_of_both).abs() < 6e-4, "{freedom}");
            assert!((chance_beyond(-quantile_of_both, freedom) - 0.05).abs() < 5e-5, "{freedom}");
        }
        assert_eq!((quantile(0.975, 0), chance_beyond(9.0, 0)), (f64::INFINITY, 1.0));
    }
}
