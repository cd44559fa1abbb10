//! Differences between the values of a factor, over pairs of cells that are equal in all other factors, and how these
//! differences depend on the other factors.

use super::Contrast;
use crate::compare::ERROR_RATE;
use crate::student::quantile;

/// A claim needs a difference of at least this share of the MDE, as in a comparison of two subjects.
const CLAIMED: f64 = 0.6;

/// The probability, 0 to 1, that a difference as large as the MDE is found.
const FOUND: f64 = 0.95;

/// Starts scatter by at least this much, as the standard deviation of logarithms: some quantities are equal to the last
/// digit in all starts.
const SCATTER_LEAST: f64 = 0.001;

/// A cell: its values, and the logarithms of its starts.
pub(super) type Known<'a> = (&'a [String], Vec<f64>);

/// A pair of cells that differ in one factor alone.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Index of the cell with the first value; its values of the other factors are the place of the pair.
    place: usize,
    by: f64,
    /// The variance of `by` as a multiple of that of a start.
    weight: f64,
}

/// The difference between two values of a factor, as a logarithm.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    factor: usize,
    greater: String,
    lesser: String,
    pub(super) by: f64,
    /// The variance of `by` as a multiple of that of a start.
    pub(super) weight: f64,
    /// The differences at every place, with the sign of `by`.
    pairs: Vec<Pair>,
}

/// The scatter of starts, and how many tests are made together.
pub(super) struct Tests {
    scatter: f64,
    freedom: usize,
    tests: usize,
}

fn mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / logs.len() as f64
}

/// The differences between every two values of every factor for which there is a pair of cells.
pub(super) fn contrasts(factors: &[String], cells: &[Known<'_>]) -> Vec<Difference> {
    let mut found = Vec::new();
    for factor in 0..factors.len() {
        let mut values: Vec<&String> = Vec::new();
        for (of_cell, _) in cells {
            if !values.contains(&&of_cell[factor]) {
                values.push(&of_cell[factor]);
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
    let mut pairs = Vec::new();
    for (place, (values, logs)) in cells.iter().enumerate().filter(|(_, (values, _))| values[factor] == one) {
        let partner =
            cells.iter().find(|(theirs, _)| theirs[factor] == other && is_same_place(values, theirs));
        if let Some((_, theirs)) = partner {
            let weight = 1.0 / logs.len() as f64 + 1.0 / theirs.len() as f64;
            pairs.push(Pair { place, by: mean(logs) - mean(theirs), weight });
        }
    }
    let count = pairs.len() as f64;
    let by = pairs.iter().map(|pair| pair.by).sum::<f64>() / count;
    let weight = pairs.iter().map(|pair| pair.weight).sum::<f64>() / (count * count);
    if pairs.is_empty() {
        return None;
    }
    let (mut greater, mut lesser) = (one.to_owned(), other.to_owned());
    if by < 0.0 {
        std::mem::swap(&mut greater, &mut lesser);
        for pair in &mut pairs {
            pair.by = -pair.by;
        }
    }
    Some(Difference { factor, greater, lesser, by: by.abs(), weight, pairs })
}

impl Difference {
    pub(super) fn told(&self, factors: &[String], tests: &Tests) -> Contrast {
        let reach = tests.reach(self.weight);
        let ratio = ((self.by - reach).exp(), self.by.exp(), (self.by + reach).exp());
        Contrast { ratio, mde: tests.detectable(self.weight).exp_m1(), ..self.without_interval(factors) }
    }

    pub(super) fn without_interval(&self, factors: &[String]) -> Contrast {
        Contrast {
            factor: factors[self.factor].clone(),
            greater: self.greater.clone(),
            lesser: self.lesser.clone(),
            ratio: (self.by.exp(), self.by.exp(), self.by.exp()),
            mde: 0.0,
            pairs: self.pairs.len() as u32,
        }
    }
}

impl Tests {
    /// `None` if no cell has two starts.
    pub(super) fn of(cells: &[Known<'_>], tests: usize) -> Option<Self> {
        let freedom: usize = cells.iter().map(|(_, logs)| logs.len() - 1).sum();
        let squares = |logs: &Vec<f64>| {
            let mean = mean(logs);
            logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>()
        };
        let squares: f64 = cells.iter().map(|(_, logs)| squares(logs)).sum();
        let scatter = (squares / freedom as f64).sqrt().max(SCATTER_LEAST);
        (freedom > 0).then_some(Self { scatter, freedom, tests })
    }

    fn error(&self, weight: f64) -> f64 {
        self.scatter * weight.sqrt()
    }

    fn errors(&self) -> f64 {
        quantile(1.0 - ERROR_RATE / 2.0 / self.tests.max(1) as f64, self.freedom)
    }

    /// Half the width of an interval.
    fn reach(&self, weight: f64) -> f64 {
        self.errors() * self.error(weight)
    }

    fn detectable(&self, weight: f64) -> f64 {
        (self.errors() + quantile(FOUND, self.freedom)) * self.error(weight)
    }

    /// Whether a difference of this size is one.
    pub(super) fn is_claimed(&self, by: f64, weight: f64) -> bool {
        by > self.reach(weight) && by >= CLAIMED * self.detectable(weight)
    }
}

/// A place in words with the ratio there.
type Place = (String, f64);

/// The contrasts, by index, that depend on other factors, with the places where they are least and greatest. The one that
/// depends most comes first.
pub(super) fn interactions(
    factors: &[String],
    cells: &[Known<'_>],
    found: &[Difference],
) -> Vec<(usize, Place, Place)> {
    let tests = found.iter().map(|one| one.pairs.len() * (one.pairs.len() - 1) / 2).sum();
    let Some(tests) = Tests::of(cells, tests) else { return Vec::new() };
    let mut depends: Vec<(f64, usize, Pair, Pair)> = Vec::new();
    for (index, one) in found.iter().enumerate() {
        let by = |a: &&Pair, b: &&Pair| a.by.total_cmp(&b.by);
        let ends = one.pairs.iter().min_by(by).zip(one.pairs.iter().max_by(by));
        let Some((least, greatest)) = ends else { continue };
        let apart = greatest.by - least.by;
        if least.place != greatest.place && tests.is_claimed(apart, least.weight + greatest.weight) {
            depends.push((apart, index, *least, *greatest));
        }
    }
    depends.sort_by(|a, b| b.0.total_cmp(&a.0));
    let place = |of: &Pair, other: &Pair| {
        let (own, theirs) = (cells[of.place].0, cells[other.place].0);
        let differing = own.iter().zip(theirs).enumerate().filter(|(_, (own, theirs))| own != theirs);
        let words: Vec<String> =
            differing.map(|(index, (own, _))| format!("{} {own}", factors[index])).collect();
        (words.join(", "), of.by.exp())
    };
    depends
        .into_iter()
        .map(|(_, index, least, greatest)| (index, place(&least, &greatest), place(&greatest, &least)))
        .collect()
}
