//! Where a command stands: which trial of which cell it plays, and what its search knows so far.

use kqps_observation::run::Role;
use kqps_observation::trial::rate_unit;
use kqps_verdict::rate::rate;

/// The purpose of a cell whose subject starts: it has no trial yet.
pub const STARTING: &str = "starting";

/// A place among several, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub number: u64,
    /// How many there are.
    pub of: u64,
}

/// The load of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Load {
    /// So many queries a second.
    Open(f64),
    /// The replies decide (closed loop).
    #[default]
    Closed,
}

/// Where a command stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The name of the measured cell of a study, or of a target.
    pub what: String,
    /// The role of the cell. A target is a subject.
    pub role: Role,
    /// The place of the cell in this block; `None` outside of a study.
    pub cell: Option<Place>,
    /// The place of the block; `None` outside of a study.
    pub block: Option<Place>,
    /// The number of the trial since the subject was started, from 1; 0 before it.
    pub trial: u64,
    /// The purpose of the trial, in a word; empty if it has none but itself.
    pub purpose: String,
    /// Its load.
    pub load: Load,
    /// For how long it sends, seconds; `None` if the queries decide.
    pub planned_s: Option<f64>,
    /// The bounds so far, queries a second.
    pub lower_qps: Option<f64>,
    /// See [`Self::lower_qps`].
    pub upper_qps: Option<f64>,
    /// Whether connections alone are the load, and each stands for a query.
    pub has_connections_alone: bool,
}

impl Standing {
    /// The cell and the trial, in a line; empty for a single load.
    pub fn place_words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(Place { number, of }) = self.cell {
            parts.push(format!("cell {number} of {of}"));
        }
        if let Some(Place { number, of }) = self.block {
            parts.push(format!("block {number} of {of}"));
        }
        if self.trial > 0 && !self.purpose.is_empty() {
            parts.push(format!("trial {} ({})", self.trial, self.purpose));
        }
        parts.join(", ")
    }

    /// The load, in words.
    pub fn load_words(&self) -> String {
        match self.load {
            Load::Open(rate_qps) => format!("{} {}", rate(rate_qps), rate_unit(self.has_connections_alone)),
            Load::Closed => "closed loop".to_owned(),
        }
    }

    /// The bounds of the search, in words; `None` without any.
    pub fn bounds_words(&self) -> Option<String> {
        let bound = |bound: Option<f64>| bound.map_or_else(|| "?".to_owned(), rate);
        let is_known = self.lower_qps.is_some() || self.upper_qps.is_some();
        let unit = rate_unit(self.has_connections_alone);
        is_known.then(|| format!("{} to {} {unit}", bound(self.lower_qps), bound(self.upper_qps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_says_where_a_study_is_and_a_single_load_says_nothing() {
        let place = |number, of| Some(Place { number, of });
        let standing = Standing {
            cell: place(2, 7),
            block: place(1, 2),
            trial: 3,
            purpose: "search".into(),
            load: Load::Open(120_000.0),
            lower_qps: Some(100_000.0),
            ..Standing::default()
        };
        assert_eq!(standing.place_words(), "cell 2 of 7, block 1 of 2, trial 3 (search)");
        assert_eq!(standing.load_words(), "120,000 q/s");
        assert_eq!(standing.bounds_words().unwrap(), "100,000 to ? q/s");
        let alone = Standing { has_connections_alone: true, ..standing };
        assert_eq!(alone.load_words(), "120,000 connections/s");
        assert_eq!(alone.bounds_words().unwrap(), "100,000 to ? connections/s");
        let single = Standing { trial: 1, ..Standing::default() };
        assert_eq!((single.place_words(), single.bounds_words()), (String::new(), None));
    }
}
