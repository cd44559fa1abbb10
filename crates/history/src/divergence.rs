//! The energy statistic of E-divisive: how much two neighbouring parts of a series differ in distribution.
//!
//! D. S. Matteson and N. A. James, A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data,
//! Journal of the American Statistical Association 109, 2014. Distances have the exponent 1. The right part may end
//! before the series does, so a second change further on does not hide the first.

/// The least number of points on each side of a change.
pub(crate) const SIDE: usize = 3;

/// The best division of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Division {
    /// The first point of the right part.
    pub(crate) at: usize,
    /// The end of the right part, behind its last point.
    pub(crate) end: usize,
    /// The statistic, 0 or more for parts that differ.
    pub(crate) divergence: f64,
}

/// The memory for the sums of distances, which is used again for every permutation.
#[derive(Debug, Default)]
pub(crate) struct Divergence {
    /// At `row * (count + 1) + column`: the distances of the first `row` points to the first `column` ones.
    sums: Vec<f64>,
    width: usize,
}

impl Divergence {
    /// The division with the greatest divergence; `None` if there are fewer than six points.
    pub(crate) fn best(&mut self, points: &[f64]) -> Option<Division> {
        let count = points.len();
        if count < 2 * SIDE {
            return None;
        }
        self.add_up(points);
        let mut best: Option<Division> = None;
        for at in SIDE..=count - SIDE {
            let left = self.within(0, at);
            for end in at + SIDE..=count {
                let divergence = self.of(left, at, end);
                if best.is_none_or(|best| divergence > best.divergence) {
                    best = Some(Division { at, end, divergence });
                }
            }
        }
        best
    }

    fn add_up(&mut self, points: &[f64]) {
        self.width = points.len() + 1;
        self.sums.clear();
        self.sums.resize(self.width * self.width, 0.0);
        for (row, one) in points.iter().enumerate() {
            let mut of_row = 0.0;
            for (column, other) in points.iter().enumerate() {
                of_row += (one - other).abs();
                self.sums[(row + 1) * self.width + column + 1] =
                    self.sums[row * self.width + column + 1] + of_row;
            }
        }
    }

    fn sum(&self, row: usize, column: usize) -> f64 {
        self.sums[row * self.width + column]
    }

    /// The distances of all ordered pairs from `from` up to `to`.
    fn within(&self, from: usize, to: usize) -> f64 {
        self.sum(to, to) - self.sum(from, to) - self.sum(to, from) + self.sum(from, from)
    }

    fn of(&self, within_left: f64, at: usize, end: usize) -> f64 {
        let (left, right) = (at as f64, (end - at) as f64);
        let across = self.sum(at, end) - self.sum(at, at);
        let energy = 2.0 * across / (left * right)
            - within_left / (left * (left - 1.0))
            - self.within(at, end) / (right * (right - 1.0));
        left * right / (left + right) * energy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistic as the paper defines it.
    fn defined(left: &[f64], right: &[f64]) -> f64 {
        let mean = |one: &[f64], other: &[f64], pairs: f64| {
            one.iter().flat_map(|a| other.iter().map(move |b| (a - b).abs())).sum::<f64>() / pairs
        };
        let (m, n) = (left.len() as f64, right.len() as f64);
        let energy = 2.0 * mean(left, right, m * n)
            - mean(left, left, m * (m - 1.0))
            - mean(right, right, n * (n - 1.0));
        m * n / (m + n) * energy
    }

    #[test]
    fn it_is_the_papers_statistic_at_every_division() {
        let mut random = fastrand::Rng::with_seed(7);
        let points: Vec<f64> = (0..17).map(|_| random.f64()).collect();
        let mut divergence = Divergence::default();
        let best = divergence.best(&points).unwrap();
        let mut greatest = f64::NEG_INFINITY;
        for at in SIDE..=points.len() - SIDE {
            for end in at + SIDE..=points.len() {
                let wanted = defined(&points[..at], &points[at..end]);
                assert!(
                    (divergence.of(divergence.within(0, at), at, end) - wanted).abs() < 1e-9,
                    "{at} {end}"
                );
                greatest = greatest.max(wanted);
            }
        }
        assert!((best.divergence - greatest).abs() < 1e-9);
    }

    #[test]
    fn a_step_is_found_where_it_is_even_if_another_follows() {
        let step = |count, value| vec![value; count];
        let points = [step(10, 0.0), step(6, 1.0), step(10, 0.0)].concat();
        let best = Divergence::default().best(&points).unwrap();
        assert_eq!((best.at, best.end), (10, 16));
        assert_eq!(Divergence::default().best(&[0.0; 5]), None);
    }
}
