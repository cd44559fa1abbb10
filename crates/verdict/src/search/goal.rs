//! The goal of a search: how long trials last, how much they may lose, and how close the bounds must come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

/// A search goal: RFC 9971, section 4.6, with the range of loads and kqps' own limit on latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The name of the preset, or the user's name for the goal.
    pub name: String,
    /// Seconds that a trial must last to be full-length.
    pub final_s: f64,
    /// Seconds of trials that settle one load.
    pub sum_s: f64,
    /// A trial is bad if its bad ratio exceeds this, 0 to 1.
    pub loss: f64,
    /// Share of the duration sum that bad trials may take at a lower bound, 0 to below 1.
    pub exceed: f64,
    /// The bounds are close enough if they differ by at most this share of the upper one, 0 to 1.
    pub width: f64,
    /// The smallest load that is tried, queries a second.
    pub min_qps: f64,
    /// The largest load that is tried, queries a second.
    pub max_qps: f64,
    /// Seconds that the search may take, drains and repeated trials included. The search reserves the time for
    /// a lower bound and its re-test, so it may end with bounds farther apart than the width. If it has no
    /// lower bound by then, it goes on for up to 15 % longer.
    pub limit_s: f64,
    /// A latency in microseconds; a trial with more than 1 % of its latencies above it is bad too. `None`: no
    /// limit.
    pub p99_us: Option<u64>,
}

/// Why a goal is invalid, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadGoal(String);

/// The goals that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = BadGoal, parse_err_fn = unknown)]
pub enum Preset {
    /// Half-second trials, 0.1 % loss, bounds within 2 %.
    Quick,
    /// One-second trials, 99.99 % answered, bounds within 1 %.
    Default,
    /// One-second trials without any loss, bounds within 1 %.
    Lossless,
    /// A single trial of a minute without loss, as in RFC 2544; bounds within 0.5 %.
    Rfc2544,
}

impl Preset {
    /// All presets, the cheapest first.
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;

    /// The name of the preset in the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The goal of the preset, over loads from 10 to 100 million queries a second.
    pub fn goal(self) -> Goal {
        let (final_s, sum_s, loss, exceed, width, limit_s) = match self {
            Self::Quick => (0.5, 3.0, 0.001, 0.5, 0.02, 14.0),
            Self::Default => (1.0, 21.0, 0.0001, 0.5, 0.01, 180.0),
            Self::Lossless => (1.0, 21.0, 0.0, 0.5, 0.01, 180.0),
            Self::Rfc2544 => (60.0, 60.0, 0.0, 0.0, 0.005, 3600.0),
        };
        Goal {
            name: self.name().into(),
            final_s,
            sum_s,
            loss,
            exceed,
            width,
            min_qps: 10.0,
            max_qps: 1e8,
            limit_s,
            p99_us: None,
        }
    }
}

/// The error for a text that names no preset.
fn unknown(text: &str) -> BadGoal {
    let names = <Preset as VariantNames>::VARIANTS.join(", ");
    BadGoal(format!("no goal is called '{text}'; there are {names}"))
}

/// A final trial lasts this many times as long as the time in which buffers could hide a relative loss of the
/// width.
pub(super) const BUFFERS_OUTLASTED: f64 = 5.0;

impl Goal {
    /// The loss of a goal that keeps this share of the answers. The complement of 0.999 is 0.001, without the noise of
    /// binary fractions.
    pub fn loss_of_keep(keep: f64) -> f64 {
        complement(keep)
    }

    /// The share of the answers that it keeps, 0 to 1.
    pub fn keep(&self) -> f64 {
        complement(self.loss)
    }

    /// Checks that every figure is in its range; [`super::next_trial`] relies on it.
    ///
    /// # Errors
    ///
    /// The first figure that is out of range, with the range.
    pub fn check(&self) -> Result<(), BadGoal> {
        let fail = |what: &str, value: f64, wanted: &str| {
            Err(BadGoal(format!("{what} of the goal is {value}, but must be {wanted}")))
        };
        if !(self.final_s > 0.0 && self.final_s.is_finite()) {
            return fail("the trial duration", self.final_s, "more than 0 s");
        }
        if !(self.sum_s >= self.final_s && self.sum_s.is_finite()) {
            return fail("the duration sum", self.sum_s, "at least the trial duration");
        }
        if !(0.0..1.0).contains(&self.loss) {
            return fail("the loss ratio", self.loss, "from 0 to below 1");
        }
        if !(0.0..1.0).contains(&self.exceed) {
            return fail("the exceed ratio", self.exceed, "from 0 to below 1");
        }
        if !(0.0001..1.0).contains(&self.width) {
            return fail("the width", self.width, "from 0.0001 to below 1");
        }
        if self.limit_s.is_nan() || self.limit_s <= 0.0 {
            return fail("the time limit", self.limit_s, "more than 0 s");
        }
        if !(self.min_qps > 0.0 && self.min_qps < self.max_qps && self.max_qps.is_finite()) {
            return fail("the least load", self.min_qps, "more than 0 and less than the greatest");
        }
        Ok(())
    }

    /// Rounds a load to as many significant digits as the width needs (the last digit resolves a fifth of it),
    /// so that trials at the same load compare as equal. A load outside the goal's range becomes the nearer
    /// end.
    pub fn round_load(&self, load_qps: f64) -> f64 {
        if load_qps <= self.min_qps {
            return self.min_qps;
        }
        if load_qps >= self.max_qps {
            return self.max_qps;
        }
        let digits = 1.0 + (5.0 / self.width).log10().ceil();
        let unit = 10f64.powf(load_qps.log10().floor() + 1.0 - digits);
        // Division by a whole number, if possible, keeps 123.4 from becoming 123.40000000000001.
        let rounded = if unit < 1.0 {
            (load_qps / unit).round() / (1.0 / unit).round()
        } else {
            (load_qps / unit).round() * unit.round()
        };
        rounded.clamp(self.min_qps, self.max_qps)
    }

    /// Seconds of trials that establish a lower bound if all of them are good: the overload, the trials that a
    /// bound needs, and the re-test.
    pub fn least_s(&self) -> f64 {
        let sure_s = (self.sum_s * (1.0 - self.exceed) / self.final_s).ceil() * self.final_s;
        self.final_s.min(1.0) + sure_s + self.final_s
    }

    /// Whether half of the trials at a load may be bad. The rate is then the load that half of the trials meet.
    pub fn wants_half(&self) -> bool {
        (self.exceed - 0.5).abs() < f64::EPSILON
    }

    /// The share of a load that buffers may hide in a full-length trial, rounding included.
    pub(crate) fn hidden_most(&self) -> f64 {
        self.width / BUFFERS_OUTLASTED * 1.001
    }
}

/// 1 minus a share, to a billionth.
fn complement(share: f64) -> f64 {
    ((1.0 - share) * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_by_name_and_valid() {
        for &preset in Preset::ALL {
            assert_eq!(preset.name().parse(), Ok(preset));
            assert_eq!(serde_json::to_value(preset).unwrap(), preset.name());
            assert_eq!(preset.goal().check(), Ok(()));
        }
        let error = "fast".parse::<Preset>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no goal is called 'fast'; there are quick, default, lossless, rfc2544"
        );
    }

    #[test]
    fn loads_are_rounded_to_a_fifth_of_the_width_or_finer() {
        let goal = Preset::Quick.goal();
        for (load, rounded) in [(123_456.0, 123_500.0), (98_765_432.0, 98_770_000.0), (12.345_67, 12.35)] {
            assert!((goal.round_load(load) - rounded).abs() < 1e-9, "{load}");
            assert!((goal.round_load(rounded) - rounded).abs() < f64::EPSILON, "{rounded} is not kept");
        }
        assert!((goal.round_load(1.0) - 10.0).abs() < f64::EPSILON);
        assert!((goal.round_load(1e9) - 1e8).abs() < f64::EPSILON);
    }

    #[test]
    fn a_goal_out_of_range_is_refused_with_the_reason() {
        let goal = Goal { sum_s: 0.1, ..Preset::Quick.goal() };
        assert_eq!(
            goal.check().unwrap_err().to_string(),
            "the duration sum of the goal is 0.1, but must be at least the trial duration"
        );
    }
}
