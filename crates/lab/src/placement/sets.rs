//! Sets of cores by their size. A large machine has more sets than a run could measure or even enumerate, so
//! large numbers are sampled.

use std::collections::BTreeSet;

/// A size with more sets than this is sampled.
const MOST: u64 = 4096;

/// The number of sets in a sample.
const SAMPLE: usize = 16;

/// Sets of `size` of these cores, in order: all of them, or a sample that is the same each time.
pub(super) fn of_size(cpus: &[u32], size: usize) -> Vec<Vec<u32>> {
    if count(cpus.len(), size) <= MOST { all(cpus, size) } else { sample(cpus, size) }
}

/// The sets of these sizes that sampling leaves out, in words; `None` if all are taken.
pub(super) fn left_out(cores: usize, sizes: impl Iterator<Item = usize>) -> Option<String> {
    let sampled: Vec<String> = sizes
        .filter_map(|size| match count(cores, size) {
            ..=MOST => None,
            MANY => Some(format!("a million or more sets of {size}")),
            count => Some(format!("{count} sets of {size}")),
        })
        .collect();
    (!sampled.is_empty())
        .then(|| format!("of {} only {SAMPLE} each are measured, picked at random", sampled.join(", of ")))
}

/// The count stops here, since a greater one has no use.
const MANY: u64 = 1_000_000;

/// The number of sets of `size` cores: the binomial coefficient, or [`MANY`] if that is less.
fn count(cores: usize, size: usize) -> u64 {
    let size = size.min(cores.saturating_sub(size)) as u64;
    // Exact at each step: the product of k + 1 successive numbers is divisible by k + 1. The value only grows.
    (0..size).fold(1, |count, taken| (count * (cores as u64 - taken) / (taken + 1)).min(MANY))
}

fn all(cpus: &[u32], size: usize) -> Vec<Vec<u32>> {
    match (size, cpus) {
        (0, _) => vec![Vec::new()],
        (_, []) => Vec::new(),
        (_, [first, others @ ..]) => {
            let with_first = all(others, size - 1).into_iter().map(|set| [vec![*first], set].concat());
            with_first.chain(all(others, size)).collect()
        }
    }
}

fn sample(cpus: &[u32], size: usize) -> Vec<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(size as u64);
    let mut sets = BTreeSet::new();
    while sets.len() < SAMPLE {
        let mut set = random.choose_multiple(cpus.iter().copied(), size);
        set.sort_unstable();
        sets.insert(set);
    }
    sets.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_counted() {
        assert_eq!([count(8, 2), count(8, 8), count(24, 5), count(128, 64)], [28, 1, 42_504, MANY]);
    }

    #[test]
    fn few_sets_are_all_taken_and_many_sampled_alike_each_time() {
        let cores: Vec<u32> = (0..64).collect();
        assert_eq!(of_size(&cores[..8], 3).len(), 56);
        assert_eq!(left_out(8, 1..=8), None);

        let sampled = of_size(&cores, 32);
        assert_eq!(sampled.len(), SAMPLE);
        assert!(sampled.iter().all(|set| set.len() == 32 && set.is_sorted()));
        assert_eq!(sampled, of_size(&cores, 32));
        assert_eq!(
            left_out(64, 2..=3).unwrap(),
            "of 41664 sets of 3 only 16 each are measured, picked at random"
        );
    }
}
