//! What a server says on stop.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counts::Counts;

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
    /// Datagrams that the kernel dropped because a socket's buffer was full.
    pub socket_drops: u64,
    /// The workers in order.
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
    pub fn add_worker(&mut self, cpu: Option<u32>, counts: &Counts) {
        let (received, answered, dropped) = (counts.received, counts.answered, counts.dropped());
        let worker = WorkerReport { cpu, received, answered, dropped: dropped.clone() };
        self.add(Self { received, answered, dropped, socket_drops: 0, workers: vec![worker] });
    }

    /// Adds the workers of another process.
    pub fn add(&mut self, other: Self) {
        self.received += other.received;
        self.answered += other.answered;
        self.socket_drops += other.socket_drops;
        self.workers.extend(other.workers);
        for (cause, count) in other.dropped {
            *self.dropped.entry(cause).or_default() += count;
        }
    }
}
