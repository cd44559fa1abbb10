//! A figure that is held to a limit of its own, and not to another side.

use serde::Serialize;
use serde_json::{Value, json};

use super::block::Spread;
use super::rows::Target;

/// A figure over all blocks.
pub(super) struct Single {
    pub(super) what: String,
    pub(super) unit: Unit,
    pub(super) found: Spread,
    pub(super) target: Target,
    /// Whether every block must meet the target. Otherwise the median must.
    pub(super) every: bool,
    /// The measurements behind it, for the record.
    pub(super) beside: Value,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unit {
    /// A share, 0 to 1.
    Share,
    /// A figure divided by another.
    Ratio,
    Microseconds,
    /// Events a second.
    PerSecond,
    Bytes,
    /// Instructions of one query.
    Instructions,
}

impl Unit {
    /// A value as tables show it.
    pub(super) fn words(self, value: f64) -> String {
        match self {
            Self::Share => format!("{:.3} %", value * 100.0),
            Self::Ratio => format!("{value:.3}"),
            Self::Microseconds => format!("{value:.0} µs"),
            Self::PerSecond => format!("{:.3} M/s", value / 1e6),
            Self::Bytes => format!("{:.1} MiB", value / f64::from(1 << 20)),
            Self::Instructions => format!("{value:.0}"),
        }
    }
}

impl Single {
    /// A figure whose median must meet the target, without measurements behind it.
    pub(super) fn new(what: String, unit: Unit, found: impl Iterator<Item = f64>, target: Target) -> Self {
        Self { what, unit, found: Spread::from_values(found), target, every: false, beside: Value::Null }
    }

    /// Whether the figure meets its target; `None` if it has none.
    pub(super) fn is_met(&self) -> Option<bool> {
        let judged = match self.target {
            Target::AtMost(_) if self.every => self.found.high,
            Target::AtLeast(_) if self.every => self.found.low,
            _ => self.found.median,
        };
        self.target.is_met(judged)
    }

    /// The target as tables show it.
    pub(super) fn target_words(&self) -> String {
        let every = if self.every { "every " } else { "" };
        match self.target {
            Target::AtLeast(least) => format!("{every}≥ {}", self.unit.words(least)),
            Target::AtMost(most) => format!("{every}≤ {}", self.unit.words(most)),
            Target::Reported => self.target.words(),
        }
    }

    /// The figure for the record.
    pub(super) fn record(&self) -> Value {
        json!({
            "what": self.what,
            "unit": self.unit,
            "found": self.found,
            "target": self.target_words(),
            "pass": self.is_met(),
            "beside": self.beside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(target: Target, every: bool) -> Single {
        let found = Spread { median: 2.0, low: 1.0, high: 4.0 };
        Single { what: "w".into(), unit: Unit::Microseconds, found, target, every, beside: Value::Null }
    }

    #[test]
    fn a_limit_is_for_the_median_or_for_every_block() {
        assert_eq!(single(Target::AtMost(3.0), false).is_met(), Some(true));
        assert_eq!(single(Target::AtMost(3.0), true).is_met(), Some(false));
        assert_eq!(single(Target::AtLeast(1.5), false).is_met(), Some(true));
        assert_eq!(single(Target::AtLeast(1.5), true).is_met(), Some(false));
        assert_eq!(single(Target::Reported, true).is_met(), None);
        assert_eq!(single(Target::AtMost(3.0), true).target_words(), "every ≤ 3 µs");
    }
}
