//! The judged history, as it is printed and drawn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entry::Figure;
use crate::key::Key;

/// All series with their changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The series in the order of their keys.
    pub series: Vec<Series>,
    /// How many tests were made together. Each must be surer the more there are (Holm).
    pub tests: u32,
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its identity.
    pub key: Key,
    /// Its name, with the conditions in which it differs from other series of that name.
    pub name: String,
    /// Its points in the order of time.
    pub points: Vec<Point>,
    /// Runs without a figure, as indices into the entries, each with the reason.
    pub absences: Vec<(usize, String)>,
    /// Its points by host, in the order of their first points.
    pub stretches: Vec<Stretch>,
    /// Where the host changed between two neighbouring points, in the order of time.
    pub moves: Vec<Move>,
}

/// A figure of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The run, as an index into the entries.
    pub entry: usize,
    /// The figure.
    pub figure: Figure,
    /// The rate of the echo in the same run, queries a second.
    pub ceiling_qps: Option<f64>,
    /// Whether it is far from its neighbours. No change rests on it.
    pub is_outlier: bool,
    /// Its stretch, as an index.
    pub stretch: usize,
}

/// The points of a series that one unchanged host gave. Only such points are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Its points, as indices, in the order of time. They need not be neighbours, since hosts may take turns.
    pub points: Vec<usize>,
    /// Its changes in the order of time.
    pub changes: Vec<Change>,
    /// Its levels: one more than changes; none without a point that counts.
    pub levels: Vec<Level>,
    /// Whether it has too few points to be tested.
    pub is_short: bool,
}

/// A change of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The last point before it, as an index into the points of the series.
    pub before: usize,
    /// The first point after it.
    pub after: usize,
    /// The level after it divided by that before it, with the ends of its interval: low, ratio, high.
    pub ratio: (f64, f64, f64),
    /// The probability that a series without a change diverges as much, 0 to 1.
    pub chance: f64,
    /// How sure it is.
    pub strength: Strength,
    /// The least magnitude that could be claimed, a share.
    pub mde: f64,
    /// Whether the rate of the echo changed with it, so that the host explains it. Such a change raises no alarm.
    pub is_hosts: bool,
    /// How many points of the series came since it, the first one included.
    pub age: u32,
}

/// How sure a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// One series in 20 would diverge as much by chance. A comparison of both builds can decide.
    Weak,
    /// Of all series together, looked at every time that they grew, fewer than one in 20 such histories has such a
    /// change by chance.
    Strong,
}

impl Strength {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Strong => "strong",
        }
    }
}

/// The mean of a stretch between two changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Its first point, as an index into the points of the series.
    pub from: usize,
    /// Its last point.
    pub to: usize,
    /// The geometric mean of its points without outliers.
    pub mean: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// How many points count.
    pub count: u32,
}

/// A place where the host is another than at the point before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The first point on the other host, as an index into the points of the series.
    pub at: usize,
    /// What differs, each in words.
    pub differences: Vec<String>,
}

impl Series {
    /// All changes, the newest last.
    pub fn changes(&self) -> Vec<&Change> {
        let mut changes: Vec<&Change> = self.stretches.iter().flat_map(|stretch| &stretch.changes).collect();
        changes.sort_by_key(|change| change.after);
        changes
    }

    /// The newest change that the host does not explain.
    pub fn newest(&self) -> Option<&Change> {
        self.changes().into_iter().rev().find(|change| !change.is_hosts)
    }

    /// Whether a change made the figure better.
    pub fn is_better(&self, change: &Change) -> bool {
        (change.ratio.1 > 1.0) == self.key.kind.more_is_better()
    }

    /// The level of the newest point's stretch.
    pub fn level(&self) -> Option<&Level> {
        self.stretches.get(self.points.last()?.stretch)?.levels.last()
    }
}
