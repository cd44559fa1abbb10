//! Weighted least squares of the law, in logarithms of rates, since rates scatter by a share of themselves.
//!
//! N divided by the rate is a sum of three terms, linear in what a query costs: `a + b(N − 1) + cN(N − 1)`. So the
//! method of Gauss and Newton needs a few steps only. It begins at the solution of the linear problem, and halves a
//! step that brings no better sum or a cost below 0.

use super::law::{Costs, Law};

/// The most steps. Rates that follow the law need three to six.
const STEPS_MOST: usize = 60;

/// A step is halved down to this share of it.
const SHARE_LEAST: f64 = 1e-7;

/// The method ends when a step lowers the sum of squares by less than this share of it, or by less than
/// [`GAIN_LEAST`].
const GAIN_SHARE: f64 = 1e-11;
const GAIN_LEAST: f64 = 1e-18;

/// An unknown is not determined if its pivot is less than this share of its sum of squares.
const PIVOT_LEAST: f64 = 1e-13;

/// Indices of the costs that are found; the others are 0.
type Unknowns<'a> = &'a [usize];

const ALL: [usize; 3] = [0, 1, 2];

/// Rates at several numbers of workers, in units in which all numbers are of the order of 1.
#[derive(Clone)]
pub(super) struct Problem {
    rows: Vec<Row>,
    /// The largest value of each term.
    scale: [f64; 3],
    /// The unit of costs, seconds.
    unit: f64,
}

#[derive(Clone, Copy)]
struct Row {
    /// The terms at this number of workers, as shares of the largest.
    terms: [f64; 3],
    /// The logarithm of N divided by the rate.
    log_cost: f64,
    weight: f64,
}

/// The costs at which the weighted sum of squares is least, in the problem's units.
#[derive(Clone, Copy)]
pub(super) struct Minimum {
    scaled: [f64; 3],
    /// The weighted sum of squares.
    pub(super) error: f64,
    /// The number of unknowns that are not 0 by their bound.
    pub(super) unknowns: usize,
}

impl Problem {
    /// Numbers of workers in rising order, the mean logarithm of the rates at each, and its weight.
    pub(super) fn new(workers: &[f64], logs: &[f64], weights: &[f64]) -> Self {
        let most = workers.last().copied().unwrap_or(1.0).max(2.0);
        let scale = [1.0, most - 1.0, most * (most - 1.0)];
        let log_costs: Vec<f64> = workers.iter().zip(logs).map(|(workers, log)| workers.ln() - log).collect();
        let unit = log_costs.first().copied().unwrap_or(0.0);
        let row = |((workers, log_cost), weight): ((&f64, &f64), &f64)| {
            let others = workers - 1.0;
            let terms = [1.0, others / scale[1], workers * others / scale[2]];
            Row { terms, log_cost: log_cost - unit, weight: *weight }
        };
        let rows = workers.iter().zip(&log_costs).zip(weights).map(row).collect();
        Self { rows, scale, unit: unit.exp() }
    }

    /// The problem with other rates: their logarithms are greater by `offsets`.
    pub(super) fn moved(&self, offsets: &[f64]) -> Self {
        let mut moved = self.clone();
        moved.rows.iter_mut().zip(offsets).for_each(|(row, offset)| row.log_cost -= offset);
        moved
    }

    /// The least squares with contention and coherency of at least 0. `None` if the numbers of workers do not
    /// determine the unknowns.
    pub(super) fn bounded(&self) -> Option<Minimum> {
        let is_allowed = |found: &Minimum| found.scaled[1] >= 0.0 && found.scaled[2] >= 0.0;
        let free = self.unbounded()?;
        if is_allowed(&free) {
            return Some(free);
        }
        // At least one of them is 0 then. Of all sets of the others, the best allowed one counts.
        let sets: [Unknowns<'_>; 3] = [&[0, 1], &[0, 2], &[0]];
        let found = sets.into_iter().filter_map(|unknowns| self.minimum(unknowns, None));
        found.filter(is_allowed).min_by(|one, other| one.error.total_cmp(&other.error))
    }

    /// The least squares without bounds, as intervals need it: contention and coherency may be below 0.
    pub(super) fn unbounded(&self) -> Option<Minimum> {
        self.minimum(&ALL, None)
    }

    /// As [`Self::unbounded`], beginning at the solution of a similar problem.
    pub(super) fn unbounded_near(&self, near: &Minimum) -> Option<Minimum> {
        self.minimum(&ALL, Some(near.scaled))
    }

    /// The costs of a minimum, seconds.
    pub(super) fn costs(&self, minimum: &Minimum) -> Costs {
        std::array::from_fn(|at| minimum.scaled[at] / self.scale[at] * self.unit)
    }

    pub(super) fn law(&self, minimum: &Minimum) -> Law {
        Law::of_costs(self.costs(minimum))
    }

    fn minimum(&self, unknowns: Unknowns<'_>, near: Option<[f64; 3]>) -> Option<Minimum> {
        let near = near.and_then(|near| Some((near, self.error(&near)?)));
        let (mut at, mut error) = near.or_else(|| self.beginning(unknowns))?;
        for _ in 0..STEPS_MOST {
            let step = self.step(&at, unknowns)?;
            let Some((next, less)) = self.along(&at, error, &step) else { break };
            let gained = error - less;
            (at, error) = (next, less);
            if gained <= GAIN_LEAST.max(GAIN_SHARE * error) {
                break;
            }
        }
        Some(Minimum { scaled: at, error, unknowns: unknowns.len() })
    }

    /// The solution of the linear problem: costs whose ratios to the measured ones are as near to 1 as they can
    /// be. If it has a cost below 0, the mean cost.
    fn beginning(&self, unknowns: Unknowns<'_>) -> Option<([f64; 3], f64)> {
        let linear = self.solved(unknowns, |row| (row.log_cost.exp(), 1.0));
        let even =
            [self.rows.iter().map(|row| row.log_cost.exp()).sum::<f64>() / self.rows.len() as f64, 0.0, 0.0];
        [linear, Some(even)].into_iter().flatten().find_map(|at| Some((at, self.error(&at)?)))
    }

    /// The step of Gauss and Newton.
    fn step(&self, at: &[f64; 3], unknowns: Unknowns<'_>) -> Option<[f64; 3]> {
        self.solved(unknowns, |row| {
            let cost = row.cost(at);
            (cost, row.log_cost - cost.ln())
        })
    }

    /// The first of ever smaller parts of a step that lowers the sum of squares, with the sum there.
    fn along(&self, at: &[f64; 3], error: f64, step: &[f64; 3]) -> Option<([f64; 3], f64)> {
        let mut share = 1.0;
        while share > SHARE_LEAST {
            let next: [f64; 3] = std::array::from_fn(|index| at[index] + share * step[index]);
            if let Some(less) = self.error(&next).filter(|less| *less < error) {
                return Some((next, less));
            }
            share /= 2.0;
        }
        None
    }

    /// The weighted sum of squares; `None` if a cost is not above 0.
    fn error(&self, at: &[f64; 3]) -> Option<f64> {
        let mut sum = 0.0;
        for row in &self.rows {
            let cost = row.cost(at);
            if cost <= 0.0 || at[0] <= 0.0 {
                return None;
            }
            sum += row.weight * (cost.ln() - row.log_cost).powi(2);
        }
        Some(sum).filter(|sum| sum.is_finite())
    }

    /// Solves the weighted linear least squares of rows whose terms are divided by a divisor, towards a target.
    /// `of_row` returns both.
    fn solved(&self, unknowns: Unknowns<'_>, of_row: impl Fn(&Row) -> (f64, f64)) -> Option<[f64; 3]> {
        let (mut squares, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for row in &self.rows {
            let (divisor, target) = of_row(row);
            let terms: [f64; 3] = std::array::from_fn(|index| row.terms[index] / divisor);
            for &one in unknowns {
                right[one] += row.weight * terms[one] * target;
                for &other in unknowns {
                    squares[one][other] += row.weight * terms[one] * terms[other];
                }
            }
        }
        eliminated(squares, right, unknowns)
    }
}

impl Row {
    fn cost(&self, at: &[f64; 3]) -> f64 {
        self.terms[0] * at[0] + self.terms[1] * at[1] + self.terms[2] * at[2]
    }
}

/// Solves symmetric equations by elimination; the unknowns that are not listed are 0. `None` if one is not
/// determined.
fn eliminated(mut squares: [[f64; 3]; 3], mut right: [f64; 3], unknowns: Unknowns<'_>) -> Option<[f64; 3]> {
    let diagonal: [f64; 3] = std::array::from_fn(|at| squares[at][at]);
    for (done, &pivot) in unknowns.iter().enumerate() {
        let divisor = squares[pivot][pivot];
        if divisor.is_nan() || divisor <= PIVOT_LEAST * diagonal[pivot] {
            return None;
        }
        let above = squares[pivot];
        for &row in &unknowns[done + 1..] {
            let factor = squares[row][pivot] / divisor;
            for &column in &unknowns[done..] {
                squares[row][column] -= factor * above[column];
            }
            right[row] -= factor * right[pivot];
        }
    }
    let mut solution = [0.0; 3];
    for (done, &pivot) in unknowns.iter().enumerate().rev() {
        let known: f64 = unknowns[done + 1..].iter().map(|&at| squares[pivot][at] * solution[at]).sum();
        solution[pivot] = (right[pivot] - known) / squares[pivot][pivot];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKERS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 128.0];

    fn problem(law: Law) -> Problem {
        let logs = WORKERS.map(|workers| law.rate_qps(workers).ln());
        Problem::new(&WORKERS, &logs, &[1.0; 5])
    }

    fn near(value: f64, wanted: f64) -> bool {
        (value - wanted).abs() <= 1e-7 * wanted.abs().max(1e-3)
    }

    #[test]
    fn rates_of_a_law_give_that_law() {
        for (contention, coherency) in [(0.1, 0.001), (0.0, 0.0), (0.5, 0.0), (0.0, 0.01), (1.5, 0.3)] {
            let law = Law { alone_qps: 123_456.0, contention, coherency };
            let problem = problem(law);
            let found = problem.law(&problem.bounded().unwrap());
            assert!(near(found.alone_qps, law.alone_qps), "{found:?}");
            assert!(near(found.contention, contention) && near(found.coherency, coherency), "{found:?}");
        }
    }

    #[test]
    fn what_would_be_below_0_is_0_and_the_rest_fits_as_well_as_it_can() {
        // Two workers answer more than twice as much as one.
        let logs = [1.0, 2.2, 4.1, 7.9, 118.0].map(f64::ln);
        let problem = Problem::new(&WORKERS, &logs, &[1.0; 5]);
        let (free, bounded) = (problem.unbounded().unwrap(), problem.bounded().unwrap());
        let law = problem.law(&bounded);
        assert!(free.error < bounded.error && bounded.unknowns < free.unknowns);
        assert!(law.contention >= 0.0 && law.coherency >= 0.0, "{law:?}");
        for unknowns in [&[0, 1][..], &[0, 2], &[0]] {
            let other = problem.minimum(unknowns, None).unwrap();
            let is_allowed = other.scaled[1] >= 0.0 && other.scaled[2] >= 0.0;
            assert!(!is_allowed || other.error >= bounded.error);
        }
    }

    #[test]
    fn the_sum_of_squares_is_least_where_it_says() {
        let logs = [1.0, 1.7, 3.4, 5.0, 9.0].map(f64::ln);
        let weights = [4.0, 1.0, 2.0, 3.0, 1.0];
        let problem = Problem::new(&WORKERS, &logs, &weights);
        let found = problem.unbounded().unwrap();
        for index in 0..3 {
            for factor in [0.999, 1.001] {
                let mut beside = found.scaled;
                beside[index] *= factor;
                assert!(problem.error(&beside).unwrap() > found.error);
            }
        }
    }

    #[test]
    fn too_few_numbers_of_workers_determine_nothing() {
        let logs = [1.0, 2.0].map(f64::ln);
        assert!(Problem::new(&[1.0, 2.0], &logs, &[1.0; 2]).unbounded().is_none());
        assert!(Problem::new(&[], &[], &[]).bounded().is_none());
    }
}
