//! Differences between the values of a factor, over pairs of cells that are equal in all other factors, and how these
//! differences depend on the other factors.

use std::collections::BTreeMap;

use super::{Contrast, FactorCell, Interaction};
use crate::compare::ERROR_RATE;
use crate::student::quantile;

/// The share of the error rate that dependences between factors take; the rest is for contrasts.
const OF_INTERACTIONS: f64 = 0.2;

/// A claim needs a difference of at least this share of the MDE, as in a comparison of two subjects.
const CLAIMED: f64 = 0.6;

/// The probability, 0 to 1, that a difference as large as the MDE is found.
const FOUND: f64 = 0.95;

/// Starts scatter by at least this much, as the standard deviation of logarithms: some quantities are equal to the last
/// digit in all starts.
const SCATTER_LEAST: f64 = 0.001;

/// With fewer degrees of freedom an interval says nothing of use: t is 12 with one.
const FREEDOM_LEAST: usize = 4;

/// A cell with a number.
pub(super) struct Known<'a> {
    values: &'a [String],
    /// Block → the mean logarithm of its starts.
    pub(super) starts: BTreeMap<u32, f64>,
    /// The widest step of its starts, as a logarithm.
    resolution: f64,
}

impl<'a> Known<'a> {
    pub(super) fn of(cell: &'a FactorCell) -> Self {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let mut resolution: f64 = 0.0;
        for start in cell.starts.iter().filter(|start| start.value > 0.0 && start.value.is_finite()) {
            blocks.entry(start.block).or_default().push(start.value.ln());
            resolution = resolution.max(start.resolution.max(0.0).ln_1p());
        }
        let starts = blocks.into_iter().map(|(block, logs)| (block, mean(&logs))).collect();
        Self { values: &cell.values, starts, resolution }
    }
}

/// A difference as a logarithm, with what is known of its error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) by: f64,
    /// The variance of `by`, and its degrees of freedom; `None` if there are too few blocks.
    error: Option<(f64, usize)>,
    /// How far `by` may be off since the figures come in steps.
    resolution: f64,
}

/// A pair of cells that differ in one factor alone.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Index of the cell with the first value; its values of the other factors are the place of the pair.
    place: usize,
    by: f64,
    /// The variance of `by`, and the number of blocks that have both cells. The variance is 0 with one block.
    variance: f64,
    blocks: usize,
    resolution: f64,
}

/// The difference between two values of a factor.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    factor: usize,
    greater: String,
    lesser: String,
    pub(super) spread: Spread,
    /// The differences at every place, with the sign of `by`.
    pairs: Vec<Pair>,
}

/// The quantiles of a family of tests.
pub(super) struct Tests {
    /// The error rate of one contrast, and that of one dependence.
    of_contrast: f64,
    of_interaction: f64,
}

fn mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / logs.len() as f64
}

/// The differences between every two values of every factor for which there is a pair of cells.
pub(super) fn contrasts(factors: &[String], cells: &[Known<'_>]) -> Vec<Difference> {
    let mut found = Vec::new();
    for factor in 0..factors.len() {
        let mut values: Vec<&String> = Vec::new();
        for cell in cells {
            if !values.contains(&&cell.values[factor]) {
                values.push(&cell.values[factor]);
            }
        }
        for (index, one) in values.iter().enumerate() {
            let others = values[index + 1..].iter();
            found.extend(others.filter_map(|other| difference(factor, one, other, cells)));
        }
    }
    found
}

fn difference(factor: usize, one: &str, other: &str, cells: &[Known<'_>]) -> Option<Difference> {
    let is_same_place = |a: &[String], b: &[String]| {
        a.iter().zip(b).enumerate().all(|(index, (a, b))| index == factor || a == b)
    };
    let mut pairs: Vec<Pair> = Vec::new();
    for (place, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.values[factor] == one) {
        let partner = cells
            .iter()
            .find(|theirs| theirs.values[factor] == other && is_same_place(cell.values, theirs.values));
        pairs.extend(partner.and_then(|theirs| pair(place, cell, theirs)));
    }
    // A pair with one block has no scatter of its own. It counts only if no pair has one.
    if pairs.iter().any(|pair| pair.blocks > 1) {
        pairs.retain(|pair| pair.blocks > 1);
    }
    let spread = pooled(&pairs)?;
    let (mut greater, mut lesser) = (one.to_owned(), other.to_owned());
    if spread.by < 0.0 {
        std::mem::swap(&mut greater, &mut lesser);
        for pair in &mut pairs {
            pair.by = -pair.by;
        }
    }
    let spread = Spread { by: spread.by.abs(), ..spread };
    Some(Difference { factor, greater, lesser, spread, pairs })
}

/// Two cells within the blocks that have both; `None` if there is no such block.
fn pair(place: usize, one: &Known<'_>, other: &Known<'_>) -> Option<Pair> {
    let within: Vec<f64> =
        one.starts.iter().filter_map(|(block, log)| Some(log - other.starts.get(block)?)).collect();
    let blocks = within.len();
    if blocks == 0 {
        return None;
    }
    let by = mean(&within);
    let squares: f64 = within.iter().map(|log| (log - by).powi(2)).sum();
    let of_block = if blocks > 1 { squares / (blocks - 1) as f64 } else { 0.0 };
    let variance = of_block.max(2.0 * SCATTER_LEAST * SCATTER_LEAST) / blocks as f64;
    // Each figure may be off by half of its step.
    let resolution = f64::midpoint(one.resolution, other.resolution);
    Some(Pair { place, by, variance, blocks, resolution })
}

/// The mean over pairs. Welch's degrees of freedom, since the scatter of pairs may differ.
fn pooled(pairs: &[Pair]) -> Option<Spread> {
    let count = pairs.len() as f64;
    if pairs.is_empty() {
        return None;
    }
    Some(Spread {
        by: pairs.iter().map(|pair| pair.by).sum::<f64>() / count,
        error: welch(pairs).map(|(variance, freedom)| (variance / (count * count), freedom)),
        resolution: pairs.iter().map(|pair| pair.resolution).sum::<f64>() / count,
    })
}

/// The variance of the sum, and its degrees of freedom; `None` if the blocks are too few.
fn welch(pairs: &[Pair]) -> Option<(f64, usize)> {
    let all: usize = pairs.iter().map(|pair| pair.blocks - 1).sum();
    if all < FREEDOM_LEAST || pairs.iter().any(|pair| pair.blocks < 2) {
        return None;
    }
    let variance: f64 = pairs.iter().map(|pair| pair.variance).sum();
    let squares: f64 = pairs.iter().map(|pair| pair.variance.powi(2) / (pair.blocks - 1) as f64).sum();
    Some((variance, ((variance * variance / squares) as usize).max(1)))
}

impl Difference {
    pub(super) fn contrast(&self, factors: &[String], tests: &Tests) -> Contrast {
        let by = self.spread.by;
        let reach = self.spread.reach(tests.of_contrast);
        Contrast {
            factor: factors[self.factor].clone(),
            greater: self.greater.clone(),
            lesser: self.lesser.clone(),
            ratio: reach.map_or((by.exp(), by.exp(), by.exp()), |reach| around(by, reach)),
            mde: self.spread.detectable(tests.of_contrast).map(f64::exp_m1),
            pairs: self.pairs.len() as u32,
        }
    }
}

fn around(by: f64, reach: f64) -> (f64, f64, f64) {
    ((by - reach).exp(), by.exp(), (by + reach).exp())
}

impl Spread {
    /// Half the width of an interval with this error rate.
    fn reach(&self, error_rate: f64) -> Option<f64> {
        let (variance, freedom) = self.error?;
        Some(quantile(1.0 - error_rate / 2.0, freedom) * variance.sqrt() + self.resolution)
    }

    fn detectable(&self, error_rate: f64) -> Option<f64> {
        let (variance, freedom) = self.error?;
        Some(self.reach(error_rate)? + quantile(FOUND, freedom) * variance.sqrt())
    }

    fn is_claimed(&self, error_rate: f64) -> bool {
        let limits = self.reach(error_rate).zip(self.detectable(error_rate));
        limits.is_some_and(|(reach, detectable)| self.by > reach && self.by >= CLAIMED * detectable)
    }
}

impl Tests {
    /// The tests of all contrasts and of all dependences, which are one family.
    pub(super) fn of(found: &[Difference]) -> Self {
        let of_places: usize = found.iter().map(|one| one.pairs.len() * (one.pairs.len() - 1) / 2).sum();
        let share = if of_places == 0 { 0.0 } else { OF_INTERACTIONS };
        Self {
            of_contrast: ERROR_RATE * (1.0 - share) / found.len().max(1) as f64,
            of_interaction: ERROR_RATE * share / of_places.max(1) as f64,
        }
    }

    /// Whether a difference of this size is one.
    pub(super) fn is_claimed(&self, spread: &Spread) -> bool {
        spread.is_claimed(self.of_contrast)
    }
}

/// A contrast that depends on other factors.
pub(super) struct Dependence {
    /// Indices of the factors, sorted: that of the contrast, and those that differ between both places.
    pub(super) factors: Vec<usize>,
    /// How far the ratios at both places are apart, as a logarithm.
    pub(super) apart: f64,
    pub(super) interaction: Interaction,
}

/// The contrasts that depend on other factors: of each, the two places that are farthest apart among those that
/// differ for certain.
pub(super) fn interactions(
    factors: &[String],
    cells: &[Known<'_>],
    found: &[Difference],
    tests: &Tests,
) -> Vec<Dependence> {
    found.iter().filter_map(|one| dependence(factors, cells, one, tests)).collect()
}

fn dependence(
    factors: &[String],
    cells: &[Known<'_>],
    one: &Difference,
    tests: &Tests,
) -> Option<Dependence> {
    let mut farthest: Option<(Spread, Pair, Pair)> = None;
    for least in &one.pairs {
        for greatest in one.pairs.iter().filter(|pair| pair.by > least.by) {
            let spread = Spread {
                by: greatest.by - least.by,
                error: welch(&[*least, *greatest]),
                resolution: least.resolution + greatest.resolution,
            };
            let is_farther = farthest.is_none_or(|(known, ..)| spread.by > known.by);
            if is_farther && spread.is_claimed(tests.of_interaction) {
                farthest = Some((spread, *least, *greatest));
            }
        }
    }
    let (spread, least, greatest) = farthest?;
    let (at_least, at_greatest) = (cells[least.place].values, cells[greatest.place].values);
    let differing: Vec<usize> =
        (0..factors.len()).filter(|index| at_least[*index] != at_greatest[*index]).collect();
    let place = |values: &[String], by: f64| {
        let words: Vec<String> =
            differing.iter().map(|index| format!("{} {}", factors[*index], values[*index])).collect();
        (words.join(", "), by.exp())
    };
    let mut all = differing.clone();
    all.push(one.factor);
    all.sort_unstable();
    all.dedup();
    let interaction = Interaction {
        factor: factors[one.factor].clone(),
        greater: one.greater.clone(),
        lesser: one.lesser.clone(),
        least: place(at_least, least.by),
        greatest: place(at_greatest, greatest.by),
        apart: around(spread.by, spread.reach(tests.of_interaction)?),
    };
    Some(Dependence { factors: all, apart: spread.by, interaction })
}
