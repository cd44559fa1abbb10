//! How many more blocks an inconclusive comparison needs: an estimate, from what was seen so far, and where that is too
//! little for one, how many at least.

use super::LEAST_BLOCKS;
use crate::interval::Interval;

/// How many more blocks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct More {
    pub(super) blocks: u32,
    /// Whether nothing tells that these would do, and only that fewer would not.
    pub(super) is_least: bool,
}

/// What any verdict takes, or the estimate where that is more; none where enough were made and nothing can be estimated.
pub(super) fn blocks_wanted(
    blocks: &[Vec<f64>],
    ratio: Option<&Interval>,
    mde: Option<f64>,
    error_rate: f64,
) -> Option<More> {
    let made = blocks.iter().filter(|ratios| !ratios.is_empty()).count() as u32;
    let least = LEAST_BLOCKS.max(blocks_for_coverage(blocks, error_rate)).saturating_sub(made);
    let estimate = ratio.zip(mde).and_then(|(ratio, mde)| estimate(made, ratio, mde));
    let blocks = Some(estimate.unwrap_or(0).max(least)).filter(|blocks| *blocks > 0)?;
    // An interval that covers less is narrower than what must become narrow.
    let is_covering = ratio.is_some_and(|ratio| ratio.coverage >= 1.0 - error_rate);
    Some(More { blocks, is_least: estimate.is_none() || !is_covering })
}

/// An interval narrows with the root of the number of blocks. It settles the matter when it is narrow enough
/// either to exclude equality or to lie inside ± MDE, if the median stays where it is.
fn estimate(made: u32, ratio: &Interval, mde: f64) -> Option<u32> {
    let detectable = mde.ln_1p();
    let distance = ratio.median.ln().abs();
    let width = (ratio.high / ratio.low).ln() / 2.0;
    let narrowed_to = |wanted: f64| f64::from(made) * (width / wanted).powi(2);
    let to_exclude = (distance >= detectable / 2.0).then(|| narrowed_to(distance));
    let to_lie_inside = (distance < detectable).then(|| narrowed_to(detectable - distance));
    let wanted = [to_exclude, to_lie_inside].into_iter().flatten().reduce(f64::min)?;
    // Few more than were made, or none, is what a lopsided interval amounts to.
    wanted.is_finite().then(|| (wanted.ceil() as u32).saturating_sub(made).max(1))
}

/// With n ratios, all of them on one side has a chance of 2 / 2ⁿ under equality: how many blocks make that
/// as rare as the error rate.
fn blocks_for_coverage(blocks: &[Vec<f64>], error_rate: f64) -> u32 {
    let in_block = blocks.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let ratios = (2.0 / error_rate).log2().ceil();
    (ratios / in_block as f64).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, median: f64, high: f64) -> Interval {
        Interval { low, median, high, coverage: 0.96, count: 12 }
    }

    #[test]
    fn a_width_twice_too_large_takes_four_times_the_blocks() {
        let blocks = vec![vec![1.0, 1.0]; 6];
        // A median of 2 %, ± 4 %, where 1 % can be detected.
        let seen = ratio(0.98, 1.02, 1.062);
        let more = |seen: &Interval, mde| blocks_wanted(&blocks, Some(seen), Some(mde), 0.05).unwrap();
        assert!((18..=20).contains(&more(&seen, 0.01).blocks));
        // Equal as far as can be seen, ± 4 %, where 2 % can be detected.
        let seen = ratio(0.961, 1.0, 1.04);
        assert!((17..=19).contains(&more(&seen, 0.02).blocks));
        assert!(!more(&seen, 0.02).is_least);
    }

    #[test]
    fn six_at_least_and_more_for_many_comparisons() {
        let least = |made: usize, error_rate| blocks_wanted(&vec![vec![1.0]; made], None, None, error_rate);
        assert_eq!(least(4, 0.05), Some(More { blocks: 2, is_least: true }));
        assert_eq!(least(4, 0.05 / 25.0), Some(More { blocks: 6, is_least: true }));
        assert_eq!(least(6, 0.05), None);
    }

    /// What is too few for any verdict is not enough for this one where it takes more.
    #[test]
    fn the_estimate_counts_below_six_blocks_as_well() {
        let seen = ratio(0.961, 1.0, 1.04);
        let more = |seen: &Interval, mde| {
            blocks_wanted(&vec![vec![1.0; 2]; 4], Some(seen), Some(mde), 0.05).unwrap()
        };
        assert!((11..=13).contains(&more(&seen, 0.02).blocks), "{:?}", more(&seen, 0.02));
        assert_eq!(more(&seen, 0.1), More { blocks: 2, is_least: false });
        let uncovered = Interval { coverage: 0.875, ..seen };
        assert_eq!(more(&uncovered, 0.02), More { is_least: true, ..more(&seen, 0.02) });
    }
}
