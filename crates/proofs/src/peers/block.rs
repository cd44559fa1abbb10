//! A comparison in interleaved blocks: A B B A, then B A A B, so that neither a drift of the host nor the
//! order favours a side. Each block gives one ratio, or one difference. The cost of a load is compared at a
//! load that both sides carry: if one does not, the row is measured again at a lower load.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Bench;
use super::figure::Figure;
use super::rows::Row;
use super::side::{self, Measured, Side};

/// Rates that differ by at most this share are equal.
const EQUAL_WITHIN: f64 = 0.02;

/// How often a row is measured to get equal loads. The last attempt counts in any case.
const ATTEMPTS: u32 = 3;

/// The next load of both sides, as a share of what the weaker one carried.
const EASILY: f64 = 0.9;

pub(super) struct Compared {
    pub(super) row: Row,
    /// The load whose cost was compared, queries a second.
    pub(super) equal_qps: Option<u32>,
    pub(super) blocks: Vec<Block>,
}

/// A block: two measurements of each side.
#[derive(Serialize)]
pub(super) struct Block {
    pub(super) a: [Measured; 2],
    pub(super) b: [Measured; 2],
    /// The ratio of side A's figure to side B's, or for latency their difference; of the means of both
    /// measurements.
    pub(super) found: f64,
}

/// A median with the least and the greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Spread {
    /// The spread of at least one value. For six values the ends are the order-statistic interval of the
    /// median at 96.9 %.
    pub(super) fn from_values(values: impl Iterator<Item = f64>) -> Self {
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
        Spread::from_values(self.blocks.iter().map(|block| block.found))
    }

    /// Whether the row meets its target, with sides that can be compared; `None` if it has none.
    pub(super) fn is_met(&self) -> Option<bool> {
        self.row.target.is_met(self.found().median).map(|is_met| is_met && self.is_comparable())
    }

    /// Whether both sides carried the load whose cost is compared.
    fn is_comparable(&self) -> bool {
        let (a, b) = (self.answered_qps(|block| block.a), self.answered_qps(|block| block.b));
        self.equal_qps.is_none() || (a / b - 1.0).abs() <= EQUAL_WITHIN
    }

    /// The lower of both sides' answered rates, queries a second.
    fn weaker_qps(&self) -> f64 {
        self.answered_qps(|block| block.a).min(self.answered_qps(|block| block.b))
    }

    /// A side's answered rate, queries a second, in the median of its measurements.
    fn answered_qps(&self, side: fn(&Block) -> [Measured; 2]) -> f64 {
        Spread::from_values(self.blocks.iter().flat_map(side).map(|one| one.answered_qps)).median
    }
}

/// Measures a row, and again at a lower load if a side did not carry the load.
pub(super) fn compare(bench: &Bench<'_>, row: Row, blocks: u32) -> Result<Compared> {
    let mut found = at(bench, row, row.figure.equal_qps(), blocks)?;
    for _ in 1..ATTEMPTS {
        if found.is_comparable() {
            break;
        }
        let lower_qps = lower(found.weaker_qps());
        eprintln!("{}: one side does not carry that, again at {lower_qps} q/s", row.what);
        found = at(bench, row, Some(lower_qps), blocks)?;
    }
    Ok(found)
}

/// The load that both sides can carry, in whole thousands, given the rate of the weaker side, queries a
/// second.
fn lower(weaker_qps: f64) -> u32 {
    let thousands = u32::try_from((weaker_qps * EASILY / 1000.0) as u64).unwrap_or(u32::MAX);
    thousands.max(1) * 1000
}

/// A side and the rate that its player is given, queries a second; `None` for a player that needs no rate.
type RatedSide = (Side, Option<u32>);

/// Measures a row at this load, block after block. A player that needs a rate is given its best one, which is looked
/// for once: the best of several plays in each block would be a lucky one, and the other player has one play.
fn at(bench: &Bench<'_>, row: Row, equal_qps: Option<u32>, blocks: u32) -> Result<Compared> {
    let given = |side: Side| match equal_qps {
        Some(_) => Ok((side, equal_qps)),
        None => side::best_qps(bench, side).map(|best_qps| (side, best_qps)).with_context(|| row.what),
    };
    let (a, b) = (given(row.a)?, given(row.b)?);
    let mut done = Vec::new();
    for number in 0..blocks {
        let block = one(bench, row.figure, [a, b], number % 2 == 0).with_context(|| row.what)?;
        eprintln!("{} {}/{blocks}: {:.3}", row.what, number + 1, block.found);
        done.push(block);
    }
    Ok(Compared { row, equal_qps, blocks: done })
}

fn one(bench: &Bench<'_>, figure: Figure, [a, b]: [RatedSide; 2], a_outside: bool) -> Result<Block> {
    let measure = |(side, rate_qps): RatedSide| side::measure(bench, side, rate_qps);
    let (outside, inside) = if a_outside { (a, b) } else { (b, a) };
    let (first, second, third, fourth) =
        (measure(outside)?, measure(inside)?, measure(inside)?, measure(outside)?);
    let (a, b) =
        if a_outside { ([first, fourth], [second, third]) } else { ([second, third], [first, fourth]) };
    let mean = |[first, second]: &[Measured; 2]| f64::midpoint(first.figure(figure), second.figure(figure));
    Ok(Block { found: figure.compare(mean(&a), mean(&b)), a, b })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_median_and_both_ends() {
        let spread = Spread::from_values([3.0, 1.0, 2.0, 10.0].into_iter());
        assert_eq!(spread, Spread { median: 2.5, low: 1.0, high: 10.0 });
        assert_eq!(Spread::from_values([7.0].into_iter()), Spread { median: 7.0, low: 7.0, high: 7.0 });
    }

    #[test]
    fn a_lower_load_is_one_that_the_weaker_side_carries() {
        assert_eq!(lower(140_000.0), 126_000);
        assert_eq!(lower(12.0), 1000);
    }
}
