//! How many more blocks an inconclusive comparison needs: an estimate from the trials so far or, if they allow
//! no estimate, the least number.

use super::{CLAIMED, LEAST_BLOCKS};
use crate::interval::Interval;
use crate::student::quantile;

/// A number of further blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct More {
    pub(super) blocks: u32,
    /// Whether `blocks` is only a lower bound: fewer would not suffice, and these might not either.
    pub(super) is_least: bool,
}

/// The number of blocks that any verdict needs, or the estimate if that is greater. `None` if enough were made
/// and no estimate is possible.
pub(super) fn blocks_wanted(ratio: Option<&Interval>, mde: Option<f64>, error_rate: f64) -> Option<More> {
    let made = ratio.map_or(0, |ratio| ratio.count);
    let least = LEAST_BLOCKS.saturating_sub(made);
    let covering = ratio.filter(|ratio| ratio.coverage > 0.0);
    let estimate = covering.zip(mde).and_then(|(ratio, mde)| estimate(made, ratio, mde, error_rate));
    let blocks = Some(estimate.unwrap_or(0).max(least)).filter(|blocks| *blocks > 0)?;
    Some(More { blocks, is_least: estimate.is_none() })
}

/// Assumes that the ratio and the scatter of blocks stay as they are. A difference is claimed once the interval
/// excludes 1 and the ratio is far enough from 1 for its MDE. `None` if that takes [`MOST`] blocks or more.
fn estimate(made: u32, ratio: &Interval, mde: f64, error_rate: f64) -> Option<u32> {
    let distance = ratio.median.ln().abs();
    let width = (ratio.high / ratio.low).ln() / 2.0;
    let claimed = width.max(mde.ln_1p() * CLAIMED);
    let student = |blocks: u32| quantile(1.0 - error_rate / 2.0, blocks.saturating_sub(1) as usize);
    let narrowed =
        |blocks: u32| (f64::from(made) / f64::from(blocks)).sqrt() * student(blocks) / student(made);
    (made + 1..made + MOST).find(|blocks| claimed * narrowed(*blocks) <= distance).map(|blocks| blocks - made)
}

/// An estimate of so many blocks or more helps no user.
const MOST: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(median: f64, width: f64, count: u32) -> Interval {
        let (low, high) = (median / (1.0 + width), median * (1.0 + width));
        Interval { low, median, high, coverage: 0.95, count }
    }

    #[test]
    fn a_width_twice_too_large_takes_three_times_the_blocks() {
        let more = |ratio: &Interval, mde| blocks_wanted(Some(ratio), Some(mde), 0.05).unwrap();
        assert_eq!(more(&ratio(1.02, 0.04, 6), 0.01), More { blocks: 11, is_least: false });
        // The interval is narrow enough, but the MDE is not.
        assert_eq!(more(&ratio(1.02, 0.01, 6), 0.08), More { blocks: 16, is_least: false });
    }

    #[test]
    fn six_at_least() {
        let least = |made| blocks_wanted((made > 0).then(|| ratio(1.02, 0.04, made)).as_ref(), None, 0.05);
        assert_eq!(least(0), Some(More { blocks: 6, is_least: true }));
        assert_eq!(least(4), Some(More { blocks: 2, is_least: true }));
        assert_eq!(least(6), None);
        let few = blocks_wanted(Some(&ratio(1.02, 0.01, 4)), Some(0.01), 0.05);
        assert_eq!(few, Some(More { blocks: 2, is_least: false }), "the estimate is less");
        let single = Interval { coverage: 0.0, ..ratio(1.02, 0.0, 1) };
        assert_eq!(blocks_wanted(Some(&single), Some(0.01), 0.05), Some(More { blocks: 5, is_least: true }));
    }

    #[test]
    fn what_is_equal_to_the_last_bit_has_no_estimate() {
        assert_eq!(blocks_wanted(Some(&ratio(1.0, 0.01, 6)), Some(0.05), 0.05), None);
    }
}
