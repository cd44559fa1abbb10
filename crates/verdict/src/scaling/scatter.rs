//! How far starts scatter at each number of workers: the weights of a fit, and what a bootstrap draws from.

use statrs::distribution::{ChiSquared, ContinuousCDF as _};

use crate::mean::{mean, squares};

/// The least scatter, as a standard deviation of logarithms. Rates that were found to a digit are equal at times.
const SCATTER_LEAST: f64 = 0.002;

/// Sizes have scatters of their own if equal ones would differ as much in fewer than this share of all series.
const SIGNIFICANCE: f64 = 0.01;

/// If sizes have scatters of their own, the weight of each rests on a geometric mean of its own and the usual one,
/// which counts as so many starts. A size whose few starts happen to agree must not decide.
const MIXED: f64 = 4.0;

/// The scatter of starts at every number of workers.
pub(super) struct Scatter {
    /// Standard deviation of the logarithms of a size's starts.
    pub(super) own: Vec<f64>,
    /// Degrees of freedom of each of these.
    pub(super) freedom: Vec<f64>,
    /// Degrees of freedom of all starts together.
    pub(super) freedom_of_all: f64,
    /// The weight of each size: its starts divided by their variance.
    pub(super) weights: Vec<f64>,
    /// The deviation of every start from the mean of its size, as a multiple of the size's scatter; their mean square
    /// is 1.
    pub(super) deviations: Vec<f64>,
}

impl Scatter {
    /// The scatter of the logarithms of rates, size by size. `resolution` is the scatter that the search for a rate
    /// may hide, as a standard deviation of logarithms. `None` if no size has two starts.
    pub(super) fn new(sizes: &[Vec<f64>], resolution: f64) -> Option<Self> {
        let least = resolution.max(SCATTER_LEAST).powi(2);
        let freedom: Vec<f64> = sizes.iter().map(|logs| logs.len() as f64 - 1.0).collect();
        let freedom_of_all: f64 = freedom.iter().sum();
        if freedom_of_all < 1.0 {
            return None;
        }
        let sums: Vec<f64> = sizes.iter().map(|logs| squares(logs)).collect();
        let of_all = (sums.iter().sum::<f64>() / freedom_of_all).max(least);
        let known = sums.iter().zip(&freedom);
        // A size with one start scatters as all do.
        let variances: Vec<f64> =
            known.map(|(sum, free)| if *free < 1.0 { of_all } else { (sum / free).max(least) }).collect();
        let differ = differ(&variances, &freedom);
        let usual_log = variances.iter().map(|variance| variance.ln()).sum::<f64>() / variances.len() as f64;
        let weight = |((variance, free), logs): ((&f64, &f64), &Vec<f64>)| {
            let mixed = || ((MIXED * usual_log + free * variance.ln()) / (MIXED + free)).exp();
            logs.len() as f64 / if differ { mixed() } else { of_all }
        };
        let weights = variances.iter().zip(&freedom).zip(sizes).map(weight).collect();
        let deviations = deviations(sizes, &variances);
        let freedom =
            freedom.into_iter().map(|free| if free < 1.0 { freedom_of_all } else { free }).collect();
        let own = variances.into_iter().map(f64::sqrt).collect();
        Some(Self { own, freedom, freedom_of_all, weights, deviations })
    }
}

/// Bartlett's test of equal variances (Snedecor and Cochran, "Statistical Methods", 8th edition, 13.10).
fn differ(variances: &[f64], freedom: &[f64]) -> bool {
    let tested: Vec<(f64, f64)> =
        variances.iter().copied().zip(freedom.iter().copied()).filter(|(_, free)| *free >= 1.0).collect();
    let (sizes, all) = (tested.len() as f64, tested.iter().map(|(_, free)| free).sum::<f64>());
    if tested.len() < 2 {
        return false;
    }
    let of_all = tested.iter().map(|(variance, free)| variance * free).sum::<f64>() / all;
    let apart: f64 = tested.iter().map(|(variance, free)| free * (of_all / variance).ln()).sum();
    let inverse: f64 = tested.iter().map(|(_, free)| 1.0 / free).sum();
    let corrected = apart / (1.0 + (inverse - 1.0 / all) / (3.0 * (sizes - 1.0)));
    ChiSquared::new(sizes - 1.0).is_ok_and(|expected| expected.sf(corrected) < SIGNIFICANCE)
}

fn deviations(sizes: &[Vec<f64>], variances: &[f64]) -> Vec<f64> {
    let of_size = |(logs, variance): (&Vec<f64>, &f64)| {
        let (mean, scatter) = (mean(logs), variance.sqrt());
        let several = logs.iter().filter(|_| logs.len() > 1);
        several.map(move |log| (log - mean) / scatter).collect::<Vec<f64>>()
    };
    let mut deviations: Vec<f64> = sizes.iter().zip(variances).flat_map(of_size).collect();
    let square = deviations.iter().map(|one| one * one).sum::<f64>() / deviations.len() as f64;
    if square > 0.0 {
        for one in &mut deviations {
            *one /= square.sqrt();
        }
        return deviations;
    }
    // All starts agree to the last digit, and scatter by less than what can be seen.
    vec![-1.0, 1.0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scatters_weigh_sizes_by_their_starts() {
        let sizes = vec![vec![1.0, 1.02, 0.98], vec![2.0, 2.02, 1.98, 2.0], vec![3.0]];
        let scatter = Scatter::new(&sizes, 0.0).unwrap();
        assert!((scatter.weights[1] / scatter.weights[0] - 4.0 / 3.0).abs() < 1e-9, "{:?}", scatter.weights);
        assert!((scatter.weights[0] / scatter.weights[2] - 3.0).abs() < 1e-9, "{:?}", scatter.weights);
        assert_eq!(scatter.freedom, [2.0, 3.0, 5.0]);
        assert!((scatter.own[0] - 0.02).abs() < 1e-9, "{:?}", scatter.own);
        let square = scatter.deviations.iter().map(|one| one * one).sum::<f64>();
        assert_eq!(scatter.deviations.len(), 7);
        assert!((square / 7.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_size_that_scatters_far_more_weighs_less() {
        let near: Vec<f64> = (0..8).map(|at| 0.01 * f64::from(at % 3 - 1)).collect();
        let far: Vec<f64> = near.iter().map(|log| log * 20.0).collect();
        let scatter = Scatter::new(&[near.clone(), near.clone(), near, far], 0.0).unwrap();
        assert!(scatter.weights[0] / scatter.weights[3] > 10.0, "{:?}", scatter.weights);
        assert!((scatter.own[3] / scatter.own[0] - 20.0).abs() < 1e-6, "each draws from its own");
    }

    #[test]
    fn starts_that_agree_scatter_a_little_and_single_ones_are_unknown() {
        let scatter = Scatter::new(&[vec![1.0; 3], vec![2.0; 3]], 0.01).unwrap();
        assert!(scatter.own.iter().all(|own| (own - 0.01).abs() < 1e-12), "{:?}", scatter.own);
        assert_eq!(scatter.deviations, [-1.0, 1.0]);
        assert!(Scatter::new(&[vec![1.0], vec![2.0]], 0.01).is_none());
    }
}
