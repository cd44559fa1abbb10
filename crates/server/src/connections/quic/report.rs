//! The counts of connections over QUIC.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connections::counts::{TcpReport, add_counts};

/// Counts over a server's life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuicReport {
    /// The counts that connections over TCP have as well. A connection is counted when its first packet arrives.
    #[serde(flatten)]
    pub counts: TcpReport,
    /// UDP datagrams that arrived.
    pub datagrams_received: u64,
    /// UDP datagrams that the kernel took.
    pub datagrams_sent: u64,
    /// UDP datagrams that the kernel refused to send, by cause. QUIC sends their contents again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub send_failures: BTreeMap<String, u64>,
    /// UDP datagrams that the kernel dropped because a socket's buffer was full or because their checksum was wrong.
    pub socket_drops: u64,
}

impl QuicReport {
    /// Adds the counts of another thread or process.
    pub fn add(&mut self, other: Self) {
        self.counts.add(other.counts);
        self.datagrams_received += other.datagrams_received;
        self.datagrams_sent += other.datagrams_sent;
        self.socket_drops += other.socket_drops;
        add_counts(&mut self.send_failures, other.send_failures);
    }
}
