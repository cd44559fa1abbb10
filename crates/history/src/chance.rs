//! The permutation test: how often a series without a change would diverge as much.

use fastrand::Rng;

use crate::divergence::Divergence;

/// Rounding may make equal divergences differ by this share.
const ROUNDING: f64 = 1e-9;

/// The probability that points in a random order diverge as much as these do, by up to `permutations` of them:
/// (k + 1) / (n + 1). Ends early, with the share so far, when the probability is certainly above `most`.
pub(crate) fn chance(points: &[f64], divergence: f64, permutations: u32, most: f64, seed: u64) -> f64 {
    let mut random = Rng::with_seed(seed);
    let mut shuffled = points.to_vec();
    let mut sums = Divergence::default();
    let limit = divergence - divergence.abs() * ROUNDING;
    let enough = (most * f64::from(permutations + 1)).ceil() as u32;
    let mut reached = 0;
    for made in 1..=permutations {
        random.shuffle(&mut shuffled);
        reached += u32::from(sums.reaches(&shuffled, limit));
        if reached >= enough {
            return f64::from(reached + 1) / f64::from(made + 1);
        }
    }
    f64::from(reached + 1) / f64::from(permutations + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[f64]) -> f64 {
        let best = Divergence::default().best(points).unwrap();
        chance(points, best.divergence, 9_999, 1.0, 1)
    }

    /// Of the 84 ways to choose three of nine points, two are at an end.
    #[test]
    fn three_of_nine_points_have_the_chance_that_counting_gives() {
        let points = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        let counted = of(&points);
        // With a free end, some arrangements with all three in the middle diverge as much.
        assert!((2.0 / 84.0 - 0.005..0.06).contains(&counted), "{counted}");
    }

    #[test]
    fn it_is_the_same_every_time_and_seldom_small_without_a_change() {
        let mut random = Rng::with_seed(11);
        let mut small = 0;
        for _ in 0..100 {
            let points: Vec<f64> = (0..20).map(|_| random.f64()).collect();
            let best = Divergence::default().best(&points).unwrap();
            let first = chance(&points, best.divergence, 199, 1.0, 3);
            assert!((first - chance(&points, best.divergence, 199, 1.0, 3)).abs() < 1e-12);
            small += u32::from(first <= 0.05);
        }
        // 5 are expected; 13 or more have a probability of 0.001.
        assert!(small <= 12, "{small}");
    }
}
