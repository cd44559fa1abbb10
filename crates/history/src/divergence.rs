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
    /// At `row * (count + 1) + column`: the distances of the first `row` points to the first `column` ones. Only columns
    /// from `row` on are known, since the sums are symmetric.
    sums: Vec<f64>,
    /// At `row`: the distances of the first `row` points to each other, as ordered pairs.
    within: Vec<f64>,
    /// At `number`: 1 / number. The first is 0.
    inverse: Vec<f64>,
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
            for (end, divergence) in (at + SIDE..).zip(self.from(at)) {
                if best.is_none_or(|best| divergence > best.divergence) {
                    best = Some(Division { at, end, divergence });
                }
            }
        }
        best
    }

    /// Whether any division has this divergence or more.
    pub(crate) fn reaches(&mut self, points: &[f64], limit: f64) -> bool {
        if points.len() < 2 * SIDE {
            return false;
        }
        self.add_up(points);
        let count_of = |at| self.from(at).map(|divergence| u32::from(divergence >= limit)).sum::<u32>();
        (SIDE..=points.len() - SIDE).any(|at| count_of(at) > 0)
    }

    fn add_up(&mut self, points: &[f64]) {
        let count = points.len();
        if self.width != count + 1 {
            self.width = count + 1;
            self.inverse =
                (0..=count).map(|number| if number == 0 { 0.0 } else { 1.0 / number as f64 }).collect();
            self.sums = vec![0.0; self.width * self.width];
            self.within = vec![0.0; self.width];
        }
        for (row, one) in points.iter().enumerate() {
            let (above, below) = self.sums.split_at_mut((row + 1) * self.width);
            let above = &above[row * self.width + row..];
            let below = &mut below[row + 1..self.width];
            // The distances of this point to those before it are the last column of the row above.
            let mut of_row = above[1] - above[0];
            for ((other, above), below) in points[row..].iter().zip(&above[1..]).zip(&mut *below) {
                of_row += (one - other).abs();
                *below = above + of_row;
            }
            self.within[row + 1] = below[0];
        }
    }

    /// The divergences of the divisions whose right part begins at `at`, by their end from the least.
    fn from(&self, at: usize) -> impl Iterator<Item = f64> {
        let (left, within_left) = (at as f64, self.within[at]);
        let per_left = within_left / (left - 1.0);
        let row = at * self.width;
        let sums = &self.sums[row + at + SIDE..row + self.width];
        let within = &self.within[at + SIDE..];
        let of_all = &self.inverse[at + SIDE..];
        let of_right = &self.inverse[SIDE - 1..];
        let ends = sums.iter().zip(within).zip(of_all).zip(of_right);
        let least = u32::try_from(SIDE).expect("a few points");
        ends.zip(least..).map(move |((((sum, within), of_all), of_right), right)| {
            let across = sum - within_left;
            let within_right = within - sum - across;
            (2.0 * across - per_left * f64::from(right) - within_right * of_right * left) * of_all
        })
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
                let found = divergence.from(at).nth(end - at - SIDE).unwrap();
                assert!((found - wanted).abs() < 1e-9, "{at} {end}");
                greatest = greatest.max(wanted);
            }
        }
        assert!((best.divergence - greatest).abs() < 1e-9);
        assert!(
            divergence.reaches(&points, greatest - 1e-9) && !divergence.reaches(&points, greatest + 1e-9)
        );
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
