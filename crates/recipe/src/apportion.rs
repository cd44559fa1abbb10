//! Exact shares.

/// Divides `total` by weights, at least one of which must be above 0. Each weight gets the whole part of its
/// share, and those with the largest rest get one more. Every weight above 0 gets at least one, if there are
/// enough, since queries cannot ask for what a small zone lacks.
pub(super) fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| total as f64 * weight / sum).collect();
    let mut counts: Vec<u64> = shares.iter().map(|share| *share as u64).collect();
    let mut by_rest: Vec<usize> = (0..weights.len()).filter(|&index| weights[index] > 0.0).collect();
    by_rest.sort_by(|&a, &b| shares[b].fract().total_cmp(&shares[a].fract()));
    let missing = total.saturating_sub(counts.iter().sum());
    for &index in by_rest.iter().cycle().take(missing as usize) {
        counts[index] += 1;
    }
    if total >= by_rest.len() as u64 {
        for &index in &by_rest {
            if counts[index] == 0 {
                let most = (0..counts.len()).max_by_key(|&index| counts[index]).unwrap_or(index);
                counts[most] -= 1;
                counts[index] = 1;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_to_one_entry_and_add_up() {
        assert_eq!(apportion(100, &[60.0, 20.0, 10.0, 4.0, 3.0, 3.0]), [60, 20, 10, 4, 3, 3]);
        assert_eq!(apportion(10, &[1.0, 1.0, 1.0]), [4, 3, 3]);
        assert_eq!(apportion(1, &[0.0, 0.2, 0.3]), [0, 0, 1]);
        assert_eq!(apportion(10, &[60.0, 20.0, 10.0, 4.0, 3.0, 0.0]), [5, 2, 1, 1, 1, 0]);
        assert_eq!(apportion(3, &[98.0, 1.0, 1.0]), [1, 1, 1]);
        assert_eq!(apportion(100_000_000, &[0.1, 0.2]), [33_333_333, 66_666_667]);
    }
}
