//! Finds a creep: figures that go one way a little from run to run, so that no single run shows a change.

use crate::chance::chance;
use crate::changes::{ChangePoint, LEAST, Sample, WEAK, WINDOW, claimed, logs, scatter_least};
use crate::divergence::SIDE;
use crate::level::{Line, SCATTER_LEAST, Spread};
use crate::outlier;

/// The creep of the newest points of a series, whose changes are `found`. `None` if a step describes these points better
/// than a line does. The result depends on the arguments alone. `at` is the first point of the line, and the last one is
/// the newest of the series.
pub fn creep(samples: &[Sample], found: &[ChangePoint], permutations: u32, seed: u64) -> Option<ChangePoint> {
    let all = logs(samples);
    let counted = outlier::others(&all);
    let begin = counted.len().saturating_sub(WINDOW);
    let newest: Vec<Sample> = counted[begin..].iter().map(|at| samples[*at]).collect();
    if newest.len() < LEAST {
        return None;
    }
    let points = logs(&newest);
    let least = scatter_least(&logs(&counted.iter().map(|at| samples[*at]).collect::<Vec<_>>()));
    let line = Line::through(&points);
    let (difference, mde) = claimed(line.difference(least), &newest)?;
    let steps: Vec<usize> = found
        .iter()
        .map(|one| counted[begin..].partition_point(|at| *at < one.at))
        .filter(|at| *at > 0)
        .collect();
    if !is_line(&points, &line, &steps) {
        return None;
    }
    let from = if begin == 0 { 0 } else { counted[begin] };
    let reaches = |points: &[f64], limit: f64| Line::through(points).closeness() >= limit;
    let chance = chance(&all[from..], line.closeness(), permutations, WEAK, seed, reaches);
    // A line was tried every time that the series grew. If each look at `count` points has this share, the sum of
    // `1 / looks` over all lengths from 8 on stays below a half, however long the series becomes.
    let count = counted.len() as f64;
    let looks = count * count.ln().powi(2);
    (chance <= WEAK).then(|| ChangePoint {
        at: from,
        by: difference.by,
        reach: difference.reach(),
        chance,
        chance_over_time: (difference.chance() * looks).min(1.0).max(chance),
        mde,
    })
}

/// Whether a line describes the points better than the steps that were found, and better than the best single step, by
/// Schwarz's criterion (Annals of Statistics 6, 1978).
fn is_line(points: &[f64], line: &Line, steps: &[usize]) -> bool {
    let count = points.len() as f64;
    let criterion = |squares: f64, parameters: usize| {
        count * squares.max(count * SCATTER_LEAST.powi(2)).ln() + parameters as f64 * count.ln()
    };
    let of_steps = |steps: &[usize]| {
        let ends: Vec<usize> = [0].iter().chain(steps).chain([&points.len()]).copied().collect();
        let squares =
            ends.windows(2).map(|ends| Spread::from_logs(points[ends[0]..ends[1]].iter().copied()).squares);
        criterion(squares.sum(), 2 * steps.len() + 1)
    };
    let single = (SIDE..=points.len() - SIDE).map(|at| of_steps(&[at]));
    let best = single.chain([of_steps(steps)]).fold(f64::INFINITY, f64::min);
    criterion(line.squares, 2) < best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(logs: impl Iterator<Item = f64>) -> Vec<Sample> {
        logs.map(|log| Sample { log, mde: None }).collect()
    }

    /// Figures that scatter by 0.3 % around a course.
    fn around(course: impl Fn(usize) -> f64, count: usize) -> Vec<Sample> {
        samples((0..count).map(|at| course(at) + 0.003 * [0.0, 1.0, -0.7, 0.4, -1.0, 0.6, -0.3][at * 3 % 7]))
    }

    #[test]
    fn a_line_is_a_creep_of_its_own_size_and_a_step_is_none() {
        let line = around(|at| -0.002 * at as f64, 41);
        let found = creep(&line, &[], 999, 1).unwrap();
        assert_eq!(found.at, 0);
        assert!((found.by + 0.08).abs() < 0.003 && found.reach < 0.01, "{found:?}");
        assert!(found.chance_over_time <= 0.01, "{found:?}");
        for at in [5, 20, 36] {
            let step = around(|point| if point < at { 0.0 } else { -0.05 }, 41);
            assert_eq!(creep(&step, &[], 999, 1), None, "a step at {at}");
        }
        assert_eq!(creep(&around(|_| 0.0, 41), &[], 999, 1), None);
        assert_eq!(creep(&line[..7], &[], 999, 1), None, "too few");
    }

    #[test]
    fn only_the_newest_fifty_points_count_and_the_mde_of_the_runs() {
        let line = around(|at| -0.002 * at as f64, 90);
        let found = creep(&line, &[], 999, 1).unwrap();
        assert_eq!(found.at, 40);
        assert!((found.by + 0.098).abs() < 0.003, "{found:?}");
        let coarse: Vec<Sample> = line.iter().map(|one| Sample { mde: Some(0.2), ..*one }).collect();
        assert_eq!(creep(&coarse, &[], 999, 1), None);
    }
}
