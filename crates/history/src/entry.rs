//! The entry that the history keeps of a run.

use serde::{Deserialize, Serialize};

use crate::key::Key;

/// The version that is written into every entry. A reader accepts this version and all older ones.
pub const SCHEMA: u32 = 1;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the record, [`SCHEMA`].
    pub schema: u32,
    /// The hash of what identifies the run wherever its folder lies, in hex.
    pub id: String,
    /// The absolute path of the run's folder when it was added.
    pub folder: String,
    /// When the run began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The study's name.
    pub study: String,
    /// The version of kqps that made it.
    pub kqps_version: String,
    /// The identity of the host, as in [`crate::Host`].
    pub host: String,
    /// The figures that compare between runs, and those that are missing.
    pub readings: Vec<Reading>,
}

impl Entry {
    /// The name of the run's folder, which people choose: a time, a commit.
    pub fn name(&self) -> &str {
        let name = self.folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if name.is_empty() { &self.folder } else { name }
    }
}

/// A figure of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The series.
    pub key: Key,
    /// The figure; `None` if the run has none.
    pub figure: Option<Figure>,
    /// Why the run has no figure, in one sentence; empty if it has one.
    pub absence: String,
    /// The rate of the echo that is the subject's ceiling, queries a second; `None` if none was played.
    pub ceiling_qps: Option<f64>,
    /// The rate at which a comparison of two builds looks at this figure, queries a second: half of the subject's rate,
    /// or the rate that was played; `None` if the figure is a rate.
    pub compared_at_qps: Option<f64>,
    /// The cores of player and subject.
    pub cores: String,
    /// The version that the subject reported.
    pub version: Option<String>,
    /// The programs of the subject.
    pub builds: Vec<Build>,
}

/// A figure with what is known of its accuracy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The figure, above 0, in the unit of its kind.
    pub value: f64,
    /// The lower end of its interval, if it has one.
    pub low: Option<f64>,
    /// The upper end of its interval, if it has one.
    pub high: Option<f64>,
    /// The minimum detectable effect of the run, a share; for a figure that was not compared, half the width of its
    /// interval. `None` if neither is known.
    pub mde: Option<f64>,
    /// The number of starts or blocks behind its interval; `None` if it has none, or if an earlier version recorded it.
    #[serde(default)]
    pub count: Option<u32>,
}

/// A program that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The name of its subject, as in `subjects/NAME.toml` of the run's folder.
    pub subject: String,
    /// Its path.
    pub path: String,
    /// BLAKE3 of its content, in hex.
    pub blake3: String,
}
