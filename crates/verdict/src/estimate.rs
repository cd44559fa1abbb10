//! Estimates what a subject does from all of its trials: the load that meets the goal in half of them, or the
//! rate that it answers in a closed loop, with the interval that the trials justify.
//!
//! A trial at a fixed load is good or bad, and the estimate uses no more of it: how much a subject answers
//! under overload is not what it sustains. The probability of a good trial falls with the load along a logistic
//! curve, and the estimate is the load at its middle. The slope of the curve and the scatter between starts are
//! not known beforehand. The estimate tries all likely values and weighs each by how well it explains the
//! trials (Kontsevich and Tyler, Vision Research 39, 1999, do so for thresholds of vision). Some trials fail
//! for other reasons, so no single trial decides.

#[cfg(test)]
mod plain;
mod refining;
mod trials;

use crate::interval::Interval;
use crate::narrow::narrow;

pub use refining::load_beside;
pub use trials::{Speed, of_cell, of_echo, of_search};
pub(crate) use trials::{is_growing, of_cells, rates_of_starts};

/// The evidence of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// The trial met the goal at this load, queries a second.
    Met(f64),
    /// The trial missed the goal at this load, queries a second.
    Missed(f64),
    /// The subject answered at this rate in a closed loop, correct answers a second.
    Answered(f64),
}

/// The scatter of single trials, as the standard deviation of logarithms. The estimate tries values from the
/// least to the most, in this many steps.
const SCATTER_LEAST: f64 = 0.004;
const SCATTER_MOST: f64 = 0.10;
const SCATTER_STEPS: usize = 8;

/// The usual scatter of trials, and how far that of a host deviates from it, as the standard deviation of
/// logarithms. One host in four scatters by less than half as much, or by more than twice as much. Trials that
/// are only good or bad reveal little of their scatter.
const SCATTER_USUAL: f64 = 0.022;
const SCATTER_SPREAD: f64 = 0.6;

/// How far starts may differ, as the standard deviation of logarithms, and the prior probability of each value.
const APART: [(f64, f64); 7] =
    [(0.0, 0.2), (0.003, 0.25), (0.006, 0.22), (0.012, 0.18), (0.024, 0.09), (0.05, 0.04), (0.12, 0.02)];

/// The share of trials whose outcome has another cause than the load.
const LAPSES: f64 = 0.03;

/// The rate of a trial that lapsed is uniform within this width, as a logarithm.
const LAPSE_WIDTH: f64 = 1.0;

/// The logistic curve with this slope stays within 0.01 of the normal distribution.
const LOGISTIC: f64 = 1.702;

/// Distance between neighbouring points of the grid, as a logarithm. It grows if the grid would exceed
/// [`POINTS_MOST`].
const STEP: f64 = 0.001;
const POINTS_MOST: f64 = 2_000.0;

/// The grid extends this far beyond the loads that were decided, as a logarithm.
const MARGIN: f64 = 0.25;

/// An estimate may be this far beyond all loads that were tried, as a logarithm: about twice the usual scatter.
const BEYOND_MOST: f64 = 0.05;

/// The coverage of every interval, 0 to 1.
const COVERAGE: f64 = 0.95;

/// A rate as a probability distribution, on an even grid of logarithms.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The logarithm of the rate at the first point.
    first: f64,
    /// The distance between neighbouring points.
    step: f64,
    /// The probability of each point; the sum is 1.
    chances: Vec<f64>,
    /// The number of starts that contribute.
    starts: u32,
    /// Whether it rests on trials that the host or the player spoiled, since the others do not bound the rate.
    rests_on_spoiled: bool,
}

impl Evidence {
    fn rate_qps(self) -> f64 {
        let (Self::Met(qps) | Self::Missed(qps) | Self::Answered(qps)) = self;
        qps
    }

    /// The likelihood of the trial's outcome if the logarithm of the subject's rate is this much above that of the
    /// evidence.
    fn likelihood(self, above: f64, scatter: f64) -> f64 {
        let away = above / scatter;
        let met = || 1.0 / (1.0 + (-LOGISTIC * away).exp());
        let usual = match self {
            Self::Met(_) => met(),
            Self::Missed(_) => 1.0 - met(),
            Self::Answered(_) => {
                let density = (-0.5 * away * away).exp() / (scatter * std::f64::consts::TAU.sqrt());
                return (1.0 - LAPSES) * density + LAPSES / LAPSE_WIDTH;
            }
        };
        (1.0 - LAPSES) * usual + LAPSES / 2.0
    }
}

impl Estimate {
    /// The estimate of a subject from the trials of each of its starts. From a single start, it is the estimate
    /// of this start and says nothing about how others would differ. `None` if the trials do not bound the
    /// rate: unless a closed loop was answered, some load must have met the goal and some load must have missed
    /// it, and the median must not be more than 5 % beyond all loads that were tried.
    pub fn from_starts(starts: &[Vec<Evidence>]) -> Option<Self> {
        let starts: Vec<&Vec<Evidence>> = starts.iter().filter(|start| !start.is_empty()).collect();
        let grid = Grid::from_evidence(starts.iter().flat_map(|start| start.iter().copied()))?;
        // The distance between starts does not matter for a single one.
        let apart: &[(f64, f64)] = if starts.len() == 1 { &APART[..1] } else { &APART };
        let chances = chances(&grid.parts(&starts, apart), grid.points);
        let (first, step, count) = (grid.first, grid.step, narrow(starts.len()));
        let estimate = Self { first, step, chances, starts: count, rests_on_spoiled: false };
        estimate.normalised().filter(|estimate| is_near(&starts, estimate.quantile(0.5)))
    }

    /// Whether it rests on trials that the host or the player spoiled, since the others do not bound the rate.
    pub fn rests_on_spoiled(&self) -> bool {
        self.rests_on_spoiled
    }

    fn normalised(mut self) -> Option<Self> {
        let sum: f64 = self.chances.iter().sum();
        self.chances.iter_mut().for_each(|chance| *chance /= sum);
        sum.is_normal().then_some(self)
    }

    /// The rate below which this share of the probability lies. `share` is above 0 and below 1.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut below = 0.0;
        for (point, &chance) in self.chances.iter().enumerate() {
            if below + chance >= share {
                let within = (share - below) / chance - 0.5;
                return (self.first + (point as f64 + within) * self.step).exp();
            }
            below += chance;
        }
        (self.first + self.step * self.chances.len() as f64).exp()
    }

    /// The estimate, unless it lies above the greatest load that could be tried: nothing is known of such loads.
    pub(crate) fn up_to(self, most_qps: f64) -> Option<Self> {
        (self.interval().median <= most_qps).then_some(self)
    }

    /// The median, and the interval that holds the truth with a probability of 95 %.
    pub fn interval(&self) -> Interval {
        let tail = (1.0 - COVERAGE) / 2.0;
        Interval {
            median: self.quantile(0.5),
            low: self.quantile(tail),
            high: self.quantile(1.0 - tail),
            coverage: COVERAGE,
            count: self.starts,
        }
    }

    /// The distribution of this rate divided by another one that is known independently.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        let (step, spoiled) = (self.step.max(other.step), other.rests_on_spoiled);
        let (one, other) = (self.with_step(step), other.with_step(step));
        let (length, points) = (one.chances.len(), other.chances.len());
        let mut chances = vec![0.0; length + points - 1];
        for (at, chance) in one.chances.iter().enumerate().filter(|(_, chance)| **chance > 1e-12) {
            for (point, &divisor) in other.chances.iter().enumerate() {
                chances[at + points - 1 - point] += chance * divisor;
            }
        }
        let first = one.first - other.first - step * (points - 1) as f64;
        let rests_on_spoiled = self.rests_on_spoiled || spoiled;
        Self { first, step, chances, starts: one.starts.min(other.starts), rests_on_spoiled }
    }

    /// Moves the distribution to a grid with this step, which is at least as large.
    fn with_step(&self, step: f64) -> Self {
        let ratio = self.step / step;
        let mut chances = vec![0.0; ((self.chances.len() - 1) as f64 * ratio).ceil() as usize + 2];
        for (point, &chance) in self.chances.iter().enumerate() {
            let at = point as f64 * ratio;
            let (below, above) = (at.floor(), at - at.floor());
            chances[below as usize] += chance * (1.0 - above);
            chances[below as usize + 1] += chance * above;
        }
        Self { step, chances, ..*self }
    }
}

/// Whether a rate is among the loads and rates of these trials, or not far beyond. A trial that missed the goal for another
/// reason than its load bounds nothing if all the others met it: all greater rates are then about equally likely.
fn is_near(starts: &[&Vec<Evidence>], qps: f64) -> bool {
    let away = |one: &Evidence| (qps / one.rate_qps()).ln();
    let aways = || starts.iter().flat_map(|start| start.iter().map(away));
    aways().any(|away| away <= BEYOND_MOST) && aways().any(|away| away >= -BEYOND_MOST)
}

/// The scatters that a subject may have, in steps of one factor.
fn scatters() -> impl Iterator<Item = f64> {
    (0..SCATTER_STEPS).map(|step| {
        let exponent = step as f64 / (SCATTER_STEPS - 1) as f64;
        SCATTER_LEAST * (SCATTER_MOST / SCATTER_LEAST).powf(exponent)
    })
}

/// The points of a grid of rates.
struct Grid {
    first: f64,
    step: f64,
    points: usize,
}

impl Grid {
    fn from_evidence(evidence: impl Iterator<Item = Evidence>) -> Option<Self> {
        let (mut met, mut missed) = (None, None);
        for one in evidence {
            let log = one.rate_qps().ln();
            if !matches!(one, Evidence::Missed(_)) {
                met = Some(met.map_or(log, |most: f64| most.max(log)));
            }
            if !matches!(one, Evidence::Met(_)) {
                missed = Some(missed.map_or(log, |least: f64| least.min(log)));
            }
        }
        let (met, missed): (f64, f64) = (met?, missed?);
        let (first, last) = (met.min(missed) - MARGIN, met.max(missed) + MARGIN);
        let step = STEP.max((last - first) / POINTS_MOST);
        Some(Self { first, step, points: ((last - first) / step).ceil() as usize })
    }

    /// The likelihood of all trials for each scatter, and for each of these distances between starts.
    fn parts(&self, starts: &[&Vec<Evidence>], apart: &[(f64, f64)]) -> Vec<Part> {
        let mut parts = Vec::with_capacity(SCATTER_STEPS * apart.len());
        for scatter in scatters() {
            let likelihoods: Vec<Likelihoods> =
                starts.iter().map(|start| self.likelihoods(start, scatter)).collect();
            let usual_log = -0.5 * ((scatter / SCATTER_USUAL).ln() / SCATTER_SPREAD).powi(2);
            let greatest: f64 = likelihoods.iter().map(|likelihood| likelihood.greatest).sum();
            for &(apart, weight) in apart {
                let blurred = likelihoods.iter().map(|one| blur(&one.shares, apart / self.step));
                parts.push(Part::new(usual_log + weight.ln() + greatest, self.points, blurred));
            }
        }
        parts
    }

    /// The likelihood of a start's trials at every point.
    fn likelihoods(&self, start: &[Evidence], scatter: f64) -> Likelihoods {
        let known: Vec<(Evidence, f64)> = start.iter().map(|one| (*one, one.rate_qps().ln())).collect();
        let at = |point| self.first + point as f64 * self.step;
        let log_of = |log: f64| {
            let of_trial = |(one, of_rate): &(Evidence, f64)| one.likelihood(log - of_rate, scatter);
            log_of_product(known.iter().map(of_trial))
        };
        let logs: Vec<f64> = (0..self.points).map(|point| log_of(at(point))).collect();
        let greatest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Likelihoods { greatest, shares: logs.iter().map(|log| (log - greatest).exp()).collect() }
    }
}

/// A product below this, or above its reciprocal, is kept as its logarithm.
const PRODUCT_LEAST: f64 = 1e-150;

/// The logarithm of a product of likelihoods, which may be beyond the range of `f64`.
fn log_of_product(likelihoods: impl Iterator<Item = f64>) -> f64 {
    let (log, product) = likelihoods.fold((0.0, 1.0), |(log, product): (f64, f64), one| {
        let product = product * one;
        // The density of a rate may be above 1.
        let is_far = !(PRODUCT_LEAST..1.0 / PRODUCT_LEAST).contains(&product);
        if is_far { (log + product.ln(), 1.0) } else { (log, product) }
    });
    log + product.ln()
}

/// The likelihood of trials at every point of a grid. The product over many trials exceeds the range of `f64`,
/// so its logarithm is kept.
struct Likelihoods {
    /// The logarithm of the greatest likelihood.
    greatest: f64,
    /// Each likelihood as a share of the greatest.
    shares: Vec<f64>,
}

/// The likelihood of all trials for one scatter and one distance between starts.
struct Part {
    /// The logarithm of a factor of all points.
    log: f64,
    /// The rest of the likelihood at every point, with its logarithm where the product is too small.
    products: Vec<f64>,
    logs: Vec<f64>,
}

impl Part {
    fn new(log: f64, points: usize, starts: impl Iterator<Item = Vec<f64>>) -> Self {
        let mut part = Self { log, products: vec![1.0; points], logs: Vec::new() };
        for shares in starts {
            let mut small = 0u32;
            for (product, share) in part.products.iter_mut().zip(&shares) {
                *product *= if *share > PRODUCT_LEAST { *share } else { PRODUCT_LEAST };
                small += u32::from(*product < PRODUCT_LEAST);
            }
            if small > 0 {
                part.take_logs();
            }
        }
        part
    }

    /// Keeps small products as their logarithms, so that the next factor does not make them 0.
    fn take_logs(&mut self) {
        self.logs.resize(self.products.len(), 0.0);
        for (product, log) in self.products.iter_mut().zip(&mut self.logs) {
            if *product < PRODUCT_LEAST {
                *log += product.ln();
                *product = 1.0;
            }
        }
    }

    fn log_at(&self, point: usize) -> f64 {
        self.logs.get(point).copied().unwrap_or(0.0) + self.products[point].ln()
    }

    /// The logarithm of the greatest likelihood.
    fn greatest(&self) -> f64 {
        let greatest = if self.logs.is_empty() {
            self.products.iter().copied().fold(0.0, f64::max).ln()
        } else {
            (0..self.products.len()).map(|point| self.log_at(point)).fold(f64::NEG_INFINITY, f64::max)
        };
        self.log + greatest
    }
}

/// The sum of the parts at every point, as a multiple of the greatest.
fn chances(parts: &[Part], points: usize) -> Vec<f64> {
    let greatest = parts.iter().map(Part::greatest).fold(f64::NEG_INFINITY, f64::max);
    let mut chances = vec![0.0; points];
    for part in parts {
        let log = part.log - greatest;
        if part.logs.is_empty() {
            let factor = log.exp();
            chances.iter_mut().zip(&part.products).for_each(|(sum, product)| *sum += factor * product);
        } else {
            let at = |point: usize| (log + part.log_at(point)).exp();
            chances.iter_mut().enumerate().for_each(|(point, sum)| *sum += at(point));
        }
    }
    chances
}

/// From this standard deviation on, in points, three moving averages in a row replace a normal distribution.
/// The result is as good, and its cost does not grow with the width.
const WIDE: f64 = 8.0;

/// Convolves the values at all points with a normal distribution. `deviation` is its standard deviation in
/// points.
fn blur(sharp: &[f64], deviation: f64) -> Vec<f64> {
    if deviation < WIDE { blur_by_weights(sharp, deviation) } else { blur_evenly(sharp, deviation) }
}

/// So many points are summed up together.
const TOGETHER: usize = 8;

fn blur_by_weights(sharp: &[f64], deviation: f64) -> Vec<f64> {
    let reach = (3.0 * deviation).ceil() as usize;
    let weights: Vec<f64> =
        (0..=reach).map(|away| (-0.5 * (away as f64 / deviation.max(1e-9)).powi(2)).exp()).collect();
    let sum = 2.0 * weights.iter().sum::<f64>() - weights[0];
    let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
    // With zeros around it, no point is near an end.
    let mut padded = vec![0.0; sharp.len().next_multiple_of(TOGETHER) + 2 * reach];
    padded[reach..reach + sharp.len()].copy_from_slice(sharp);
    let mut blurred = Vec::with_capacity(sharp.len().next_multiple_of(TOGETHER));
    for first in (0..sharp.len()).step_by(TOGETHER) {
        let at = |place: usize| -> &[f64; TOGETHER] {
            padded[place..].first_chunk().expect("zeros stand behind the last point")
        };
        let mut sums = at(first + reach).map(|value| value * shares[0]);
        for (away, share) in shares.iter().enumerate().skip(1) {
            let (below, above) = (at(first + reach - away), at(first + reach + away));
            for (sum, (below, above)) in sums.iter_mut().zip(below.iter().zip(above)) {
                *sum += share * (below + above);
            }
        }
        blurred.extend(sums);
    }
    blurred.truncate(sharp.len());
    blurred
}

/// The variance of three even distributions over `width` points is `(width² - 1) / 4`.
fn blur_evenly(sharp: &[f64], deviation: f64) -> Vec<f64> {
    let reach = (((4.0 * deviation * deviation + 1.0).sqrt() - 1.0) / 2.0).round() as usize;
    (0..3).fold(sharp.to_vec(), |points, _| mean_of_neighbours(&points, reach))
}

/// At every point, the mean of the points at most `reach` away, with 0 beyond the ends.
fn mean_of_neighbours(points: &[f64], reach: usize) -> Vec<f64> {
    let width = 2 * reach + 1;
    // The sum of all points before each, with as many places more at both ends as the mean reaches.
    let mut sums = vec![0.0; reach + 1];
    let mut sum = 0.0;
    sums.extend(points.iter().map(|point| {
        sum += point;
        sum
    }));
    sums.resize(points.len() + width, sum);
    let ends = sums.iter().zip(&sums[width..]);
    ends.map(|(before, after)| (after - before) / width as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_trials_are_as_good_as_few() {
        for starts in [1, 3] {
            let answered = |trial: u32| Evidence::Answered(1e5 * (1.0 + 0.01 * f64::from(trial % 3) - 0.01));
            let tried = |trial: u32| {
                let qps = 1e5 * (0.99 + 0.005 * f64::from(trial % 5));
                if qps < 1e5 { Evidence::Met(qps) } else { Evidence::Missed(qps) }
            };
            for of in [&answered as &dyn Fn(u32) -> Evidence, &tried] {
                let start: Vec<Evidence> = (0..3_000).map(of).collect();
                let interval = Estimate::from_starts(&vec![start; starts]).unwrap().interval();
                let width = (interval.high - interval.low) / interval.median;
                assert!(
                    (interval.median / 1e5 - 1.0).abs() < 0.004 && width < 0.02,
                    "{starts}: {interval:?}"
                );
            }
        }
    }

    #[test]
    fn many_trials_of_starts_far_apart_give_an_estimate() {
        let start = |qps: f64| vec![Evidence::Answered(qps); 1_000];
        assert!(Estimate::from_starts(&[start(1e5), start(2e5)]).is_some());
    }

    #[test]
    fn what_was_sharp_is_spread_as_wide_as_it_says() {
        for deviation in [0.0, 2.0, 7.9, 8.1, 60.0] {
            let mut sharp = vec![0.0; 801];
            sharp[400] = 2.0;
            let blurred = blur(&sharp, deviation);
            let sum: f64 = blurred.iter().sum();
            let away = |(at, value): (usize, &f64)| value * (at as f64 - 400.0).powi(2);
            let variance = blurred.iter().enumerate().map(away).sum::<f64>() / sum;
            assert!((sum - 2.0).abs() < 1e-9, "{deviation}: {sum}");
            assert!(
                (variance.sqrt() - deviation).abs() <= 0.06 * deviation.max(1.0),
                "{deviation}: {variance}"
            );
        }
    }
}
