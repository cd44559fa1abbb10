//! The question of a study and the figures that others published: everything that a report needs from a
//! study's file.

use std::collections::BTreeMap;

pub use kqps_catalogue::Figure;
pub use kqps_catalogue::choice::Path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The question of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The headline of the report.
    pub title: String,
    /// The question, in a sentence or two.
    pub question: String,
    /// Who published the figures that the report compares with ours, and when; empty if there are none.
    pub source: String,
    /// The path of queries and replies.
    pub path: Path,
    /// The experiments, in the order of the study's file.
    pub experiments: Vec<Experiment>,
}

/// A matrix of cells, and how to show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// The experiment's name, as in [`crate::Cell::experiment`].
    pub name: String,
    /// The headline of its section.
    pub title: String,
    /// A sentence about what it varies; may be empty.
    pub about: String,
    /// The factors that it varies, and their values, in the order of the study's file.
    pub factors: Vec<Factor>,
    /// The tables to show.
    pub tables: Vec<Table>,
    /// The charts to show.
    pub charts: Vec<Chart>,
    /// The charts of rates by the size of replies to show.
    #[serde(default)]
    pub links: Vec<LinkChart>,
    /// The figures that others published.
    pub published: Vec<Published>,
}

/// A factor: a key of [`crate::Cell::factors`], and its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Factor {
    /// The key: `io`, `processes`, `player.sockets`, …
    pub name: String,
    /// The values as text.
    pub values: Vec<String>,
}

/// A table of one figure: factors down, one factor across.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// The headline of the table.
    pub title: String,
    /// Factors whose values make the rows.
    pub rows: Vec<String>,
    /// The factor whose values make the columns; empty for one column.
    pub columns: String,
    /// The figures in its cells.
    pub show: Vec<Figure>,
}

/// A chart of the answered rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chart {
    /// The headline of the chart.
    pub title: String,
    /// The factor along the axis.
    pub x: String,
    /// Factors whose combinations make the series.
    pub series: Vec<String>,
    /// The figures that it draws.
    pub show: Vec<Figure>,
}

/// A chart of rates by the size of replies, compared with the capacity of links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkChart {
    /// The headline of the chart.
    pub title: String,
    /// The links, gigabits per second.
    pub gbit_per_s: Vec<f64>,
}

/// A figure that others published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The values of factors that select its cells.
    pub factors: BTreeMap<String, String>,
    /// Queries per second.
    pub rate_qps: f64,
    /// Whether this is the best of all selected cells, rather than the figure of each.
    #[serde(default)]
    pub best: bool,
    /// A remark for the reader; may be empty.
    #[serde(default)]
    pub note: String,
}
