//! A comparison in interleaved blocks: A B B A, then B A A B, so that neither a drift of the host nor being
//! first favours a side. Each block gives one ratio, or one difference.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Bench;
use super::rows::Row;
use super::side::{self, Measured};

/// Rates that differ by no more than this share are equal.
const EQUAL_WITHIN: f64 = 0.02;

/// One row, measured.
pub(super) struct Compared {
    pub(super) row: Row,
    pub(super) blocks: Vec<Block>,
}

/// One block: two measurements of each side.
#[derive(Serialize)]
pub(super) struct Block {
    pub(super) a: [Measured; 2],
    pub(super) b: [Measured; 2],
    /// Side A's figure to side B's, or of a latency how much it is greater; of both measurements of each.
    pub(super) found: f64,
}

/// A median and the values at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Spread {
    /// Of at least one value. For six values the ends are the order-statistic interval of the median at
    /// 96.9 %.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Self { median, low: values[0], high: values[values.len() - 1] }
    }
}

impl Compared {
    pub(super) fn found(&self) -> Spread {
        Spread::of(self.blocks.iter().map(|block| block.found))
    }

    /// Whether the target is reached. The cost of a load is compared only where both sides carried it.
    pub(super) fn is_met(&self) -> bool {
        let comparable = !self.row.figure.is_cost() || self.rates_differ_by() <= EQUAL_WITHIN;
        comparable && self.row.target.is_met(self.found().median)
    }

    /// By which share the sides' answered rates differ.
    fn rates_differ_by(&self) -> f64 {
        let rate = |side: fn(&Block) -> [Measured; 2]| {
            Spread::of(self.blocks.iter().flat_map(side).map(|one| one.answered_qps)).median
        };
        (rate(|block| block.a) / rate(|block| block.b) - 1.0).abs()
    }
}

/// Measures a row, block after block.
pub(super) fn compare(bench: &Bench<'_>, row: Row, blocks: u32) -> Result<Compared> {
    let mut done = Vec::new();
    for number in 0..blocks {
        let block = one(bench, &row, number % 2 == 0).with_context(|| row.what)?;
        eprintln!("{} {}/{blocks}: {:.3}", row.what, number + 1, block.found);
        done.push(block);
    }
    Ok(Compared { row, blocks: done })
}

fn one(bench: &Bench<'_>, row: &Row, a_outside: bool) -> Result<Block> {
    let (outside, inside) = if a_outside { (row.a, row.b) } else { (row.b, row.a) };
    let first = side::measure(bench, outside)?;
    let second = side::measure(bench, inside)?;
    let third = side::measure(bench, inside)?;
    let fourth = side::measure(bench, outside)?;
    let (a, b) =
        if a_outside { ([first, fourth], [second, third]) } else { ([second, third], [first, fourth]) };
    let mean =
        |[first, second]: &[Measured; 2]| f64::midpoint(first.figure(row.figure), second.figure(row.figure));
    Ok(Block { found: row.figure.compare(mean(&a), mean(&b)), a, b })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_and_both_ends() {
        let spread = Spread::of([3.0, 1.0, 2.0, 10.0].into_iter());
        assert_eq!(spread, Spread { median: 2.5, low: 1.0, high: 10.0 });
        assert_eq!(Spread::of([7.0].into_iter()), Spread { median: 7.0, low: 7.0, high: 7.0 });
    }
}
