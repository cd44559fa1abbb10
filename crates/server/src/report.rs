//! What a server says on stop.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::front::{BackEndReports, add_back_ends};
use crate::tcp::{TcpReport, add_counts};
use crate::worker::Counted;

/// Counts over a server's life. `received = answered + Σ dropped`, and over all sockets the kernel took in
/// `received + socket_drops` datagrams, but for those that were still waiting when it was stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "server")]
pub struct Report {
    /// Datagrams taken from the sockets.
    pub received: u64,
    /// Replies that the kernel took.
    pub answered: u64,
    /// Queries without an answer, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Datagrams that the kernel dropped because a socket's buffer was full or their checksum was wrong: it has one
    /// counter for both.
    pub socket_drops: u64,
    /// Replies that were made, by rcode with the upper bits of their OPT records; from a server that looks at them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub response_rcodes: BTreeMap<String, u64>,
    /// What came by connections, which the counts above leave out; from a server that has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpReport>,
    /// What became of queries at each back end, by its name; from a front.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub back_ends: BackEndReports,
    /// The workers in order, but for those that could not go on.
    pub workers: Vec<WorkerReport>,
}

/// Counts of one worker. `received = answered + Σ dropped`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The core it was pinned to.
    pub cpu: Option<u32>,
    /// Datagrams that it took.
    pub received: u64,
    /// Its replies that the kernel took.
    pub answered: u64,
    /// Its queries without an answer, by cause.
    pub dropped: BTreeMap<String, u64>,
}

impl Report {
    /// Adds a worker that has ended.
    pub(crate) fn add_worker(&mut self, cpu: Option<u32>, counted: Counted) {
        let Counted { counts, response_rcodes, tcp, back_ends } = counted;
        let (received, answered, dropped) = (counts.received, counts.answered, counts.dropped());
        let workers = vec![WorkerReport { cpu, received, answered, dropped: dropped.clone() }];
        self.add(Self {
            received,
            answered,
            dropped,
            response_rcodes,
            tcp,
            back_ends,
            workers,
            socket_drops: 0,
        });
    }

    /// Adds the workers of another process.
    pub fn add(&mut self, other: Self) {
        self.received += other.received;
        self.answered += other.answered;
        self.socket_drops += other.socket_drops;
        self.workers.extend(other.workers);
        add_counts(&mut self.dropped, other.dropped);
        add_counts(&mut self.response_rcodes, other.response_rcodes);
        add_back_ends(&mut self.back_ends, &other.back_ends);
        if let Some(tcp) = other.tcp {
            self.tcp.get_or_insert_default().add(tcp);
        }
    }
}
