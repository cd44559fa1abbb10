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
/// and no estimate is possible. `coarse` is the greatest MDE, a share, of a verdict of equivalence.
pub(super) fn blocks_wanted(
    ratio: Option<&Interval>,
    mde: Option<f64>,
    error_rate: f64,
    coarse: f64,
) -> Option<More> {
    let made = ratio.map_or(0, |ratio| ratio.count);
    let least = LEAST_BLOCKS.saturating_sub(made);
    let covering = ratio.filter(|ratio| ratio.coverage > 0.0);
    let estimate =
        covering.zip(mde).and_then(|(ratio, mde)| estimate(made, ratio, mde, (error_rate, coarse)));
    let blocks = Some(estimate.unwrap_or(0).max(least)).filter(|blocks| *blocks > 0)?;
    Some(More { blocks, is_least: estimate.is_none() })
}

/// Assumes that the ratio and the scatter of blocks stay as they are. A difference is claimed once the interval
/// excludes 1 and the ratio is far enough from 1 for its MDE. Equivalence is claimed once the MDE is small enough, if
/// the interval still lies within it. `None` if both take [`MOST`] blocks or more.
fn estimate(made: u32, ratio: &Interval, mde: f64, (error_rate, coarse): (f64, f64)) -> Option<u32> {
    let distance = ratio.median.ln().abs();
    let width = (ratio.high / ratio.low).ln() / 2.0;
    let claimed = width.max(mde.ln_1p() * CLAIMED);
    let student = |blocks: u32| quantile(1.0 - error_rate / 2.0, blocks.saturating_sub(1) as usize);
    let narrowed =
        |blocks: u32| (f64::from(made) / f64::from(blocks)).sqrt() * student(blocks) / student(made);
    let is_claimed = |by: f64| claimed * by <= distance;
    let is_equivalent = |by: f64| {
        let detectable = mde.ln_1p() * by;
        detectable <= coarse.ln_1p() && distance + width * by < detectable
    };
    (made + 1..made + MOST)
        .find(|blocks| {
            let by = narrowed(*blocks);
            is_claimed(by) || is_equivalent(by)
        })
        .map(|blocks| blocks - made)
}

/// An estimate of so many blocks or more helps no user.
const MOST: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::COARSE;

    fn ratio(median: f64, width: f64, count: u32) -> Interval {
        let (low, high) = (median / (1.0 + width), median * (1.0 + width));
        Interval { low, median, high, coverage: 0.95, count }
    }

    #[test]
    fn a_width_twice_too_large_takes_three_times_the_blocks() {
        let more = |ratio: &Interval, mde| blocks_wanted(Some(ratio), Some(mde), 0.05, COARSE).unwrap();
        assert_eq!(more(&ratio(1.02, 0.04, 6), 0.01), More { blocks: 11, is_least: false });
        // The interval is narrow enough, but the MDE is not: 0.6 of it is 6.8 %, and becomes 4.4 % with 11 blocks.
        assert_eq!(more(&ratio(1.045, 0.01, 6), 0.12), More { blocks: 5, is_least: false });
        // With 12 blocks the MDE is below 5 %, and the interval around 2 % lies within it.
        assert_eq!(more(&ratio(1.02, 0.01, 6), 0.08), More { blocks: 6, is_least: false });
    }

    #[test]
    fn six_at_least() {
        let least =
            |made| blocks_wanted((made > 0).then(|| ratio(1.02, 0.04, made)).as_ref(), None, 0.05, COARSE);
        assert_eq!(least(0), Some(More { blocks: 6, is_least: true }));
        assert_eq!(least(4), Some(More { blocks: 2, is_least: true }));
        assert_eq!(least(6), None);
        let single = Interval { coverage: 0.0, ..ratio(1.02, 0.0, 1) };
        assert_eq!(
            blocks_wanted(Some(&single), Some(0.01), 0.05, COARSE),
            Some(More { blocks: 5, is_least: true })
        );
    }

    #[test]
    fn what_is_equal_to_the_last_bit_has_no_estimate() {
        assert_eq!(blocks_wanted(Some(&ratio(1.0, 0.06, 6)), Some(0.05), 0.05, COARSE), None);
    }

    /// The MDE of ten blocks is 10 %, and 5 % are wanted: 9.53 / 4.88 = 1.95 times narrower, so some 33 blocks, of
    /// which more degrees of freedom save a few (Student's t: 2.262 for ten blocks, 2.048 for 29).
    #[test]
    fn an_mde_twice_too_large_takes_three_times_the_blocks() {
        let more = |median| blocks_wanted(Some(&ratio(median, 0.03, 10)), Some(0.1), 0.05, COARSE).unwrap();
        let blocks = more(1.0);
        assert!((21..=24).contains(&blocks.blocks) && !blocks.is_least, "{blocks:?}");
        // A difference of 4 % shows before that.
        assert!(more(1.04).blocks < blocks.blocks, "{:?}", more(1.04));
    }
}
