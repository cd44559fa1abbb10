//! The counts of a front for each back end, besides those of its clients' queries.

use std::collections::BTreeMap;

use derive_more::AddAssign;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The counts of one back end: `sent = answered + timed_out + cut_off + displaced + unsettled`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, AddAssign)]
pub struct BackEndReport {
    /// The back end's address: `udp://ADDR:PORT`, `tcp://ADDR:PORT` or `unix:PATH`.
    #[add_assign(skip)]
    pub url: String,
    /// The number of workers that would send it a query, at their last reports.
    pub up: u64,
    /// Queries sent to it, including checks and second tries.
    pub sent: u64,
    /// Queries that it answered.
    pub answered: u64,
    /// Queries that it did not answer in time.
    pub timed_out: u64,
    /// Queries that were outstanding when its connection ended, or when it was found to be down.
    pub cut_off: u64,
    /// Queries that newer ones displaced.
    pub displaced: u64,
    /// Queries that were outstanding when the front stopped.
    pub unsettled: u64,
    /// How many of `answered` were answered SERVFAIL, including checks.
    #[serde(default)]
    pub servfails: u64,
    /// How many of `answered` were truncated (TC) although the client, over TCP, needs the whole
    /// answer.
    #[serde(default)]
    pub cut_short: u64,
    /// How many of `answered` may be forged, so that the query was sent again over a connection: the case of the name,
    /// or the cookie, was not that of the query. Only a cache looks at them.
    #[serde(default)]
    pub doubted: u64,
    /// How many of `sent` were second tries.
    pub second_tries: u64,
    /// How many of `sent` were checks.
    pub checks: u64,
    /// How many of `sent` the kernel refused to send; each timed out or was cut off.
    pub send_refused: u64,
    /// Messages that answer no outstanding query.
    pub unsolicited: u64,
    /// Messages with the ID of an outstanding query that do not answer it.
    pub mismatched: u64,
    /// Bytes that were not a DNS message.
    pub garbled: u64,
    /// The number of times that it was found to be down.
    pub downs: u64,
    /// Connections opened to it.
    pub connections: u64,
    /// Calls that passed queries to the kernel.
    pub flushes: u64,
}

/// The counts of all back ends, by name. If a back end was replaced by another of the same name, the
/// counts of both are added.
pub type BackEndReports = BTreeMap<String, BackEndReport>;

/// Adds the counts of another worker.
pub fn add_back_ends(to: &mut BackEndReports, from: &BackEndReports) {
    for (name, counts) in from {
        let sum = to.entry(name.clone()).or_default();
        sum.url.clone_from(&counts.url);
        *sum += counts.clone();
    }
}
