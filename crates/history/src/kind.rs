//! The kinds of figures that are watched over many runs. All are ratios, or hardly depend on how fast a host is today.

use std::fmt;

use kqps_verdict::compare;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The rate as a share of the echo with the same I/O model in the same run.
    Share,
    /// A figure of B divided by that of A, which is a frozen reference build, from the blocks of one comparison.
    Ratio(compare::Figure),
    /// CPU seconds of the subject per million correct answers.
    CpuPerMillion,
    /// Memory of the subject, bytes.
    Memory,
    /// The 99th percentile of latency at half of the rate, microseconds.
    P99AtHalf,
}

impl Kind {
    /// Whether a greater figure is better.
    pub fn more_is_better(self) -> bool {
        match self {
            Self::Share => true,
            Self::Ratio(figure) => figure.more_is_faster(),
            Self::CpuPerMillion | Self::Memory | Self::P99AtHalf => false,
        }
    }

    /// Its name in files of other programs, with its unit last.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Share => "ceiling-share",
            Self::Ratio(compare::Figure::AnsweredRate) => "answered-rate-ratio",
            Self::Ratio(compare::Figure::ReliableRate) => "reliable-rate-ratio",
            Self::Ratio(compare::Figure::CpuPerAnswer) => "cpu-per-answer-ratio",
            Self::Ratio(compare::Figure::P99Latency) => "p99-latency-ratio",
            Self::CpuPerMillion => "cpu-per-million-s",
            Self::Memory => "memory-bytes",
            Self::P99AtHalf => "p99-at-half-load-us",
        }
    }

    /// A value in words, with its unit.
    pub fn show(self, value: f64) -> String {
        let (size, unit) = self.unit(value);
        match self {
            _ if !value.is_finite() => "-".into(),
            Self::Ratio(_) => format!("{value:.4}"),
            _ => format!("{} {unit}", digits(value / size)),
        }
    }

    /// The greatest unit of which a value has at least one: its size, and its name, which is empty for ratios.
    pub fn unit(self, value: f64) -> (f64, &'static str) {
        let of = |step: f64, names: &[&'static str]| {
            let mut found = (1.0, names[0]);
            for name in &names[1..] {
                // Three digits of a value just below would be those of one.
                if value.abs() / found.0 < step * 0.9995 {
                    break;
                }
                found = (found.0 * step, name);
            }
            found
        };
        match self {
            Self::Share => (0.01, "%"),
            Self::Ratio(_) => (1.0, ""),
            Self::CpuPerMillion => (1.0, "s"),
            Self::Memory => of(1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
            Self::P99AtHalf => of(1000.0, &["µs", "ms", "s"]),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share => f.write_str("share of the ceiling"),
            Self::Ratio(figure) => write!(f, "{figure} beside the reference"),
            Self::CpuPerMillion => f.write_str("CPU time per million answers"),
            Self::Memory => f.write_str("memory"),
            Self::P99AtHalf => f.write_str("p99 latency at half load"),
        }
    }
}

/// Three significant digits, with four decimals at most.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.995 => format!("{value:.2}"),
        size if size >= 0.0995 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_their_unit() {
        for (kind, value, expected) in [
            (Kind::Share, 0.512_34, "51.2 %"),
            (Kind::Share, 1.0, "100 %"),
            (Kind::Ratio(compare::Figure::AnsweredRate), 0.987_654, "0.9877"),
            (Kind::CpuPerMillion, 1.2345, "1.23 s"),
            (Kind::CpuPerMillion, 0.0123, "0.0123 s"),
            (Kind::Memory, 588_251_136.0, "561 MiB"),
            (Kind::P99AtHalf, 87.0, "87.0 µs"),
            (Kind::P99AtHalf, 1240.0, "1.24 ms"),
            (Kind::P99AtHalf, 5e9, "5000 s"),
            (Kind::Memory, f64::NAN, "-"),
        ] {
            assert_eq!(kind.show(value), expected);
        }
    }
}
