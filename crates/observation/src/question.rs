//! What a study asks, and what others found: all that a report needs of a study's file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a study asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// A headline.
    pub title: String,
    /// The question, in a sentence or two.
    pub question: String,
    /// Who published the figures that are laid beside ours, and when; empty where there are none.
    pub source: String,
    /// What queries and replies travel over.
    pub path: Path,
    /// The experiments, in the order of the study's file.
    pub experiments: Vec<Experiment>,
}

/// What queries and replies travel over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// The loopback interface of this host.
    #[default]
    Loopback,
    /// A pair of virtual Ethernet devices between two network namespaces: the player's and the subject's.
    Veth,
}

/// A matrix of cells, and how it is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name, as in [`crate::Cell::experiment`].
    pub name: String,
    /// A headline.
    pub title: String,
    /// What it varies, in a sentence; may be empty.
    pub about: String,
    /// The factors that it varies, and their values, in the order of the study's file.
    pub factors: Vec<Factor>,
    /// Tables wanted.
    pub tables: Vec<Table>,
    /// Charts wanted.
    pub charts: Vec<Chart>,
    /// Charts of rates by the size of replies wanted.
    #[serde(default)]
    pub links: Vec<LinkChart>,
    /// What others found.
    pub published: Vec<Published>,
}

/// A factor: a key of [`crate::Cell::factors`], and the values that it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// `io`, `processes`, `player.sockets`, …
    pub name: String,
    /// Its values as words.
    pub values: Vec<String>,
}

/// A table of one figure: factors down, one factor across.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// A headline.
    pub title: String,
    /// Factors whose values make the rows.
    pub rows: Vec<String>,
    /// The factor whose values make the columns; empty for one column.
    pub columns: String,
    /// What the cells show.
    pub show: Vec<Figure>,
}

/// A chart of the answered rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chart {
    /// A headline.
    pub title: String,
    /// The factor along the axis.
    pub x: String,
    /// Factors whose combinations are drawn beside each other.
    pub series: Vec<String>,
    /// What is drawn.
    pub show: Vec<Figure>,
}

/// A chart of rates by the size of replies, beside what links carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkChart {
    /// A headline.
    pub title: String,
    /// The links, gigabits a second.
    pub gbit_per_s: Vec<f64>,
}

/// A figure of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Median of the starts with its order-statistic interval, queries a second.
    #[default]
    Median,
    /// Mean, minimum and maximum of the starts, queries a second.
    MeanMinMax,
    /// What others found, queries a second.
    Published,
    /// Rate at n workers, divided by n times the rate at one.
    Efficiency,
    /// Share of the standard interface's ceiling.
    CeilingShare,
    /// CPU seconds of the subject per million answers.
    Cpu,
    /// The same of each kind of its threads: of a front, which part is its own and which the servers'.
    CpuByThread,
    /// Memory of the subject (proportional where it can be read), bytes.
    Memory,
    /// Memory of the subject divided by the records that its zones have, bytes.
    MemoryPerRecord,
    /// Time from the start of the subject until it answers, seconds.
    LoadTime,
    /// Mean size of a correct reply's DNS message, bytes.
    ReplySize,
    /// p99 of latency at half load, microseconds.
    P99AtHalf,
    /// Mean of latency at the rate of the figure, microseconds.
    LatencyMean,
    /// p99 of latency at the rate of the figure, microseconds.
    LatencyP99,
    /// Share of the queries sent, at the rate of the figure, that nothing came back for.
    Lost,
}

/// A figure that others found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The values of factors that single out its cells.
    pub factors: BTreeMap<String, String>,
    /// Queries a second.
    pub rate_qps: f64,
    /// Whether it is the best of all cells that the factors single out, and not the figure of each.
    #[serde(default)]
    pub best: bool,
    /// What is to be known about it; may be empty.
    #[serde(default)]
    pub note: String,
}
