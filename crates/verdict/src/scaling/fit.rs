//! The law fitted to the rates of starts, with its intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};

use super::SIZES_LEAST;
use super::bootstrap::{Bootstrap, widening};
use super::law::{Costs, Law};
use super::least_squares::{Minimum, Problem};
use super::predictor::{Prediction, Predictor};
use super::scatter::Scatter;
use crate::mean::mean;

/// The rates of all starts at one number of workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RatesAt {
    /// The number of workers, at least 1.
    pub workers: u32,
    /// The rate of each start, queries a second. Those that are not finite and above 0 are left out.
    pub starts_qps: Vec<f64>,
}

/// The law that fits the rates of a series best. Intervals hold the truth with a probability of 95 %.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingFit {
    /// The rate of one worker by the law, queries a second.
    pub alone_qps: f64,
    /// Contention, σ: the share of a query's work that workers do one after the other.
    pub contention: Ranged,
    /// Coherency, κ: what a worker waits for each pair of workers, as a share of a query's work.
    pub coherency: Ranged,
    /// The number of workers with the highest rate.
    pub peak: Peak,
    /// How far the rates lie from the law, as the root of the mean square of their logarithms.
    pub departure: f64,
    /// Whether the rates lie farther from the law than the scatter of their starts explains (F-test, 1 %). The
    /// intervals are wider for it.
    pub departs: bool,
    /// The rate at twice and at four times the most workers that were measured. Empty without an interval.
    pub beyond: Vec<Prediction>,
    /// The law from the fewest to the most workers that were measured.
    pub curve: Vec<Prediction>,
}

/// A constant of the law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranged {
    /// The constant, at least 0.
    pub value: f64,
    /// Its interval. `None` if no number of workers was measured in several starts.
    pub range: Option<Range>,
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

/// The number of workers beyond which more workers answer less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peak {
    /// The number of workers, at least 1; `None` if the rate rises with every worker.
    pub workers: Option<f64>,
    /// Its interval. `None` if no number of workers was measured in several starts.
    pub range: Option<PeakRange>,
    /// The rate there. `None` without a peak, and if the peak lies beyond what was measured and has no interval.
    pub rate: Option<Prediction>,
}

/// The interval of a peak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakRange {
    /// The fewest workers that may be the peak; `None` if there may be none at all.
    pub low: Option<f64>,
    /// The most workers that may be the peak; `None` if it may lie at any number.
    pub high: Option<f64>,
}

/// Rates that depart from the law are this rare, as a share, among series that follow it.
const SIGNIFICANCE: f64 = 0.01;

/// Multiples of the most workers that were measured, at which a rate is predicted.
const BEYOND: [f64; 2] = [2.0, 4.0];

/// Points of the curve between two numbers of workers.
const CURVE_STEPS: u32 = 4;

/// The logarithms of a series, in rising order of workers.
struct Logs {
    workers: Vec<f64>,
    starts: Vec<Vec<f64>>,
}

/// Fits the law to rates. `resolution` is the scatter that the search for a rate may hide, as a standard deviation
/// of logarithms; `seed` is that of the bootstrap. `None` with fewer than [`SIZES_LEAST`] numbers of workers.
pub fn fit(rates: &[RatesAt], resolution: f64, seed: u64) -> Option<ScalingFit> {
    let Logs { workers, starts } = Logs::from_rates(rates)?;
    let scatter = Scatter::new(&starts, resolution);
    let means: Vec<f64> = starts.iter().map(|logs| mean(logs)).collect();
    let even = vec![1.0; workers.len()];
    let problem = Problem::new(&workers, &means, scatter.as_ref().map_or(&even, |scatter| &scatter.weights));
    let found = problem.bounded()?;
    let law = problem.law(&found);
    let widened = scatter.as_ref().and_then(|scatter| widened_by_departure(&found, workers.len(), scatter));
    let counts: Vec<usize> = starts.iter().map(Vec::len).collect();
    let bootstrap = scatter
        .as_ref()
        .and_then(|scatter| Bootstrap::new(&problem, scatter, &counts, widened.unwrap_or(1.0), seed));
    let bootstrap = bootstrap.as_ref();
    let (least, most) = (workers[0], workers[workers.len() - 1]);
    let predictor = Predictor { law, bootstrap, measured: (least, most) };
    let beyond = BEYOND.iter().filter(|_| bootstrap.is_some()).map(|times| predictor.at(times * most));
    Some(ScalingFit {
        alone_qps: law.alone_qps,
        contention: constant(bootstrap, law.contention, |[alone, other, _]| other / alone),
        coherency: constant(bootstrap, law.coherency, |[alone, _, pair]| pair / alone),
        peak: peak(&predictor),
        departure: departure(&law, &workers, &means),
        departs: widened.is_some(),
        beyond: beyond.collect(),
        curve: curve(&predictor, &workers),
    })
}

impl Logs {
    fn from_rates(rates: &[RatesAt]) -> Option<Self> {
        let logs = |one: &RatesAt| -> Vec<f64> {
            let usable = one.starts_qps.iter().filter(|rate| rate.is_finite() && **rate > 0.0);
            usable.map(|rate| rate.ln()).collect()
        };
        let mut sizes: Vec<(u32, Vec<f64>)> = rates.iter().map(|one| (one.workers, logs(one))).collect();
        sizes.retain(|(workers, logs)| *workers > 0 && !logs.is_empty());
        sizes.sort_by_key(|(workers, _)| *workers);
        sizes.dedup_by_key(|(workers, _)| *workers);
        let (workers, starts): (Vec<f64>, Vec<Vec<f64>>) =
            sizes.into_iter().map(|(workers, logs)| (f64::from(workers), logs)).unzip();
        (workers.len() >= SIZES_LEAST).then_some(Self { workers, starts })
    }
}

/// The factor by which intervals are widened because the rates depart from the law; `None` if the scatter of starts
/// explains the distance. The distance then stands for an error of each size, and few sizes show it.
fn widened_by_departure(found: &Minimum, sizes: usize, scatter: &Scatter) -> Option<f64> {
    let freedom = (sizes - found.unknowns) as f64;
    let ratio = found.error / freedom;
    let expected = FisherSnedecor::new(freedom, scatter.freedom_of_all).ok()?;
    (expected.sf(ratio) < SIGNIFICANCE).then(|| ratio.sqrt() * widening(freedom))
}

/// A constant of the law with its interval, cut at 0.
fn constant(bootstrap: Option<&Bootstrap>, value: f64, of: impl Fn(&Costs) -> f64) -> Ranged {
    let range = bootstrap.map(|bootstrap| {
        let (low, high) = bootstrap.interval(of);
        Range { low: low.max(0.0).min(value), high: high.max(value) }
    });
    Ranged { value, range }
}

fn peak(predictor: &Predictor<'_>) -> Peak {
    let workers = predictor.law.peak_workers();
    let range = predictor.bootstrap.map(|bootstrap| {
        // The inverse square of the peak is nearly normal, and at most 0 without a peak.
        let inverse = |[alone, other, pair]: &Costs| {
            if alone > other { (pair / (alone - other)).min(1.0) } else { 1.0 }
        };
        let (low, high) = bootstrap.interval(inverse);
        let at = |inverse: f64| (inverse > 0.0).then(|| inverse.sqrt().recip().max(1.0));
        PeakRange {
            low: at(high).map(|least| least.min(workers.unwrap_or(least))).or(workers),
            high: workers.and_then(|workers| Some(at(low)?.max(workers))),
        }
    });
    let rate = workers.map(|workers| predictor.at(workers));
    let rate = rate.filter(|rate| predictor.bootstrap.is_some() || !rate.is_extrapolated);
    Peak { workers, range, rate }
}

fn departure(law: &Law, workers: &[f64], means: &[f64]) -> f64 {
    let apart = workers.iter().zip(means).map(|(workers, log)| (log - law.rate_qps(*workers).ln()).powi(2));
    (apart.sum::<f64>() / workers.len() as f64).sqrt()
}

fn curve(predictor: &Predictor<'_>, workers: &[f64]) -> Vec<Prediction> {
    let between = |ends: &[f64]| -> Vec<f64> {
        let part = |step: u32| ends[0] + (ends[1] - ends[0]) * f64::from(step) / f64::from(CURVE_STEPS);
        (0..CURVE_STEPS).map(part).collect()
    };
    let places = workers.windows(2).flat_map(between).chain(workers.last().copied());
    places.map(|workers| predictor.at(workers)).collect()
}
