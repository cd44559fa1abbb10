//! The judged history, as it is printed and drawn.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::changes::LEAST;
use crate::entry::Figure;
use crate::key::Key;

/// A change with which more runs came than this is old, unless the user gives another number.
pub const LAST: u64 = 10;

/// All series with their changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The series in the order of their keys.
    pub series: Vec<Series>,
    /// How many tests were made together. Each must be surer the more there are (Holm).
    pub tests: u32,
}

/// A series.
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
    /// The creep of its newest points on their host, if there is one.
    pub creep: Option<Change>,
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
    /// Its steps in the order of time.
    pub changes: Vec<Change>,
    /// Its levels: one more than steps; none without a point that counts.
    pub levels: Vec<Level>,
    /// Whether it has too few points to be tested.
    pub is_short: bool,
}

/// A change of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// How the figure changed.
    pub shape: Shape,
    /// The last point before it, as an index into the points of the series; of a creep, its first point.
    pub before: usize,
    /// The first point after it; of a creep, the newest point.
    pub after: usize,
    /// The level after it divided by that before it, with the ends of its interval: low, ratio, high. Of a creep, the
    /// value of the line at its end divided by that at its begin.
    pub ratio: (f64, f64, f64),
    /// The probability that a series without a change diverges as much, 0 to 1.
    pub chance: f64,
    /// How sure it is.
    pub strength: Strength,
    /// The least magnitude that could be claimed, a share.
    pub mde: f64,
    /// Whether the rate of the echo changed with it, so that the host explains it. Such a change raises no alarm.
    pub is_hosts: bool,
    /// How many points of the series came since it, the first one included; of a creep, its points.
    pub age: u32,
}

/// How a figure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Between two runs.
    Step,
    /// A little with every run, up to the newest one.
    Creep,
}

/// How sure a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// A change that one series in 20 would have by chance. A comparison of both builds can decide.
    Weak,
    /// A change that fewer than one in 20 histories would have by chance, each with all of these series, looked at
    /// every time that they grew.
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
    /// The differences of the hosts, each in words.
    pub differences: Vec<String>,
}

impl Series {
    /// All changes, the newest last.
    pub fn changes(&self) -> Vec<&Change> {
        let steps = self.stretches.iter().flat_map(|stretch| &stretch.changes);
        let mut changes: Vec<&Change> = steps.chain(&self.creep).collect();
        changes.sort_by_key(|change| change.after);
        changes
    }

    /// The newest step that the host does not explain.
    pub fn newest(&self) -> Option<&Change> {
        let is_step = |change: &&Change| change.shape == Shape::Step && !change.is_hosts;
        self.changes().into_iter().rev().find(is_step)
    }

    /// Whether a change of this series counts as new: its newest step if no more than `last` runs have it, and a creep,
    /// which goes on.
    pub fn is_new(&self, change: &Change, last: u64) -> bool {
        let is_newest = || self.newest().is_some_and(|newest| std::ptr::eq(newest, change));
        match change.shape {
            Shape::Creep => !change.is_hosts,
            Shape::Step => u64::from(change.age) <= last && is_newest(),
        }
    }

    /// The number of runs of the newest host that count, if they are too few to see a change.
    fn too_few(&self) -> Option<u32> {
        let Some(newest) = self.points.last() else { return Some(0) };
        let stretch = self.stretches.get(newest.stretch)?;
        stretch.is_short.then(|| stretch.levels.iter().map(|level| level.count).sum())
    }

    /// Its newest run, with a figure or without one.
    fn newest_entry(&self) -> Option<usize> {
        let point = self.points.last().map(|point| point.entry);
        point.max(self.absences.last().map(|absence| absence.0))
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

impl Change {
    /// The first point that has it: of a creep, the point at which it begins.
    pub fn since(&self) -> usize {
        match self.shape {
            Shape::Step => self.after,
            Shape::Creep => self.before,
        }
    }
}

/// Series in which no change can be seen yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// Series with too few runs.
    pub series: usize,
    /// These series and those with enough runs.
    pub of: usize,
    /// The runs of the shortest and of the longest of these series.
    pub runs: (u32, u32),
}

impl TooFew {
    /// Whether no series has enough runs.
    pub fn is_all(&self) -> bool {
        self.series == self.of
    }

    /// The number of runs as the begin of a sentence.
    pub fn sentence(&self) -> String {
        format!("T{}", &self.to_string()[1..])
    }
}

impl fmt::Display for TooFew {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { series, of, runs: (fewest, most) } = *self;
        formatter.write_str("too few runs to see a change")?;
        if !self.is_all() {
            write!(formatter, " in {series} of {of} series")?;
        }
        if fewest < most {
            write!(formatter, ": {fewest} to {most} of {LEAST}")
        } else {
            write!(formatter, ": {most} of {LEAST}")
        }
    }
}

impl History {
    /// The series that have too few runs on their newest host to see a change; `None` if none has. Series that none of
    /// the newest `last` runs has are passed over: nobody watches them any more.
    pub fn too_few(&self, last: u64) -> Option<TooFew> {
        let newest = self.series.iter().filter_map(Series::newest_entry).max()?;
        let is_watched = |series: &&Series| {
            series.newest_entry().is_some_and(|entry| ((newest - entry) as u64) < last.max(1))
        };
        let watched: Vec<&Series> = self.series.iter().filter(is_watched).collect();
        let short: Vec<u32> = watched.iter().filter_map(|series| series.too_few()).collect();
        let runs = (*short.iter().min()?, *short.iter().max()?);
        Some(TooFew { series: short.len(), of: watched.len(), runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_runs_are_said_with_their_number() {
        let said = |series, of, runs| TooFew { series, of, runs }.to_string();
        assert_eq!(said(3, 3, (5, 5)), "too few runs to see a change: 5 of 8");
        assert_eq!(said(2, 3, (0, 7)), "too few runs to see a change in 2 of 3 series: 0 to 7 of 8");
    }
}
