//! Decides whether B is faster than A, slower, equivalent, or whether more blocks are needed. The decision is a
//! function of the ratios of B to A, block by block, and of the ratios of A to itself.
//!
//! The rule, for each comparison:
//!
//! - **equivalent**: the interval of the ratio lies inside ± MDE, and the MDE is at most 5 %, or at most the
//!   difference that the user asks for ([`Comparison::seeing`]).
//! - **faster**, **slower**: the interval does not lie inside ± MDE, it excludes 1, and the ratio is at least
//!   0.6 of the MDE away from 1.
//! - **inconclusive**: everything else, with the number of blocks that would probably settle it, or with the
//!   least number. A comparison is always inconclusive if the trials show that the ratios are not those of the
//!   subjects: no number of blocks would settle that.
//!
//! The MDE (minimum detectable effect) is the least difference that as many blocks find in 95 of 100
//! comparisons. `tests/compare` counts how often this holds.

mod conditions;
mod doubts;
mod facts;
mod middle;
mod more_blocks;
mod scatter;
mod sentence;
mod trials;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

use crate::holm;
use crate::interval::Interval;
use crate::narrow::narrow;
use scatter::Logs;

pub use facts::{Pairing, between_runs, figures_of, of_run, of_run_for, within_run};

/// Fewer blocks than this give no verdict, no interval and no MDE.
pub const LEAST_BLOCKS: u32 = 6;

/// The probability, 0 to 1, that a comparison of equals is called different. For comparisons that are made
/// together, it is the probability that any of them is.
pub const ERROR_RATE: f64 = 0.05;

/// Equality within an MDE (a share) above this is no verdict. A figure that is known no better than to ± 5 % has at
/// best a C, too.
pub const COARSE: f64 = 0.05;

/// A claim of a difference needs a ratio at least this share of the MDE away from 1. A difference as large as
/// the MDE seldom shows as less than this, and a quarter of the MDE seldom shows as more.
const CLAIMED: f64 = 0.6;

/// The figure that a comparison is about.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Display,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Correct answers a second in a closed loop.
    #[strum(to_string = "answered rate")]
    #[default]
    AnsweredRate,
    /// The highest reliable rate that a search found, in queries a second.
    #[strum(to_string = "highest reliable rate")]
    ReliableRate,
    /// CPU time of the subject per correct answer, at a fixed rate.
    #[strum(to_string = "CPU time per answer")]
    CpuPerAnswer,
    /// The 99th percentile of latency, at a fixed rate.
    #[strum(to_string = "p99 latency")]
    P99Latency,
}

impl Figure {
    /// Whether the subject with the greater figure is faster.
    pub fn more_is_faster(self) -> bool {
        matches!(self, Self::AnsweredRate | Self::ReliableRate)
    }
}

/// The observations of one pair of subjects. A ratio is the figure of B divided by that of A, each from one
/// start, and the two starts are neighbours in time. A ratio must be finite and above 0; others are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// Name of subject A, as reports print it.
    pub a: String,
    /// Name of subject B, as reports print it.
    pub b: String,
    /// The figure that was measured.
    pub figure: Figure,
    /// The ratio of each block: B's start to the geometric mean of A's starts.
    pub blocks: Vec<f64>,
    /// The number of A's starts in each block, 1 or 2.
    #[serde(default = "one")]
    pub starts_of_a: u32,
    /// The number of each of these blocks in the run, from 0. A block without a ratio is not among them. If
    /// this list is empty, the blocks are numbered by their position.
    #[serde(default)]
    pub numbers: Vec<u32>,
    /// The ratio of one start of A to another, as far apart in time as A and B were.
    pub same: Vec<f64>,
    /// Whether `same` also holds ratios of B to itself, since the run has no blocks that compare A with itself.
    #[serde(default)]
    pub same_of_both: bool,
    /// The doubts, each a sentence, the gravest first.
    pub doubts: Vec<String>,
    /// How many of the doubts, from the first, rule out a verdict whatever the ratios are: for example, the
    /// player was the limit, or answers were wrong.
    #[serde(default)]
    pub refusals: u32,
}

fn one() -> u32 {
    1
}

impl Case {
    /// The variance of a block's ratio, divided by the variance of A to itself, if all starts scatter alike.
    /// The mean of two starts of A scatters half as much as one start does.
    fn share_of_same(&self) -> f64 {
        f64::midpoint(1.0, 1.0 / f64::from(self.starts_of_a.max(1)))
    }

    /// The number in the run, from 0, of the block at index `place`.
    pub fn number(&self, place: usize) -> u32 {
        self.numbers.get(place).copied().unwrap_or_else(|| narrow(place))
    }

    /// The gravest reason why the ratios are not those of the subjects; `None` if they are.
    pub fn refusal(&self) -> Option<&str> {
        self.doubts.first().filter(|_| self.refusals > 0).map(String::as_str)
    }
}

/// The verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// B is faster than A.
    Faster,
    /// B is slower than A.
    Slower,
    /// Any difference is smaller than the MDE, which is at most 5 %.
    Equivalent,
    /// The blocks so far do not decide, or a difference would have to be larger than 5 % to be seen.
    Inconclusive,
}

impl Outcome {
    /// Whether the verdict claims a difference.
    pub fn is_different(self) -> bool {
        matches!(self, Self::Faster | Self::Slower)
    }
}

/// A pair of subjects with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The observations.
    #[serde(flatten)]
    pub case: Case,
    /// The verdict on B.
    pub outcome: Outcome,
    /// The geometric mean of the ratios with its interval; `None` without a ratio. With fewer than
    /// [`LEAST_BLOCKS`] ratios there is no interval: its coverage is 0, and both ends are the mean.
    pub ratio: Option<Interval>,
    /// The minimum detectable effect as a share (0.02 is 2 %); `None` with too few blocks, of A and B or of A
    /// against itself.
    pub mde: Option<f64>,
    /// The probability, 0 to 1, of claiming a difference between equals. It is [`ERROR_RATE`], or a part of it
    /// if several comparisons are made together (Holm).
    pub error_rate: f64,
    /// The number of further blocks that would probably settle an inconclusive comparison; `None` if it cannot
    /// be estimated, or if no number would.
    pub more_blocks: Option<u32>,
    /// Whether `more_blocks` is only a lower bound, because the trials so far allow no estimate.
    #[serde(default)]
    pub more_at_least: bool,
    /// The numbers, from 0, of blocks whose ratio is far from the others. They count like all others.
    pub outlying: Vec<u32>,
}

/// Judges comparisons that are made together. At most a share of [`ERROR_RATE`] of all such sets claims any
/// difference that does not exist.
pub fn compare(cases: &[Case]) -> Vec<Comparison> {
    let chances: Vec<f64> =
        cases.iter().map(|case| Logs::from_ratios(&case.blocks).chance_of_equality()).collect();
    let error_rates = holm::error_rates(&chances, ERROR_RATE);
    cases.iter().zip(error_rates).map(|(case, error_rate)| judge(case, error_rate, COARSE)).collect()
}

impl Comparison {
    /// The comparison for a user who wants to see a difference of `share` (0.02 is 2 %). A verdict of equivalence with
    /// a greater MDE becomes inconclusive.
    #[must_use]
    pub fn seeing(&self, share: f64) -> Self {
        judge(&self.case, self.error_rate, share.min(COARSE))
    }

    /// The MDE of a comparison that is inconclusive for nothing but its size: the interval lies within it, so no
    /// difference shows, and a smaller one would not have shown. `None` for others.
    pub fn sees_no_less_than(&self) -> Option<f64> {
        let (ratio, mde) = (self.ratio?, self.mde?);
        let is_unseen = self.outcome == Outcome::Inconclusive && self.case.refusal().is_none();
        (is_unseen && is_inside(&ratio, mde)).then_some(mde)
    }
}

/// Judges a case. `coarse` is the greatest MDE, a share, with which a verdict of equivalence is given.
fn judge(case: &Case, error_rate: f64, coarse: f64) -> Comparison {
    let (ratios, same) = (Logs::from_ratios(&case.blocks), Logs::from_ratios(&case.same));
    let ratio = ratios.interval(error_rate);
    let mde = scatter::least_detectable(&ratios, &same, case.share_of_same(), error_rate);
    let outcome = match (&ratio, mde) {
        _ if case.refusal().is_some() => Outcome::Inconclusive,
        (Some(ratio), Some(mde)) => outcome(case.figure, ratio, mde, coarse),
        _ => Outcome::Inconclusive,
    };
    let more = (outcome == Outcome::Inconclusive && case.refusal().is_none())
        .then(|| more_blocks::blocks_wanted(ratio.as_ref(), mde, error_rate, coarse))
        .flatten();
    Comparison {
        case: case.clone(),
        outcome,
        ratio,
        mde,
        error_rate,
        more_blocks: more.map(|more| more.blocks),
        more_at_least: more.is_some_and(|more| more.is_least),
        outlying: scatter::outlying(&case.blocks).into_iter().map(|place| case.number(place)).collect(),
    }
}

/// Whether the interval of the ratio lies inside ± MDE.
fn is_inside(ratio: &Interval, mde: f64) -> bool {
    let detectable = mde.ln_1p();
    ratio.low.ln() > -detectable && ratio.high.ln() < detectable
}

fn outcome(figure: Figure, ratio: &Interval, mde: f64, coarse: f64) -> Outcome {
    let median = ratio.median.ln();
    let excludes_one = ratio.low > 1.0 || ratio.high < 1.0;
    if is_inside(ratio, mde) {
        if mde > coarse { Outcome::Inconclusive } else { Outcome::Equivalent }
    } else if !excludes_one || median.abs() < mde.ln_1p() * CLAIMED {
        Outcome::Inconclusive
    } else if (median > 0.0) == figure.more_is_faster() {
        Outcome::Faster
    } else {
        Outcome::Slower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_printed_as_they_are_stored() {
        let outcomes = [Outcome::Faster, Outcome::Slower, Outcome::Equivalent, Outcome::Inconclusive];
        let words = outcomes.map(|outcome| outcome.to_string());
        assert_eq!(words.join(" "), "faster slower equivalent inconclusive");
        assert_eq!(serde_json::to_value(outcomes).unwrap(), serde_json::json!(words));
    }
}
