//! The estimate as its rules say it, one logarithm at a time: a check of the fast form, which multiplies likelihoods and takes
//! few logarithms.

use super::{APART, Estimate, Evidence, Grid, SCATTER_SPREAD, SCATTER_USUAL, blur, scatters};

/// The chance of every point of the grid.
fn plain(starts: &[Vec<Evidence>]) -> Vec<f64> {
    let grid = Grid::from_evidence(starts.iter().flatten().copied()).unwrap();
    let apart = if starts.len() == 1 { &APART[..1] } else { &APART[..] };
    let mut parts: Vec<Vec<f64>> = Vec::new();
    for scatter in scatters() {
        let usual = -0.5 * ((scatter / SCATTER_USUAL).ln() / SCATTER_SPREAD).powi(2);
        // For every start, the sum of the logarithms of its trials' likelihoods.
        let sum = |start: &Vec<Evidence>, point: usize| -> f64 {
            let at = grid.first + point as f64 * grid.step;
            start.iter().map(|one| one.likelihood(at - one.rate_qps().ln(), scatter).ln()).sum()
        };
        let logs: Vec<Vec<f64>> =
            starts.iter().map(|start| (0..grid.points).map(|point| sum(start, point)).collect()).collect();
        for (apart, weight) in apart {
            let blurred = logs.iter().map(|logs| {
                let greatest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let shares: Vec<f64> = logs.iter().map(|log| (log - greatest).exp()).collect();
                let blurred = blur(&shares, apart / grid.step);
                blurred.iter().map(|share| greatest + share.max(1e-150).ln()).collect::<Vec<f64>>()
            });
            let mut part = vec![usual + weight.ln(); grid.points];
            for start in blurred {
                part.iter_mut().zip(&start).for_each(|(sum, log)| *sum += log);
            }
            parts.push(part);
        }
    }
    let greatest = parts.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let at = |point: usize| parts.iter().map(|part| (part[point] - greatest).exp()).sum::<f64>();
    let chances: Vec<f64> = (0..grid.points).map(at).collect();
    let sum: f64 = chances.iter().sum();
    chances.iter().map(|chance| chance / sum).collect()
}

/// So many trials around a rate: loads that met the goal below it and missed it above, with a lapse in a hundred.
fn tried(count: u32, rate_qps: f64) -> Vec<Evidence> {
    let trial = |number: u32| {
        let load_qps = rate_qps * (0.96 + 0.01 * f64::from(number % 9));
        let is_met = (load_qps < rate_qps) != (number % 100 == 57);
        if is_met { Evidence::Met(load_qps) } else { Evidence::Missed(load_qps) }
    };
    (0..count).map(trial).collect()
}

fn answered(count: u32, rate_qps: f64) -> Vec<Evidence> {
    (0..count).map(|number| Evidence::Answered(rate_qps * (1.0 + 0.004 * f64::from(number % 5)))).collect()
}

/// From a few trials to so many that their product is far below the least number, and starts from close to so far apart
/// that every product of them is.
#[test]
fn the_fast_form_is_the_plain_sum_of_logarithms() {
    let cases: [Vec<Vec<Evidence>>; 7] = [
        vec![tried(9, 1e5)],
        vec![tried(12, 1e5), tried(15, 1.01e5), tried(11, 0.99e5)],
        vec![tried(200, 1e5), tried(160, 1.02e5)],
        vec![answered(3, 2e5)],
        vec![answered(160, 2e5), answered(200, 2.05e5), answered(120, 1.9e5)],
        vec![answered(200, 1e5), answered(200, 2e5)],
        vec![tried(200, 1e5), answered(200, 1.3e5)],
    ];
    for (number, starts) in cases.iter().enumerate() {
        let fast = Estimate::from_starts(starts).unwrap();
        let plain = plain(starts);
        assert_eq!(fast.chances.len(), plain.len(), "case {number}");
        let farthest =
            fast.chances.iter().zip(&plain).map(|(fast, plain)| (fast - plain).abs()).fold(0.0, f64::max);
        let most = plain.iter().copied().fold(0.0, f64::max);
        assert!(farthest <= 1e-9 * most, "case {number}: {farthest} of {most}");
    }
}
