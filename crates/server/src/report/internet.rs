//! The counts of a server that plays a tree of zones.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connections::add_counts;

/// Queries at a tree of zones: by level of the zone, kind of the answer and fault, and which servers and questions had
/// most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InternetReport {
    /// Queries by UDP: level of the server's zone that has the name → kind of the answer → queries.
    pub udp: BTreeMap<String, BTreeMap<String, u64>>,
    /// Queries by TCP, likewise.
    pub tcp: BTreeMap<String, BTreeMap<String, u64>>,
    /// Answers, and refused connections, by their fault, over both transports.
    pub faults: BTreeMap<String, u64>,
    /// Answers that wait for their time.
    pub under_way: u64,
    /// Answers that left some time after their queries, by the tree's will. Known at the end, as all that follows.
    pub delayed: u64,
    /// How much later than it should the median of these left, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_p50_us: Option<u64>,
    /// How much later the 99th percentile left, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_p99_us: Option<u64>,
    /// How much later the latest left, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_most_us: Option<u64>,
    /// Servers by their queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<RankedCounts>,
    /// Questions by their queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<RankedCounts>,
}

/// Counts of many things, of which some are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankedCounts {
    /// The things with most queries, the first most.
    pub top: Vec<RankedCount>,
    /// Things that were counted by themselves.
    pub distinct: u64,
    /// Queries of other things, which came when a thread counted 65,536 already.
    pub others: u64,
}

/// A thing and its count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankedCount {
    /// The address of a server, or a question as `NAME TYPE`.
    pub name: String,
    /// Its queries.
    pub queries: u64,
}

impl InternetReport {
    /// Adds the counts of another report. Of lateness the higher figures stay, since quantiles cannot be added.
    pub fn add(&mut self, other: Self) {
        for (to, from) in [(&mut self.udp, other.udp), (&mut self.tcp, other.tcp)] {
            for (level, kinds) in from {
                add_counts(to.entry(level).or_default(), kinds);
            }
        }
        add_counts(&mut self.faults, other.faults);
        self.under_way += other.under_way;
        self.delayed += other.delayed;
        self.late_p50_us = self.late_p50_us.max(other.late_p50_us);
        self.late_p99_us = self.late_p99_us.max(other.late_p99_us);
        self.late_most_us = self.late_most_us.max(other.late_most_us);
        self.servers = self.servers.take().or(other.servers);
        self.questions = self.questions.take().or(other.questions);
    }
}
