//! Whether the host changed with a figure: the rate of the echo on it is beside every figure.

use crate::changes::{Sample, find};
use crate::level::Spread;

/// The greatest chance among equals of a difference between the ceilings on both sides of a change.
const CHANCE: f64 = 0.01;

/// A ceiling that moves by less than this part of the change does not explain it.
const PART: f64 = 0.5;

/// The places where the ceiling changed, as indices into the points. Points without a ceiling are passed over.
pub(crate) fn cuts(ceilings: &[Option<f64>], permutations: u32, seed: u64) -> Vec<usize> {
    let known: Vec<(usize, f64)> =
        (0..).zip(ceilings).filter_map(|(at, qps)| Some((at, qps.filter(|qps| *qps > 0.0)?.ln()))).collect();
    let samples: Vec<Sample> = known.iter().map(|(_, log)| Sample { log: *log, mde: None }).collect();
    find(&samples, permutations, seed).into_iter().map(|found| known[found.at].0).collect()
}

/// Whether the ceilings on both sides of a change differ enough to explain it. `by` is the change as a logarithm.
pub(crate) fn explains(before: &[Option<f64>], after: &[Option<f64>], by: f64) -> bool {
    let logs = |side: &[Option<f64>]| -> Vec<f64> {
        side.iter().flatten().filter(|qps| **qps > 0.0).map(|qps| qps.ln()).collect()
    };
    let (before, after) = (logs(before), logs(after));
    if before.len() < 2 || after.len() < 2 {
        return false;
    }
    let [before, after] = [before, after].map(|logs| Spread::from_logs(logs.into_iter()));
    let difference = before.to(&after, 0.0);
    difference.chance() <= CHANCE && difference.by.abs() >= PART * by.abs()
}
