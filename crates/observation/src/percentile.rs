//! Percentiles of few samples: as bounds that hold whatever the distribution is, by order statistics (David and
//! Nagaraja, Order Statistics, 3rd edition, section 7.1).

/// The confidence of a bound: in at most one of 20 trials the percentile lies beyond it.
pub const CONFIDENCE: f64 = 0.95;

/// From so many expected samples beyond a percentile on, their number is counted by its normal approximation.
const MANY: f64 = 300.0;

/// The quantile of the standard normal distribution at [`CONFIDENCE`].
const NORMAL: f64 = 1.645;

/// How many of the greatest of `count` samples to leave out at most, so that the greatest of the rest is an upper bound
/// of a percentile with [`CONFIDENCE`]. Each sample is beyond it with this `chance`. `None` if even the greatest sample
/// is no such bound.
pub fn left_out(count: u64, chance: f64) -> Option<u64> {
    let mean = count as f64 * chance;
    if mean > MANY {
        return Some((mean - NORMAL * (mean * (1.0 - chance)).sqrt() - 1.0) as u64);
    }
    last_below(count, chance, 1.0 - CONFIDENCE)
}

/// How many of the greatest of `count` samples to leave out at least, so that the greatest of the rest is a lower bound
/// of a percentile with [`CONFIDENCE`]. Each sample is beyond it with this `chance`. `None` if no sample is left.
pub fn left_out_at_least(count: u64, chance: f64) -> Option<u64> {
    let mean = count as f64 * chance;
    let beyond = if mean > MANY {
        (mean + NORMAL * (mean * (1.0 - chance)).sqrt() + 1.0) as u64
    } else {
        last_below(count, chance, CONFIDENCE).map_or(0, |below| below + 1)
    };
    (beyond < count).then_some(beyond)
}

/// The greatest number of successes whose cumulative binomial probability is at most `limit`.
fn last_below(count: u64, chance: f64, limit: f64) -> Option<u64> {
    let odds = chance / (1.0 - chance);
    let mut term = (count as f64 * (-chance).ln_1p()).exp();
    let (mut sum, mut last) = (0.0, None);
    for successes in 0..=count {
        sum += term;
        if sum > limit {
            break;
        }
        last = Some(successes);
        term *= (count - successes) as f64 / (successes + 1) as f64 * odds;
    }
    last
}

/// The least number of samples that bound a percentile from above.
pub fn samples_least(chance: f64) -> u64 {
    ((1.0 - CONFIDENCE).ln() / (-chance).ln_1p()).ceil() as u64
}

/// A percentile as samples show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    /// It is about this.
    Is(u64),
    /// It is at most this, with a confidence of [`CONFIDENCE`].
    AtMost(u64),
    /// The samples are too few for a bound. This is the greatest.
    Greatest(u64),
}

impl Percentile {
    /// The time that it says.
    pub fn time_us(self) -> u64 {
        match self {
            Self::Is(time_us) | Self::AtMost(time_us) | Self::Greatest(time_us) => time_us,
        }
    }

    /// It in words, with its `name` and the words for a time: `p99 3.1 ms`, `p99 at most 3.1 ms` or `greatest 3.1 ms`.
    pub fn words(self, name: &str, time: impl Fn(u64) -> String) -> String {
        match self {
            Self::Is(time_us) => format!("{name} {}", time(time_us)),
            Self::AtMost(time_us) => format!("{name} at most {}", time(time_us)),
            Self::Greatest(time_us) => format!("greatest {}", time(time_us)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.99^298 is above 0.05, and 0.99^299 is not (299 is the number of Wilks, 1941, for 99 % at 95 %). The ranks for
    /// 1,000 samples: P(Bin(1000, 0.01) <= 4) = 0.0287 and P(<= 5) = 0.0661; P(<= 15) = 0.9521.
    #[test]
    fn bounds_are_those_of_the_binomial_distribution() {
        assert_eq!((left_out(298, 0.01), left_out(299, 0.01), samples_least(0.01)), (None, Some(0), 299));
        assert_eq!((samples_least(0.05), samples_least(0.1), samples_least(0.001)), (59, 29, 2_995));
        assert_eq!(left_out(1_000, 0.01), Some(4));
        assert_eq!(left_out_at_least(1_000, 0.01), Some(15));
        assert_eq!((left_out(5, 0.5), left_out(4, 0.5)), (Some(0), None));
        assert_eq!(
            (left_out(0, 0.01), left_out_at_least(0, 0.01), left_out_at_least(1, 0.5)),
            (None, None, None)
        );
        // P(Bin(30000, 0.01) <= 271) = 0.0471, exactly.
        assert_eq!(left_out(30_000, 0.01), Some(271));
        let many = left_out(1_000_000, 0.01).unwrap();
        assert!((9_825..9_840).contains(&many), "{many}");
    }

    #[test]
    fn a_bound_is_not_called_a_figure() {
        let words = |percentile: Percentile| percentile.words("p99", |time_us| format!("{time_us} us"));
        assert_eq!(words(Percentile::Is(7)), "p99 7 us");
        assert_eq!(words(Percentile::AtMost(7)), "p99 at most 7 us");
        assert_eq!(words(Percentile::Greatest(7)), "greatest 7 us");
    }
}
