//! The permutation test: how often a series without a change would show as much as this one does. Figures in another
//! order have other single outliers, so the outliers of each order are left out anew.

use fastrand::Rng;

use crate::outlier;

/// Rounding may make equal statistics differ by this share.
const ROUNDING: f64 = 1e-9;

/// The probability that points in a random order show at least `shown`, by up to `permutations` orders:
/// (k + 1) / (n + 1). `reaches` answers whether points without their single outliers show as much as its second
/// argument. Ends early, with the share so far, when the probability is certainly above `most`.
pub(crate) fn chance(
    points: &[f64],
    shown: f64,
    permutations: u32,
    most: f64,
    seed: u64,
    mut reaches: impl FnMut(&[f64], f64) -> bool,
) -> f64 {
    let mut random = Rng::with_seed(seed);
    let mut shuffled = points.to_vec();
    let mut counted = Vec::with_capacity(points.len());
    let limit = shown - shown.abs() * ROUNDING;
    let enough = (most * f64::from(permutations + 1)).ceil();
    let enough = u32::try_from(enough as u64).unwrap_or(u32::MAX);
    let mut reached = 0;
    for made in 1..=permutations {
        random.shuffle(&mut shuffled);
        counted.clear();
        counted.extend(outlier::others(&shuffled).into_iter().map(|at| shuffled[at]));
        reached += u32::from(reaches(&counted, limit));
        if reached >= enough {
            return f64::from(reached + 1) / f64::from(made + 1);
        }
    }
    f64::from(reached + 1) / f64::from(permutations + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::divergence::Divergence;

    fn chance_of_best(points: &[f64], permutations: u32, seed: u64) -> f64 {
        let mut divergence = Divergence::default();
        let best = divergence.best(points).unwrap();
        chance(points, best.divergence, permutations, 1.0, seed, |points, limit| {
            divergence.reaches(points, limit)
        })
    }

    /// Two of the 84 ways to choose three of nine points are at an end.
    #[test]
    fn three_of_nine_points_have_the_chance_that_counting_gives() {
        let counted = chance_of_best(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 9_999, 1);
        // With a free end, some arrangements with all three in the middle diverge as much.
        assert!((2.0 / 84.0 - 0.005..0.06).contains(&counted), "{counted}");
    }

    #[test]
    fn it_is_the_same_every_time_and_seldom_small_without_a_change() {
        let mut random = Rng::with_seed(11);
        let mut small = 0;
        for _ in 0..100 {
            let points: Vec<f64> = (0..20).map(|_| random.f64()).collect();
            let first = chance_of_best(&points, 199, 3);
            assert!((first - chance_of_best(&points, 199, 3)).abs() < 1e-12);
            small += u32::from(first <= 0.05);
        }
        // 5 are expected; 13 or more have a probability of 0.001.
        assert!(small <= 12, "{small}");
    }
}
