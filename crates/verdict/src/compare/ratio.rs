//! The median ratio, how sure it is, and which blocks stand out.
//!
//! The interval is the wider, on each side, of two. The order statistics of all ratios are exact at any number
//! of them when ratios are independent; those of one block share its conditions and may not be. The bootstrap
//! draws whole blocks, so it allows for that; but from six blocks alone its interval is too narrow: more than
//! one in ten equal pairs fall out of it (`tests/compare`). Together they keep the error rate.

use crate::interval::{self, Interval, bootstrap_ratio, median_interval_covering};

/// The ratios that can be used.
fn usable(blocks: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let is_usable = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
    blocks.iter().map(|ratios| ratios.iter().copied().filter(is_usable).collect()).collect()
}

/// The median ratio with an interval that misses the true one with a probability of `error_rate` at most. Its
/// coverage says when there are too few ratios for that. None without a ratio.
pub(super) fn interval(blocks: &[Vec<f64>], error_rate: f64, seed: u64) -> Option<Interval> {
    let blocks = usable(blocks);
    let by_rank = median_interval_covering(&blocks.concat(), 1.0 - error_rate)?;
    let drawn = bootstrap_ratio(&blocks, 1.0 - error_rate, seed)?;
    Some(Interval { low: by_rank.low.min(drawn.low), high: by_rank.high.max(drawn.high), ..by_rank })
}

/// The chance that as many ratios or more lie on one side of 1, if the true median is 1: the sign test. A ratio
/// of exactly 1 counts against a difference.
pub(super) fn chance_of_equality(blocks: &[Vec<f64>]) -> f64 {
    let ratios = usable(blocks).concat();
    let above = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let below = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    let others = ratios.len() - above.max(below);
    let mut chance = 0.5f64.powi(ratios.len() as i32);
    let mut tail = chance;
    for heads in 1..=others {
        chance *= (ratios.len() - heads + 1) as f64 / heads as f64;
        tail += chance;
    }
    (2.0 * tail).min(1.0)
}

/// The places of blocks with a ratio that stands out.
pub(super) fn outlying(blocks: &[Vec<f64>]) -> Vec<usize> {
    let usable = usable(blocks);
    let block_of = (0..).zip(&usable).flat_map(|(block, ratios)| ratios.iter().map(move |_| block));
    let block_of: Vec<usize> = block_of.collect();
    let mut blocks: Vec<usize> =
        interval::outlying(&usable.concat()).into_iter().map(|ratio| block_of[ratio]).collect();
    blocks.dedup();
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_is_that_of_the_table() {
        let of = |ratios: &[f64]| chance_of_equality(&[ratios.to_vec()]);
        assert!((of(&[0.9; 6]) - 0.031_25).abs() < 1e-12);
        assert!((of(&[0.9, 0.9, 0.9, 0.9, 0.9, 1.1]) - 0.218_75).abs() < 1e-12);
        assert!((of(&[0.9, 1.1]) - 1.0).abs() < 1e-12);
        assert!((of(&[]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_outlier_is_flagged_and_counts() {
        let mut blocks: Vec<Vec<f64>> =
            (0..6).map(|block| vec![0.99, 1.0 + f64::from(block) / 1e3]).collect();
        blocks[4] = vec![0.99, 0.7];
        assert_eq!(outlying(&blocks), [4]);
        assert_eq!(interval(&blocks, 0.05, 1).unwrap().count, 12);
    }

    #[test]
    fn what_is_no_ratio_is_left_out() {
        let blocks = vec![vec![f64::NAN, 1.0], vec![0.0], vec![f64::INFINITY]];
        assert_eq!(interval(&blocks, 0.05, 1).unwrap().count, 1);
        assert_eq!(interval(&[], 0.05, 1), None);
    }
}
