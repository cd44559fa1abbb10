//! Intervals by a bootstrap over starts: every draw replaces the starts of each size by as many random deviations,
//! and fits the law anew.
//!
//! Contention and coherency may be below 0 in a draw, and are cut at 0 at last. Draws within the bounds would
//! promise too much near them (Andrews, Econometrica 68, 2000). Few starts show less scatter than there is: a draw
//! takes the unbiased scatter of each size, and an interval is widened from the normal distribution to Student's
//! with the degrees of freedom of Welch and Satterthwaite (Biometrics Bulletin 2, 1946).

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::law::Costs;
use super::least_squares::{Minimum, Problem};
use super::scatter::Scatter;

/// The number of draws, and the fewest with a fit for an interval.
const DRAWS: usize = 1_000;
const DRAWS_LEAST: usize = 500;

/// The share of draws that lie outside of an interval on each side.
const TAIL: f64 = 0.025;

/// The normal distribution's quantile for [`TAIL`].
const NORMAL: f64 = 1.959_964;

pub(super) struct Bootstrap {
    /// The costs at the least squares without bounds.
    middle: Costs,
    /// The costs of every draw.
    drawn: Vec<Costs>,
    /// The costs when the mean of one size lies a standard error above what was measured.
    nudged: Vec<Costs>,
    /// Degrees of freedom of each size's scatter, and of all together.
    freedom: Vec<f64>,
    freedom_of_all: f64,
    /// Intervals are widened at least by this factor.
    widened_least: f64,
}

impl Bootstrap {
    /// `starts` are the starts of each size. `None` if too few draws can be fitted.
    pub(super) fn new(
        problem: &Problem,
        scatter: &Scatter,
        starts: &[usize],
        widened_least: f64,
        seed: u64,
    ) -> Option<Self> {
        let middle = problem.unbounded()?;
        let costs = |offsets: &[f64]| {
            let moved = problem.moved(offsets);
            moved.unbounded_near(&middle).map(|found: Minimum| moved.costs(&found))
        };
        let mut rng = Rng::with_seed(seed);
        let mut draw = || -> Vec<f64> {
            let of_size = |(starts, own): (&usize, &f64)| {
                let sum: f64 =
                    (0..*starts).map(|_| scatter.deviations[rng.usize(..scatter.deviations.len())]).sum();
                own * sum / *starts as f64
            };
            starts.iter().zip(&scatter.own).map(of_size).collect()
        };
        let drawn: Vec<Costs> = (0..DRAWS).filter_map(|_| costs(&draw())).collect();
        let nudge = |at: usize| {
            let mut offsets = vec![0.0; starts.len()];
            offsets[at] = scatter.own[at] / (starts[at] as f64).sqrt();
            costs(&offsets)
        };
        let nudged: Option<Vec<Costs>> = (0..starts.len()).map(nudge).collect();
        (drawn.len() >= DRAWS_LEAST).then_some(Self {
            middle: problem.costs(&middle),
            drawn,
            nudged: nudged?,
            freedom: scatter.freedom.clone(),
            freedom_of_all: scatter.freedom_of_all,
            widened_least,
        })
    }

    /// The interval of a function of the costs, with a probability of 95 %. It may lie outside of the function's
    /// possible values.
    pub(super) fn interval(&self, of: impl Fn(&Costs) -> f64) -> (f64, f64) {
        let middle = of(&self.middle);
        let mut values: Vec<f64> = self.drawn.iter().map(&of).collect();
        values.sort_by(f64::total_cmp);
        let errors: Vec<f64> = self.nudged.iter().map(|costs| (of(costs) - middle).powi(2)).collect();
        let widened = widening(self.freedom(&errors)).max(self.widened_least);
        let end = |share| middle + widened * (quantile(&values, share) - middle);
        (end(TAIL), end(1.0 - TAIL))
    }

    /// The degrees of freedom of a sum of these variances, one for each size.
    fn freedom(&self, variances: &[f64]) -> f64 {
        let sum: f64 = variances.iter().sum();
        let squares: f64 =
            variances.iter().zip(&self.freedom).map(|(one, freedom)| one * one / freedom).sum();
        if squares > 0.0 {
            (sum * sum / squares).clamp(1.0, self.freedom_of_all)
        } else {
            self.freedom_of_all
        }
    }
}

/// How many times as wide an interval of Student's distribution is as one of the normal distribution.
pub(super) fn widening(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .map_or(f64::INFINITY, |student| student.inverse_cdf(1.0 - TAIL) / NORMAL)
}

/// The value below which this share of sorted values lies; `share` is above 0 and below 1.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    let at = (share * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, last as f64);
    let (below, above) = (sorted[at.floor() as usize], sorted[(at.floor() as usize + 1).min(last)]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_order_statistics() {
        let sorted: Vec<f64> = (1..=999).map(f64::from).collect();
        assert!((quantile(&sorted, 0.025) - 25.0).abs() < 1e-9);
        assert!((quantile(&sorted, 0.975) - 975.0).abs() < 1e-9);
        assert!((quantile(&[7.0], 0.5) - 7.0).abs() < 1e-12);
    }

    #[test]
    fn few_degrees_of_freedom_widen_an_interval() {
        for (freedom, student) in [(1.0, 12.706), (5.0, 2.571), (30.0, 2.042)] {
            assert!((widening(freedom) * NORMAL - student).abs() < 1e-3, "{freedom}");
        }
    }
}
