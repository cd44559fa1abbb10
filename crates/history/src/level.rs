//! The level of a part of a series, and the difference between two levels, by Student's t.

use kqps_verdict::student;

/// Points scatter by at least this much, as the standard deviation of logarithms. Memory, for example, may be equal
/// to the byte in many runs, which does not make the next byte a change.
pub(crate) const SCATTER_LEAST: f64 = 0.001;

/// The probability, 0 to 1, that an interval covers the truth.
const COVERAGE: f64 = 0.95;

/// Equals reach the least detectable difference with this probability.
const RARELY: f64 = 0.01;

/// No number of points makes a smaller difference detectable than this many standard errors: the normal
/// distribution's quantiles of 0.995 and 0.95, whose sum is 4.2207.
pub(crate) const ERRORS_LEAST: f64 = 4.22;

/// The mean of some logarithms, and how they scatter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// The sum of the squared distances from the mean.
    pub(crate) squares: f64,
    count: usize,
}

/// The least-squares line through points at equal distances, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    /// Its value at the last point minus that at the first one.
    by: f64,
    /// The sum of the squared distances from it.
    pub(crate) squares: f64,
    /// The sum of the squared distances from the mean.
    of_mean: f64,
    count: usize,
}

/// The difference between two levels, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The later level minus the earlier one.
    pub(crate) by: f64,
    error: f64,
    freedom: usize,
}

impl Spread {
    pub(crate) fn from_logs(logs: impl Iterator<Item = f64> + Clone) -> Self {
        let count = logs.clone().count();
        let mean = logs.clone().sum::<f64>() / count.max(1) as f64;
        let squares = logs.map(|log| (log - mean).powi(2)).sum();
        Self { mean, squares, count }
    }

    /// The ends of the interval of the mean, as logarithms; the mean itself for fewer than two points.
    pub(crate) fn interval(&self) -> (f64, f64) {
        if self.count < 2 {
            return (self.mean, self.mean);
        }
        let freedom = self.count - 1;
        let scatter = (self.squares / freedom as f64).sqrt().max(SCATTER_LEAST);
        let reach =
            student::quantile(f64::midpoint(1.0, COVERAGE), freedom) * scatter / (self.count as f64).sqrt();
        (self.mean - reach, self.mean + reach)
    }

    /// The difference to a later level. Both must have two points at least. A few points may be equal by chance, so they
    /// scatter by `least` at least.
    pub(crate) fn to(&self, later: &Self, least: f64) -> Difference {
        let freedom = (self.count + later.count).saturating_sub(2).max(1);
        let scatter = ((self.squares + later.squares) / freedom as f64).sqrt().max(least).max(SCATTER_LEAST);
        let error = scatter * (1.0 / self.count.max(1) as f64 + 1.0 / later.count.max(1) as f64).sqrt();
        Difference { by: later.mean - self.mean, error, freedom }
    }
}

impl Line {
    /// The line through two points at least.
    pub(crate) fn through(logs: &[f64]) -> Self {
        let count = logs.len();
        let of_mean = Spread::from_logs(logs.iter().copied());
        let middle = (count as f64 - 1.0) / 2.0;
        let across: f64 = (0..count).map(|at| (at as f64 - middle).powi(2)).sum();
        let moment: f64 =
            (0..count).zip(logs).map(|(at, log)| (at as f64 - middle) * (log - of_mean.mean)).sum();
        let explained = if across > 0.0 { moment * moment / across } else { 0.0 };
        let slope = if across > 0.0 { moment / across } else { 0.0 };
        Self {
            by: slope * (count as f64 - 1.0),
            squares: (of_mean.squares - explained).max(0.0),
            of_mean: of_mean.squares,
            count,
        }
    }

    /// The part of the scatter that the line explains, 0 to 1: the square of the correlation with time.
    pub(crate) fn closeness(&self) -> f64 {
        if self.of_mean > 0.0 { 1.0 - self.squares / self.of_mean } else { 0.0 }
    }

    /// The difference between its ends. Points scatter around it by `least` at least.
    pub(crate) fn difference(&self, least: f64) -> Difference {
        let freedom = self.count.saturating_sub(2).max(1);
        let scatter = (self.squares / freedom as f64).sqrt().max(least).max(SCATTER_LEAST);
        // The sum of the squared distances of 0, 1, … from their mean is (n³ - n) / 12.
        let count = self.count as f64;
        let error = scatter * (count - 1.0) / ((count.powi(3) - count) / 12.0).max(1.0).sqrt();
        Difference { by: self.by, error, freedom }
    }
}

impl Difference {
    /// The difference in standard errors, without its sign.
    pub(crate) fn errors(&self) -> f64 {
        self.by.abs() / self.error
    }

    /// Half the width of its interval.
    pub(crate) fn reach(&self) -> f64 {
        student::quantile(f64::midpoint(1.0, COVERAGE), self.freedom) * self.error
    }

    /// The least difference that points with this scatter show: equals seldom reach it, and 19 of 20 true differences
    /// of that size do.
    pub(crate) fn detectable(&self) -> f64 {
        let quantiles =
            student::quantile(1.0 - RARELY / 2.0, self.freedom) + student::quantile(0.95, self.freedom);
        quantiles * self.error
    }

    /// The probability that two equal levels differ as much.
    pub(crate) fn chance(&self) -> f64 {
        student::chance_beyond(self.errors(), self.freedom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_students() {
        let (before, after) = ([0.0, 0.02, 0.0, 0.02], [0.10, 0.12, 0.10, 0.12]);
        let [before, after] = [before, after].map(|logs| Spread::from_logs(logs.iter().copied()));
        let difference = before.to(&after, 0.0);
        // The pooled standard deviation is the root of 8e-4 / 6, of which the mean of four has half, twice.
        let error = (8e-4_f64 / 6.0).sqrt() * 0.5_f64.sqrt();
        assert!((difference.by - 0.1).abs() < 1e-12 && (difference.errors() - 0.1 / error).abs() < 1e-9);
        assert!((difference.reach() - 2.4469 * error).abs() < 1e-5);
        assert!((difference.detectable() - (3.7074 + 1.9432) * error).abs() < 1e-5);
        assert!(difference.chance() < 1e-4 && difference.chance() > 0.0);
    }

    #[test]
    fn a_line_has_the_difference_of_its_ends() {
        // The slope of these is 0.02 and their distances from the line are -0.003, 0.004, 0.001, -0.002 by hand.
        let line = Line::through(&[0.0, 0.027, 0.044, 0.061]);
        assert!((line.by - 0.06).abs() < 1e-12 && (line.squares - 3e-5).abs() < 1e-12, "{line:?}");
        assert!((line.closeness() - (1.0 - 3e-5 / (0.002 + 3e-5))).abs() < 1e-9);
        let difference = line.difference(0.0);
        assert!((difference.error - 1.5e-5_f64.sqrt() * 3.0 / 5.0_f64.sqrt()).abs() < 1e-12);
        assert!((line.difference(0.1).error - 0.1 * 3.0 / 5.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn equal_points_still_scatter_a_little() {
        let [before, after] = [1.0, 1.0001].map(|log| Spread::from_logs([log; 10].into_iter()));
        assert!(before.to(&after, 0.0).errors() < 1.0);
        let [before, after] = [1.0, 1.02].map(|log| Spread::from_logs([log; 8].into_iter()));
        assert!((before.to(&after, 0.04).errors() - 1.0).abs() < 1e-9, "0.04 by the root of 2/8");
    }
}
