//! Differences between the values of a factor, over pairs of cells that are equal in all other factors, and how these
//! differences depend on the other factors.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::{Contrast, FactorCell, Interaction};
use crate::compare::ERROR_RATE;
use crate::figure::setting;
use crate::mean::{mean, squares};
use crate::narrow::narrow;
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
pub(super) struct MeasuredCell<'a> {
    values: &'a [String],
    further: &'a [BTreeMap<String, String>],
    /// Block → the mean logarithm of its starts.
    pub(super) starts: BTreeMap<u32, f64>,
    /// The widest step of its starts, as a logarithm.
    resolution: f64,
}

impl<'a> MeasuredCell<'a> {
    pub(super) fn from_cell(cell: &'a FactorCell) -> Self {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let mut resolution: f64 = 0.0;
        for start in cell.starts.iter().filter(|start| start.value > 0.0 && start.value.is_finite()) {
            blocks.entry(start.block).or_default().push(start.value.ln());
            resolution = resolution.max(start.resolution.max(0.0).ln_1p());
        }
        let starts = blocks.into_iter().map(|(block, logs)| (block, mean(&logs))).collect();
        Self { values: &cell.values, further: &cell.further, starts, resolution }
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
#[derive(Clone, Debug)]
struct Pair {
    /// Index of the cell with the first value; its values of the other factors are the place of the pair.
    place: usize,
    by: f64,
    /// The variance of `by`.
    variance: f64,
    /// Block → the difference within it, for the blocks that have both cells.
    within: BTreeMap<u32, f64>,
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
    /// Whether all pairs of a block share a start, so that they are not independent.
    shares_base: bool,
}

/// The quantiles of a family of tests.
pub(super) struct Tests {
    /// The error rate of one contrast, and that of one dependence.
    of_contrast: f64,
    of_interaction: f64,
    /// (Share as bits, degrees of freedom) → quantile: a big experiment asks for few of them a great many times.
    quantiles: RefCell<HashMap<(u64, usize), f64>>,
}

/// The cells that have the same values of all factors but one: each value of that factor → index of its cell.
type Places<'a> = HashMap<Vec<&'a str>, HashMap<&'a str, usize>>;

/// The differences between every two values of every factor for which there is a pair of cells. `shares_base`: whether all
/// figures of a block are differences from one start.
pub(super) fn contrasts(
    factors: &[String],
    cells: &[MeasuredCell<'_>],
    shares_base: bool,
) -> Vec<Difference> {
    let mut found = Vec::new();
    for factor in 0..factors.len() {
        let mut places: Places<'_> = HashMap::new();
        let mut values: Vec<&str> = Vec::new();
        let mut of_value: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, cell) in cells.iter().enumerate() {
            let own = cell.values[factor].as_str();
            places.entry(place_without(cell, factor)).or_default().entry(own).or_insert(index);
            let others = of_value.entry(own).or_default();
            if others.is_empty() {
                values.push(own);
            }
            others.push(index);
        }
        for (index, one) in values.iter().enumerate() {
            for other in &values[index + 1..] {
                let pairs = of_value[one].iter().filter_map(|place| {
                    let cell = &cells[*place];
                    let partner = places.get(&place_without(cell, factor))?.get(other)?;
                    pair(*place, cell, &cells[*partner])
                });
                found.extend(difference(factor, one, other, pairs.collect(), shares_base));
            }
        }
    }
    found
}

/// The values of a cell without that of one factor.
fn place_without<'a>(cell: &MeasuredCell<'a>, factor: usize) -> Vec<&'a str> {
    let others = cell.values.iter().enumerate().filter(|(index, _)| *index != factor);
    others.map(|(_, value)| value.as_str()).collect()
}

fn difference(
    factor: usize,
    one: &str,
    other: &str,
    mut pairs: Vec<Pair>,
    shares_base: bool,
) -> Option<Difference> {
    // A pair with one block has no scatter of its own. It counts only if no pair has one.
    if pairs.iter().any(|pair| pair.within.len() > 1) {
        pairs.retain(|pair| pair.within.len() > 1);
    }
    let spread = pooled(&pairs, shares_base)?;
    let (mut greater, mut lesser) = (one.to_owned(), other.to_owned());
    if spread.by < 0.0 {
        std::mem::swap(&mut greater, &mut lesser);
        for pair in &mut pairs {
            pair.by = -pair.by;
            pair.within.values_mut().for_each(|by| *by = -*by);
        }
    }
    let spread = Spread { by: spread.by.abs(), ..spread };
    Some(Difference { factor, greater, lesser, spread, pairs, shares_base })
}

/// Two cells within the blocks that have both; `None` if there is no such block.
fn pair(place: usize, one: &MeasuredCell<'_>, other: &MeasuredCell<'_>) -> Option<Pair> {
    let both = one.starts.iter().filter_map(|(block, log)| Some((*block, log - other.starts.get(block)?)));
    let within: BTreeMap<u32, f64> = both.collect();
    if within.is_empty() {
        return None;
    }
    let logs: Vec<f64> = within.values().copied().collect();
    // Each figure may be off by half of its step.
    let resolution = f64::midpoint(one.resolution, other.resolution);
    Some(Pair { place, by: mean(&logs), variance: variance_of_mean(&logs), within, resolution })
}

/// The variance of the mean of these differences, one for each block. That of a single block is not known: it is the least.
fn variance_of_mean(logs: &[f64]) -> f64 {
    let of_block = if logs.len() > 1 { squares(logs) / (logs.len() - 1) as f64 } else { 0.0 };
    of_block.max(2.0 * SCATTER_LEAST * SCATTER_LEAST) / logs.len() as f64
}

/// The mean over pairs.
fn pooled(pairs: &[Pair], shares_base: bool) -> Option<Spread> {
    let count = pairs.len() as f64;
    if pairs.is_empty() {
        return None;
    }
    let weighted: Vec<(&Pair, f64)> = pairs.iter().map(|pair| (pair, 1.0 / count)).collect();
    Some(Spread {
        by: mean(&pairs.iter().map(|pair| pair.by).collect::<Vec<_>>()),
        error: if shares_base { over_blocks(&weighted) } else { welch(&weighted) },
        resolution: pairs.iter().map(|pair| pair.resolution).sum::<f64>() / count,
    })
}

/// The variance of a weighted sum of independent pairs, and Welch's degrees of freedom, since the scatter of pairs may
/// differ; `None` if the blocks are too few.
fn welch(pairs: &[(&Pair, f64)]) -> Option<(f64, usize)> {
    let all: usize = pairs.iter().map(|(pair, _)| pair.within.len() - 1).sum();
    if all < FREEDOM_LEAST || pairs.iter().any(|(pair, _)| pair.within.len() < 2) {
        return None;
    }
    let own = |(pair, weight): &(&Pair, f64)| pair.variance * weight * weight;
    let variance: f64 = pairs.iter().map(own).sum();
    let squares: f64 = pairs.iter().map(|one| own(one).powi(2) / (one.0.within.len() - 1) as f64).sum();
    Some((variance, ((variance * variance / squares) as usize).max(1)))
}

/// The variance of a weighted sum of pairs that share a start in each block, and its degrees of freedom; `None` if the
/// blocks are too few. The pairs are added within each block that all of them have, and the scatter is that of the
/// sums.
fn over_blocks(pairs: &[(&Pair, f64)]) -> Option<(f64, usize)> {
    let (first, _) = pairs.first()?;
    let of_block = |block: &u32| -> Option<f64> {
        pairs.iter().map(|(pair, weight)| Some(pair.within.get(block)? * weight)).sum()
    };
    let sums: Vec<f64> = first.within.keys().filter_map(of_block).collect();
    let freedom = sums.len().checked_sub(1).filter(|freedom| *freedom >= FREEDOM_LEAST)?;
    Some((variance_of_mean(&sums), freedom))
}

/// The further factors that follow from a factor and differ between two cells.
fn changing(factor: usize, one: &MeasuredCell<'_>, other: &MeasuredCell<'_>) -> Vec<String> {
    let (Some(one), Some(other)) = (one.further.get(factor), other.further.get(factor)) else {
        return Vec::new();
    };
    one.iter().filter(|(name, value)| other.get(*name) != Some(value)).map(|(name, _)| name.clone()).collect()
}

impl Difference {
    /// The further factors that differ between both values. They follow from the values, so any two cells show them.
    fn changes_with(&self, cells: &[MeasuredCell<'_>]) -> Vec<String> {
        let of = |value: &String| cells.iter().find(|cell| cell.values[self.factor] == *value);
        let both = of(&self.greater).zip(of(&self.lesser));
        both.map_or_else(Vec::new, |(one, other)| changing(self.factor, one, other))
    }

    pub(super) fn contrast(&self, factors: &[String], cells: &[MeasuredCell<'_>], tests: &Tests) -> Contrast {
        let by = self.spread.by;
        let reach = self.spread.reach(tests.of_contrast, tests);
        Contrast {
            factor: factors[self.factor].clone(),
            changes_with: self.changes_with(cells),
            greater: self.greater.clone(),
            lesser: self.lesser.clone(),
            ratio: by.exp(),
            interval: reach.map(|reach| ((by - reach).exp(), (by + reach).exp())),
            mde: self.spread.detectable(tests.of_contrast, tests).map(f64::exp_m1),
            pairs: narrow(self.pairs.len()),
        }
    }

    /// How far the difference at one place is above that at another.
    fn apart(&self, least: &Pair, greatest: &Pair) -> Spread {
        let both = [(greatest, 1.0), (least, -1.0)];
        Spread {
            by: greatest.by - least.by,
            error: if self.shares_base { over_blocks(&both) } else { welch(&both) },
            resolution: least.resolution + greatest.resolution,
        }
    }
}

impl Spread {
    /// Half the width of an interval with this error rate.
    fn reach(&self, error_rate: f64, tests: &Tests) -> Option<f64> {
        let (variance, freedom) = self.error?;
        Some(tests.quantile(1.0 - error_rate / 2.0, freedom) * variance.sqrt() + self.resolution)
    }

    fn detectable(&self, error_rate: f64, tests: &Tests) -> Option<f64> {
        let (variance, freedom) = self.error?;
        Some(self.reach(error_rate, tests)? + tests.quantile(FOUND, freedom) * variance.sqrt())
    }

    fn is_claimed(&self, error_rate: f64, tests: &Tests) -> bool {
        if self.by <= self.resolution {
            return false;
        }
        let limits = self.reach(error_rate, tests).zip(self.detectable(error_rate, tests));
        limits.is_some_and(|(reach, detectable)| self.by > reach && self.by >= CLAIMED * detectable)
    }
}

impl Tests {
    /// The tests of all contrasts and of all dependences, which are one family.
    pub(super) fn new(found: &[Difference]) -> Self {
        let of_places: usize = found.iter().map(|one| one.pairs.len() * (one.pairs.len() - 1) / 2).sum();
        let share = if of_places == 0 { 0.0 } else { OF_INTERACTIONS };
        Self {
            of_contrast: ERROR_RATE * (1.0 - share) / found.len().max(1) as f64,
            of_interaction: ERROR_RATE * share / of_places.max(1) as f64,
            quantiles: RefCell::default(),
        }
    }

    /// Whether a difference of this size is one.
    pub(super) fn is_claimed(&self, spread: &Spread) -> bool {
        spread.is_claimed(self.of_contrast, self)
    }

    fn quantile(&self, share: f64, freedom: usize) -> f64 {
        let mut known = self.quantiles.borrow_mut();
        *known.entry((share.to_bits(), freedom)).or_insert_with(|| quantile(share, freedom))
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
    cells: &[MeasuredCell<'_>],
    found: &[Difference],
    tests: &Tests,
) -> Vec<Dependence> {
    found.iter().filter_map(|one| dependence(factors, cells, one, tests)).collect()
}

fn dependence(
    factors: &[String],
    cells: &[MeasuredCell<'_>],
    one: &Difference,
    tests: &Tests,
) -> Option<Dependence> {
    let mut farthest: Option<(Spread, &Pair, &Pair)> = None;
    for least in &one.pairs {
        for greatest in &one.pairs {
            let known = farthest.map_or(0.0, |(spread, ..)| spread.by);
            if greatest.by - least.by <= known {
                continue;
            }
            let spread = one.apart(least, greatest);
            if spread.is_claimed(tests.of_interaction, tests) {
                farthest = Some((spread, least, greatest));
            }
        }
    }
    let (spread, least, greatest) = farthest?;
    let (at_least, at_greatest) = (cells[least.place].values, cells[greatest.place].values);
    let differing: Vec<usize> =
        (0..factors.len()).filter(|index| at_least[*index] != at_greatest[*index]).collect();
    let place = |values: &[String], by: f64| {
        let words: Vec<String> =
            differing.iter().map(|index| setting(&factors[*index], &values[*index])).collect();
        (words.join(", "), by.exp())
    };
    let mut all = differing.clone();
    all.push(one.factor);
    all.sort_unstable();
    all.dedup();
    let reach = spread.reach(tests.of_interaction, tests)?;
    let of_places = differing.iter().map(|factor| {
        (factors[*factor].clone(), changing(*factor, &cells[least.place], &cells[greatest.place]))
    });
    let own = (factors[one.factor].clone(), one.changes_with(cells));
    let interaction = Interaction {
        factor: factors[one.factor].clone(),
        greater: one.greater.clone(),
        lesser: one.lesser.clone(),
        changes_with: of_places.chain([own]).filter(|(_, further)| !further.is_empty()).collect(),
        on: differing.iter().map(|index| factors[*index].clone()).collect(),
        least: place(at_least, least.by),
        greatest: place(at_greatest, greatest.by),
        apart: ((spread.by - reach).exp(), spread.by.exp(), (spread.by + reach).exp()),
    };
    Some(Dependence { factors: all, apart: spread.by, interaction })
}
