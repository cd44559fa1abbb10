//! The conditions of `--fail-on`: `VERDICT[:PERCENT]`.

use std::fmt;
use std::str::FromStr;

use kqps_verdict::compare::{Comparison, Outcome};
use kqps_verdict::percent;
use strum::{Display, EnumString};

use crate::value::parse_share;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Condition {
    wanted: Verdict,
    /// The least difference that counts, as a share; 0 for any difference that the verdict claims.
    by: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "lowercase")]
enum Verdict {
    Faster,
    Slower,
    Different,
    Inconclusive,
}

impl Verdict {
    fn is(self, outcome: Outcome) -> bool {
        match self {
            Self::Faster => outcome == Outcome::Faster,
            Self::Slower => outcome == Outcome::Slower,
            Self::Different => outcome.is_different(),
            Self::Inconclusive => outcome == Outcome::Inconclusive,
        }
    }
}

impl Condition {
    /// Whether the condition holds for a comparison. With a share, the end of the interval that lies nearest
    /// to equality must be that far from it.
    pub(crate) fn holds(&self, comparison: &Comparison) -> bool {
        let least = comparison.ratio.map_or(0.0, |ratio| (ratio.low - 1.0).max(1.0 - ratio.high).max(0.0));
        self.wanted.is(comparison.outcome) && least >= self.by
    }

    /// Whether the condition holds for a change between runs, by the ends of the interval of its ratio. Nearest to
    /// equality, the interval must be that far from it.
    pub(crate) fn holds_for(&self, is_worse: bool, (low, high): (f64, f64)) -> bool {
        let outcome = if is_worse { Outcome::Slower } else { Outcome::Faster };
        self.wanted.is(outcome) && (low - 1.0).max(1.0 - high).max(0.0) >= self.by
    }

    /// The difference, a share, that a comparison must be able to see for the condition to be judged; `None` if any
    /// difference that is claimed will do.
    pub(super) fn least_seen(&self) -> Option<f64> {
        (self.by > 0.0).then_some(self.by)
    }

    /// Whether a comparison leaves open if the condition holds: it is inconclusive; or the claimed difference may be
    /// larger or smaller than the share, and the MDE is above the share.
    pub(super) fn is_open(&self, comparison: &Comparison) -> bool {
        if self.is_inconclusive() {
            return false;
        }
        let of_direction = self.wanted.is(comparison.outcome);
        let greatest = comparison.ratio.map_or(0.0, |ratio| (ratio.high - 1.0).max(1.0 - ratio.low));
        let is_unseen = greatest >= self.by && comparison.mde.is_some_and(|mde| mde > self.by);
        comparison.outcome == Outcome::Inconclusive
            || (of_direction && self.by > 0.0 && is_unseen && !self.holds(comparison))
    }

    /// Whether the condition asks for inconclusive comparisons.
    pub(crate) fn is_inconclusive(&self) -> bool {
        self.wanted == Verdict::Inconclusive
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, share) = text.split_once(':').map_or((text, None), |(word, share)| (word, Some(share)));
        let expected = "expected faster, slower, different or inconclusive, as in slower:2%";
        let wanted: Verdict = word.parse().map_err(|_| expected)?;
        let by = share.map_or(Ok(0.0), parse_share)?;
        if wanted == Verdict::Inconclusive && share.is_some() {
            return Err("inconclusive takes no share".into());
        }
        Ok(Self { wanted, by })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.wanted)?;
        if self.by > 0.0 { write!(f, ":{}%", percent::typed(self.by)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_verdict::compare::{Case, compare};

    /// B has this share of A's rate, to ± 0.1 %.
    fn comparison(share: f64) -> Comparison {
        let around = |middle: f64| (0..6).map(|block| middle * (1.0 + f64::from(block % 2) / 1e3)).collect();
        let case = Case { blocks: around(share), same: around(1.0), ..Case::default() };
        compare(&[case]).remove(0)
    }

    fn holds(condition: &str, share: f64) -> bool {
        condition.parse::<Condition>().unwrap().holds(&comparison(share))
    }

    #[test]
    fn a_share_is_met_when_it_is_met_for_certain() {
        assert!(holds("slower", 0.97) && holds("slower:2%", 0.97) && holds("different:2%", 0.97));
        assert!(!holds("slower:2%", 0.9795), "the interval ends above 0.98");
        assert!(!holds("faster", 0.97) && !holds("inconclusive", 0.97));
        assert!(holds("faster:0.02", 1.03) && holds("different", 1.03) && !holds("slower", 1.03));
        assert!(!holds("different", 1.0));
    }

    #[test]
    fn a_change_between_runs_must_be_as_large_for_certain() {
        let holds = |text: &str, is_worse, ends| text.parse::<Condition>().unwrap().holds_for(is_worse, ends);
        assert!(holds("slower:2%", true, (0.93, 0.97)) && holds("slower:2%", true, (1.03, 1.09)));
        assert!(!holds("slower:2%", true, (0.93, 0.99)) && !holds("slower", false, (1.03, 1.09)));
        assert!(holds("faster", false, (1.03, 1.09)) && holds("different", true, (0.9, 0.95)));
        assert!(!holds("inconclusive", true, (0.9, 0.95)));
    }

    #[test]
    fn slips_are_explained() {
        for text in ["slow", "slower:", "slower:2x", "inconclusive:1%", "slower:200%"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
        for text in ["slower:2%", "faster", "slower", "different", "inconclusive"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        let expected = "expected faster, slower, different or inconclusive, as in slower:2%";
        assert_eq!("Slower".parse::<Condition>().unwrap_err(), expected);
    }
}
