//! How a capture is played, and the lanes of a trial in which each query goes by the transport that it came by.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use kqps_dataset::Carried;
use serde::{Deserialize, Serialize};

use super::{Plan, SEED, Wire};

/// How a capture is played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayPlan {
    /// Where the window begins, from the capture's first query on.
    pub from: Duration,
    /// Where the window ends, from the capture's first query on; `None` for the end of the capture.
    pub to: Option<Duration>,
    /// How many times faster than captured the queries are due, above 0. Also shortens how long connections stay open
    /// after their last query.
    pub speed: f64,
    /// How often the window is played, at least 1.
    pub repeat: u64,
    /// The time between the end of the window and its next beginning.
    pub gap: Duration,
    /// How many slices of the window are played at the same time, 1 to [`PILE_MOST`]. Each has clients of its own.
    pub pile: u32,
    /// The seed of the mapping of clients to addresses.
    pub seed: u64,
}

/// The most slices that can be laid over each other.
pub const PILE_MOST: u32 = 1024;

impl Default for ReplayPlan {
    /// The whole capture at its own pace, once.
    fn default() -> Self {
        Self {
            from: Duration::ZERO,
            to: None,
            speed: 1.0,
            repeat: 1,
            gap: Duration::ZERO,
            pile: 1,
            seed: SEED,
        }
    }
}

impl ReplayPlan {
    /// The window in a capture whose last query is due `capture_ns` after its first, nanoseconds from the first.
    pub(crate) fn window_ns(&self, capture_ns: u64) -> Range<u64> {
        let end_ns = self.to.map_or(capture_ns, whole_ns);
        whole_ns(self.from).min(end_ns)..end_ns
    }
}

/// A duration in nanoseconds, of up to 584 years.
pub(crate) fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A part of a trial: the threads that play the queries of one transport, or the clients of a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// The transport that the queries came by; the one that they go by if the lane has a share.
    pub carried: Carried,
    /// How they travel now; not [`Wire::Captured`].
    pub wire: Wire,
    /// The threads of the lane, at least 1.
    pub threads: usize,
    /// The share of the clients whose queries the lane plays, whatever they came by, above 0. All lanes of a plan have
    /// one, and they add up to 1, or none has.
    #[serde(default)]
    pub share: Option<f64>,
    /// The targets of the lane, which are among those of the plan; empty for all of them.
    #[serde(default)]
    pub targets: Vec<SocketAddr>,
}

impl Lane {
    /// A lane for the queries that came by `carried`, to the targets of the plan.
    pub fn as_captured(carried: Carried, wire: Wire, threads: usize) -> Self {
        Self { carried, wire, threads, share: None, targets: Vec::new() }
    }

    /// Whether its connections begin and end as captured. Those of QUIC are one to a client, as are those of clients
    /// that a share chose.
    pub(crate) fn has_places(&self) -> bool {
        self.share.is_none() && self.carried != Carried::Udp && matches!(self.wire, Wire::Tcp(_))
    }

    /// Its targets in a plan.
    pub(crate) fn targets_in<'a>(&'a self, plan: &'a Plan) -> &'a [SocketAddr] {
        if self.targets.is_empty() { &plan.targets } else { &self.targets }
    }

    /// Whether its connections are closed after a number of queries.
    pub(super) fn has_limited_connections(&self) -> bool {
        self.has_places() && self.wire.connection_use().is_some_and(|of| !of.are_kept())
    }
}
