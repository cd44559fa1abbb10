//! Single points that are far from their neighbours, if they are rare. They are marked, and no change rests on them.

use crate::median::{median, median_of};

/// A point is far if its distance from the points around it is more than this many times the usual scatter.
const FAR: f64 = 5.0;

/// A neighbour that is as far as this part of [`FAR`] in the same direction may be the second point of a change.
const PART: f64 = 0.5;

/// The least usual scatter, in logarithms: rounding alone makes most figures equal at times.
const USUAL_LEAST: f64 = 0.002;

/// How many points on each side a point is compared with.
const AROUND: usize = 5;

/// Fewer points than this show no usual scatter.
const LEAST: usize = 5;

/// Single points are rare: one in so many, and one more, may be single. If more are, the host has two speeds: every
/// point counts then, since what is left out would decide what is found.
const RARE: usize = 25;

/// The median distance of two neighbours, divided by the standard deviation of one point.
const NEIGHBOURS: f64 = 0.953_9;

/// The indices of single outliers. A point whose neighbour is away in the same direction is no single one: both may be the
/// beginning of a change. None if they are too many to be the exception.
pub(crate) fn single(logs: &[f64]) -> Vec<usize> {
    if logs.len() < LEAST {
        return Vec::new();
    }
    let usual = usual_scatter(logs).max(USUAL_LEAST);
    let distance = |at: usize| {
        let near = &logs[at.saturating_sub(AROUND)..(at + AROUND + 1).min(logs.len())];
        let mut around = [0.0; 2 * AROUND + 1];
        let around = &mut around[..near.len()];
        around.copy_from_slice(near);
        logs[at] - median_of(around).unwrap_or(0.0)
    };
    let distances: Vec<f64> = (0..logs.len()).map(distance).collect();
    let is_far = |at: usize| distances[at].abs() > FAR * usual;
    let is_same = |one: usize, other: usize| distances[other] * distances[one].signum() > PART * FAR * usual;
    let is_single = |at: &usize| {
        let before = at.checked_sub(1).is_some_and(|before| is_same(*at, before));
        let after = at + 1 < logs.len() && is_same(*at, at + 1);
        is_far(*at) && !before && !after
    };
    let singles: Vec<usize> = (0..logs.len()).filter(is_single).collect();
    if singles.len() > 1 + logs.len() / RARE { Vec::new() } else { singles }
}

/// The indices of all points but the single outliers.
pub(crate) fn others(logs: &[f64]) -> Vec<usize> {
    let singles = single(logs);
    (0..logs.len()).filter(|at| singles.binary_search(at).is_err()).collect()
}

/// The usual scatter of points, as a standard deviation: the median distance of neighbours, which a change moves little.
pub(crate) fn usual_scatter(logs: &[f64]) -> f64 {
    let steps = logs.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    median(steps).unwrap_or(0.0) / NEIGHBOURS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: usize, changed: &[(usize, f64)]) -> Vec<f64> {
        let mut logs: Vec<f64> = (0..count).map(|at| [0.0, 0.004, -0.003][at % 3]).collect();
        for &(at, by) in changed {
            logs[at] += by;
        }
        logs
    }

    #[test]
    fn one_point_far_from_the_others_is_marked_and_the_beginning_of_a_step_is_not() {
        assert_eq!(single(&series(30, &[(12, 0.2), (20, -0.3)])), [12, 20]);
        assert_eq!(single(&series(30, &[(29, 0.2)])), [29], "the newest may be single");
        assert!(single(&series(30, &[(28, 0.2), (29, 0.2)])).is_empty(), "two may be a step");
        let step: Vec<(usize, f64)> = (20..30).map(|at| (at, 0.05)).collect();
        assert!(single(&series(30, &step)).is_empty());
        assert!(single(&series(4, &[(1, 9.0)])).is_empty(), "too few");
        assert!(single(&[]).is_empty());
    }

    #[test]
    fn slow_points_that_are_no_exception_are_not_marked() {
        let slow = |count: usize| (0..count).map(|number| (4 + 7 * number, -0.2)).collect::<Vec<_>>();
        assert_eq!(single(&series(49, &slow(2))), [4, 11], "one in 25, and one more");
        assert!(single(&series(49, &slow(3))).is_empty());
        assert_eq!(single(&series(50, &slow(3))), [4, 11, 18]);
        assert_eq!(others(&series(24, &slow(1))).len(), 23);
        assert_eq!(others(&series(24, &slow(2))).len(), 24);
    }
}
