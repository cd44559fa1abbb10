//! The counts that a front reports, and the sums that must hold in them.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde::Deserialize;

/// The counts of a front: of clients without connections, of those with them, and of the back ends.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct FrontCounts {
    pub(super) received: u64,
    pub(super) answered: u64,
    pub(super) dropped: BTreeMap<String, u64>,
    pub(super) response_rcodes: Option<BTreeMap<String, u64>>,
    pub(super) tcp: Option<TcpCounts>,
    #[serde(default)]
    pub(super) back_ends: BTreeMap<String, BackEndCounts>,
}

/// Counts of clients with connections.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TcpCounts {
    pub(super) connections: u64,
    pub(super) received: u64,
    pub(super) answered: u64,
    pub(super) dropped: BTreeMap<String, u64>,
    pub(super) ended: BTreeMap<String, u64>,
}

/// Counts of one back end.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct BackEndCounts {
    pub(super) up: u64,
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) timed_out: u64,
    pub(super) cut_off: u64,
    pub(super) displaced: u64,
    pub(super) unsettled: u64,
    pub(super) unsolicited: u64,
    pub(super) mismatched: u64,
    pub(super) garbled: u64,
    pub(super) downs: u64,
    pub(super) connections: u64,
}

impl FrontCounts {
    /// Checks that every query of a client, every query to a back end, and every connection has exactly
    /// one end.
    pub(super) fn check(&self) -> Result<()> {
        adds_up("clients' datagrams", self.received, self.answered, &self.dropped)?;
        let tcp = self.tcp.clone().unwrap_or_default();
        adds_up("clients' connections", tcp.received, tcp.answered, &tcp.dropped)?;
        let ended: u64 = tcp.ended.values().sum();
        ensure!(tcp.connections == ended, "{} connections came, and {ended} ended", tcp.connections);
        for (name, at) in &self.back_ends {
            let settled = at.answered + at.timed_out + at.cut_off + at.displaced + at.unsettled;
            ensure!(at.sent == settled, "{name} got {} queries, and {settled} had an end: {at:?}", at.sent);
        }
        Ok(())
    }

    /// Replies of this rcode to clients.
    pub(super) fn replies(&self, rcode: &str) -> u64 {
        self.response_rcodes.as_ref().and_then(|rcodes| rcodes.get(rcode)).copied().unwrap_or(0)
    }
}

fn adds_up(what: &str, received: u64, answered: u64, dropped: &BTreeMap<String, u64>) -> Result<()> {
    let sum = answered + dropped.values().sum::<u64>();
    ensure!(received == sum, "{what}: received {received}, answered {answered} and dropped {dropped:?}");
    Ok(())
}
