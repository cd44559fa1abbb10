//! The report of a server when it stops, and the counts that a worker adds to it.

mod back_end;
mod cache;
mod internet;
mod xdp;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connections::{ConnectionReport, QuicReport, TcpReport, add_counts};
use crate::counts::Counts;
use crate::error::ServeError;

pub use back_end::{BackEndReport, BackEndReports, add_back_ends};
pub use cache::CacheReport;
pub use internet::{InternetReport, RankedCount, RankedCounts};
pub use xdp::XdpReport;

/// Counts over a server's life. `received = answered + Σ dropped`.
///
/// Over all sockets the kernel received `received + socket_drops` datagrams, not counting those that were still
/// waiting when the server stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename = "server")]
pub struct Report {
    /// Datagrams received from the sockets, and as frames.
    pub received: u64,
    /// Replies that the kernel or the device took.
    pub answered: u64,
    /// Queries without an answer, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Datagrams that the kernel dropped because a socket's buffer was full or because their checksum was wrong:
    /// one kernel counter covers both.
    pub socket_drops: u64,
    /// Replies by rcode, with the upper bits in their OPT records. Empty if the server does not count them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub response_rcodes: BTreeMap<String, u64>,
    /// Counts of connections, which the counts above do not include. `None` if the server accepts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpReport>,
    /// Counts of connections over QUIC, which no other count includes. `None` if the server accepts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicReport>,
    /// Counts of frames that passed the kernel's network stack. `None` without `--io xdp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xdp: Option<XdpReport>,
    /// Counts of what the server keeps of answers. `None` unless it is a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheReport>,
    /// Counts of what the tree of zones answered. `None` unless the server plays one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internet: Option<InternetReport>,
    /// Counts of each back end, by its name. Empty unless the server is a front or a cache.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub back_ends: BackEndReports,
    /// The workers in order, without those that could not go on.
    pub workers: Vec<WorkerReport>,
}

/// The counts of one worker. `received = answered + Σ dropped + later`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerReport {
    /// The core to which the worker was pinned, if any.
    pub cpu: Option<u32>,
    /// Datagrams that the worker received.
    pub received: u64,
    /// The worker's replies that the kernel took.
    pub answered: u64,
    /// The worker's queries without an answer, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// The worker's queries that another thread answered or dropped later. Those answers and drops are among the
    /// server's.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub later: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it with a reference
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Report {
    /// Adds a worker that has ended.
    pub fn add_worker(&mut self, cpu: Option<u32>, counted: Counted) {
        let Counted { counts, response_rcodes, tcp, xdp, back_ends } = counted;
        let (received, answered, dropped) = (counts.received, counts.answered, counts.dropped());
        let later = counts.later();
        let workers = vec![WorkerReport { cpu, received, answered, dropped: dropped.clone(), later }];
        self.add(Self {
            received,
            answered,
            dropped,
            response_rcodes,
            tcp,
            xdp,
            back_ends,
            workers,
            ..Self::default()
        });
    }

    /// Adds the answers and drops of a thread that settles queries which workers received.
    pub fn add_later(&mut self, counts: &Counts, rcodes: BTreeMap<String, u64>) {
        self.answered += counts.answered;
        add_counts(&mut self.dropped, counts.dropped());
        add_counts(&mut self.response_rcodes, rcodes);
    }

    /// Adds the counts of a thread that served connections.
    pub(crate) fn add_connections(&mut self, counted: ConnectionReport) {
        match counted {
            ConnectionReport::Tcp(counted) => self.tcp.get_or_insert_default().add(counted),
            ConnectionReport::Quic(counted) => self.quic.get_or_insert_default().add(counted),
        }
    }

    /// Adds the report of another process.
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
        if let Some(quic) = other.quic {
            self.quic.get_or_insert_default().add(quic);
        }
        if let Some(xdp) = other.xdp {
            self.xdp.get_or_insert_default().add(xdp);
        }
        if let Some(cache) = other.cache {
            *self.cache.get_or_insert_default() += cache;
        }
        if let Some(internet) = other.internet {
            self.internet.get_or_insert_default().add(internet);
        }
    }
}

/// The result of a server that has ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// The counts, without those of workers that could not go on.
    pub report: Report,
    /// Why the server ended unless it was asked to.
    pub failed: Option<ServeError>,
}

impl Ended {
    /// This end, after a wait with this outcome. The first error counts.
    pub(crate) fn after(self, before: Result<(), ServeError>) -> Self {
        Self { failed: before.err().or(self.failed), ..self }
    }
}

/// The result of a worker.
#[derive(Default)]
pub struct Counted {
    /// The counts of datagrams.
    pub counts: Counts,
    /// Replies to datagrams by rcode.
    pub response_rcodes: BTreeMap<String, u64>,
    /// The counts of connections that the worker serves itself.
    pub tcp: Option<TcpReport>,
    /// The counts of the worker's frames, if these pass the kernel.
    pub xdp: Option<XdpReport>,
    /// The counts of queries at back ends.
    pub back_ends: BackEndReports,
}
