//! How much a comparison measures: its blocks, the trials of each start, and their duration.

use std::time::Duration;

use kqps_testbed::words::{counted, time};
use kqps_verdict::compare::LEAST_BLOCKS;
use kqps_verdict::disturbed::BESIDE_S;

use super::within;
use crate::exit::bad_input;

const BLOCKS: u32 = 10;
const BLOCKS_MOST: u64 = 10_000;

/// Seconds of load for each start, over all its trials.
const LOADED_S: f64 = 2.6;

/// Seconds of a trial. The shorter the trials, the more alike are the disturbances by the host on both sides.
const TRIAL_S: f64 = 0.1;

/// Queries of a trial at a fixed rate: enough for its p99 latency.
const TRIAL_QUERIES: f64 = 10_500.0;

/// Seconds of a start without its trials: starting, warming up and stopping.
const START_S: f64 = 0.8;

/// Starts in a block: A, A again, B.
const STARTS: f64 = 3.0;

/// Starts before the first block: one try of each side.
const TRIED: f64 = 2.0;

/// The share of a budget that starts may take beyond `START_S` if the number of blocks is given.
const RESERVE: f64 = 0.05;

/// The extent that the user asks for, as far as it is given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskedExtent {
    /// Blocks.
    pub(crate) blocks: Option<u64>,
    /// The time of the whole comparison.
    pub(crate) budget: Option<Duration>,
    /// The load of each start.
    pub(crate) duration: Option<Duration>,
    /// Queries a second of an open loop; `None` for a closed loop.
    pub(crate) rate_qps: Option<f64>,
}

impl AskedExtent {
    /// Returns an error if no comparison has this extent.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        Extent::from_asked(self).map(drop)
    }
}

/// Blocks, trials of each start, and seconds of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub(super) blocks: u32,
    pub(super) rounds: u32,
    pub(super) trial_s: f64,
}

impl Extent {
    pub(super) fn from_asked(asked: &AskedExtent) -> anyhow::Result<Self> {
        let within_most = |blocks| within("--blocks", blocks, BLOCKS_MOST);
        let blocks: Option<u32> = asked.blocks.map(within_most).transpose()?;
        let loaded_s = asked.duration.map(|duration| duration.as_secs_f64());
        if loaded_s.is_some_and(|loaded_s| loaded_s < 0.01) {
            return Err(bad_input("--duration: expected at least 10ms"));
        }
        match (asked.budget.map(|budget| budget.as_secs_f64()), blocks) {
            (Some(_), Some(_)) if loaded_s.is_some() => {
                Err(bad_input("--budget, --blocks and --duration: two of them give the third; leave one out"))
            }
            (Some(budget_s), Some(blocks)) => Self::of_blocks_within(budget_s, blocks, asked.rate_qps),
            (Some(budget_s), None) => Self::within_budget(budget_s, loaded_s, asked.rate_qps),
            (None, _) => {
                Ok(Self::of_start(blocks.unwrap_or(BLOCKS), loaded_s.unwrap_or(LOADED_S), asked.rate_qps))
            }
        }
    }

    /// The extent for starts that are loaded for `loaded_s` in all, in the shortest trials that give the
    /// figures.
    fn of_start(blocks: u32, loaded_s: f64, rate_qps: Option<f64>) -> Self {
        let shortest_s = shortest_s(rate_qps);
        let rounds = (loaded_s / shortest_s).round().max(1.0);
        let trial_s = if rounds > 1.0 { shortest_s } else { loaded_s };
        Self { blocks, rounds: u32::try_from(rounds as u64).unwrap_or(u32::MAX), trial_s }
    }

    /// The extent that fits a budget. If the load of a start is not given, it shrinks first, down to one
    /// trial; the blocks then fill the rest of the budget.
    fn within_budget(budget_s: f64, loaded_s: Option<f64>, rate_qps: Option<f64>) -> anyhow::Result<Self> {
        let fitting_s = || fitting_s(budget_s, LEAST_BLOCKS, rate_qps).min(LOADED_S);
        let least = Self::of_start(LEAST_BLOCKS, loaded_s.unwrap_or_else(fitting_s), rate_qps);
        least.check(budget_s, "six blocks, the least that give a verdict,", loaded_s.is_some())?;
        let blocks = (budget_s - TRIED * START_S) / least.block_s();
        let blocks = (blocks as u64).min(BLOCKS_MOST);
        Ok(Self { blocks: blocks.try_into().expect("10,000 at most"), ..least })
    }

    /// The extent of a given number of blocks: the load of each start fills the budget.
    fn of_blocks_within(budget_s: f64, blocks: u32, rate_qps: Option<f64>) -> anyhow::Result<Self> {
        let loaded_s = fitting_s(budget_s * (1.0 - RESERVE), blocks, rate_qps);
        let extent = Self::of_start(blocks, loaded_s, rate_qps);
        extent.check(budget_s, &counted(blocks.into(), "block"), false)?;
        Ok(extent)
    }

    /// Returns an error if the budget is too short for this extent.
    fn check(&self, budget_s: f64, blocks: &str, is_load_given: bool) -> anyhow::Result<()> {
        let least_s = self.whole_s().ceil();
        if budget_s >= least_s {
            return Ok(());
        }
        Err(bad_input(format!(
            "a budget of {} is too short: {blocks} take about {}; give it --budget {least_s:.0}s or more{}",
            time(budget_s),
            time(least_s),
            if is_load_given { ", or a shorter --duration" } else { "" }
        )))
    }

    /// The note before a comparison that has too few blocks for a verdict; `None` if it has enough.
    pub(super) fn too_few_blocks(&self) -> Option<String> {
        (self.blocks < LEAST_BLOCKS).then(|| {
            format!(
                "There is no verdict below {LEAST_BLOCKS} blocks: this comparison will be inconclusive; for a verdict use \
                 --blocks {LEAST_BLOCKS} or more."
            )
        })
    }

    /// Seconds of the whole comparison.
    pub(super) fn whole_s(&self) -> f64 {
        TRIED * START_S + f64::from(self.blocks) * self.block_s()
    }

    fn block_s(&self) -> f64 {
        STARTS * (START_S + f64::from(self.rounds) * (self.trial_s + BESIDE_S))
    }
}

/// Seconds of load for each start that fit a budget, in whole trials; at least one trial.
fn fitting_s(budget_s: f64, blocks: u32, rate_qps: Option<f64>) -> f64 {
    let start_s = (budget_s - TRIED * START_S) / (f64::from(blocks) * STARTS);
    let shortest_s = shortest_s(rate_qps).min(LOADED_S);
    let rounds = ((start_s - START_S) / (shortest_s + BESIDE_S)).floor();
    rounds.max(1.0) * shortest_s
}

/// Seconds of the shortest trial that gives the figures.
fn shortest_s(rate_qps: Option<f64>) -> f64 {
    rate_qps.map_or(TRIAL_S, |rate_qps| (TRIAL_QUERIES / rate_qps).max(TRIAL_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(blocks: u32, rounds: u32, trial_s: f64) -> Extent {
        Extent { blocks, rounds, trial_s }
    }

    #[test]
    fn a_start_is_loaded_in_short_trials() {
        assert_eq!(Extent::of_start(10, LOADED_S, None), extent(10, 26, 0.1));
        assert_eq!(Extent::of_start(10, 0.02, None), extent(10, 1, 0.02));
        assert_eq!(Extent::of_start(10, LOADED_S, Some(21_000.0)), extent(10, 5, 0.5));
        assert_eq!(Extent::of_start(10, 10.0, Some(2_100.0)), extent(10, 2, 5.0));
        assert_eq!(Extent::of_start(10, 2.0, Some(100.0)), extent(10, 1, 2.0), "too few for a p99");
        assert!((extent(10, 26, 0.1).whole_s() - 158.2).abs() < 1e-9);
    }

    #[test]
    fn too_few_blocks_for_a_verdict_are_announced() {
        let warned = |blocks| extent(blocks, 26, 0.1).too_few_blocks();
        assert!(warned(5).unwrap().starts_with("There is no verdict below 6 blocks: "));
        assert_eq!(warned(6), None);
    }

    #[test]
    fn a_budget_shortens_the_load_before_it_takes_more_blocks() {
        let of = |budget_s| Extent::within_budget(budget_s, None, None).map_err(|error| error.to_string());
        assert_eq!(of(180.0), Ok(extent(11, 26, 0.1)));
        assert_eq!(of(60.0), Ok(extent(6, 14, 0.1)));
        assert_eq!(of(600.0), Ok(extent(38, 26, 0.1)));
        let error = of(15.0).unwrap_err();
        assert!(error.contains("--budget 20s or more") && !error.contains("--duration"), "{error}");
        let error = Extent::within_budget(60.0, Some(9.9), None).unwrap_err().to_string();
        assert!(error.ends_with("--budget 319s or more, or a shorter --duration"), "{error}");
    }

    #[test]
    fn a_budget_for_a_given_number_of_blocks_is_filled_with_load() {
        let of = |budget_s, blocks| Extent::of_blocks_within(budget_s, blocks, None);
        let six = of(180.0, 6).unwrap();
        assert!(six.blocks == 6 && six.trial_s == TRIAL_S, "{six:?}");
        assert!((162.0..=171.0).contains(&six.whole_s()), "{six:?} takes {} s", six.whole_s());
        assert!(of(600.0, 6).unwrap().rounds > 3 * six.rounds, "a longer budget is a longer load");
        let error = of(15.0, 10).unwrap_err().to_string();
        assert!(error.contains("10 blocks take about") && error.ends_with("or more"), "{error}");
    }
}
