//! How many more blocks an inconclusive comparison needs: an estimate, from what was seen so far.

use super::LEAST_BLOCKS;
use crate::interval::Interval;

/// An interval narrows with the root of the number of blocks. It settles the matter when it is narrow enough
/// either to exclude equality or to lie inside ± MDE, if the median stays where it is.
pub(super) fn blocks_wanted(
    blocks: &[Vec<f64>],
    ratio: Option<&Interval>,
    mde: Option<f64>,
    error_rate: f64,
) -> Option<u32> {
    let made = blocks.iter().filter(|ratios| !ratios.is_empty()).count() as u32;
    let least = LEAST_BLOCKS.max(blocks_for_coverage(blocks, error_rate));
    if made < least {
        return Some(least - made);
    }
    let (ratio, detectable) = (ratio?, mde?.ln_1p());
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
        assert!((18..=20).contains(&blocks_wanted(&blocks, Some(&seen), Some(0.01), 0.05).unwrap()));
        // Equal as far as can be seen, ± 4 %, where 2 % can be detected.
        let seen = ratio(0.961, 1.0, 1.04);
        assert!((17..=19).contains(&blocks_wanted(&blocks, Some(&seen), Some(0.02), 0.05).unwrap()));
    }

    #[test]
    fn six_at_least_and_more_for_many_comparisons() {
        let one = vec![vec![1.0]; 4];
        assert_eq!(blocks_wanted(&one, None, None, 0.05), Some(2));
        assert_eq!(blocks_wanted(&one, None, None, 0.05 / 25.0), Some(6));
        assert_eq!(blocks_wanted(&vec![vec![1.0]; 6], None, None, 0.05), None);
    }
}
