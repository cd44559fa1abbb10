//! The front: a proxy before name servers. It collects queries of many clients, sends them to back ends in batches,
//! and sends the answers back in batches. It notices when a back end fails, and sends the back end's queries to
//! another.
//!
//! For: choosing the back end of a query, matching its reply, and counting the fate of every query. Not for: answering
//! queries, or reading the files that name back ends. Sockets, workers and connections come from the crate `server`.
//!
//! Invariant: a query stands in one place of one table until it has one fate, a reply or a cause for having none.
//! Every worker is a thread with its own sockets, connections to each back end, table of outstanding queries, and view
//! of every back end's health. Workers share none of this, so nothing is locked.
//!
//! - [`policy`] determines which back ends a query may go to, and `choose` selects one of them.
//! - `dispatcher` takes a query from its client to a back end and back. `queries` holds outstanding queries, `ids`
//!   their IDs on each link. `stream` and `datagrams` are the links, and `health` decides whether a back end is used.
//! - `parsed_query` and `edns` read a client's query, and `reply` makes its reply.
//! - `worker` is the loop. `coalescer` says when it looks for queries. `intake`, `clients` and `reply_queue` are the
//!   client side, and `own_addresses` holds the front's own addresses.
//! - [`upstream`] asks back ends for another server of this process. `answers` holds what becomes of its queries.
//!   `guard` and `cookies` decide which answers to them may be forged.
//! - `fuzz` has the fuzz targets of the code that reads bytes of back ends, if the feature of that name is on.
//! - `service` is the front as the server sees it. `control` starts the workers and gives them new policies. `status`
//!   reports their counts while they run. `shared` is what these threads have in common.

mod answers;
mod back_end;
mod choose;
mod clients;
mod coalescer;
mod control;
mod cookies;
mod counts;
mod datagrams;
mod dispatcher;
mod edns;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod guard;
mod health;
mod ids;
mod intake;
mod own_addresses;
mod parsed_query;
pub mod policy;
mod queries;
mod reply;
mod reply_queue;
mod service;
mod shared;
pub mod status;
mod stream;
mod token;
pub mod upstream;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kqps_server::connections::Limits;

pub use health::Checks;
use ids::RandomIds;
pub use policy::{Policy, PolicySource};
pub use service::Front;

/// The settings of a front. Limits apply to each worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontSettings {
    /// The back ends, and how a query finds one of them.
    pub policy: Policy,
    /// How the front checks back ends.
    pub checks: Checks,
    /// The maximum number of queries per call to a back end, and of replies per call to clients; at least 1.
    pub batch: usize,
    /// How long the first query of a batch may wait for more while queries keep arriving. Once none arrives, the
    /// batch is sent at once.
    pub flush: Duration,
    /// How long a worker waits between two looks for queries if at least two arrive in that time. Values above
    /// `flush` count as `flush`; with zero, workers never wait.
    pub coalesce: Duration,
    /// How long a client waits for its answer. If its query may go to several back ends, the first has half of this
    /// time, and a second the other half.
    pub timeout: Duration,
    /// The number of connections to each back end that is reached over connections, at least 1.
    pub connections: usize,
    /// The number of sockets to each back end that is reached over UDP, at least 1. If ports change (`cautious`), as
    /// many others may wait for their last answers.
    pub sockets: usize,
    /// The maximum number of outstanding queries, at least 1.
    pub outstanding: usize,
    /// The maximum number of queries outstanding at one back end, at least 1.
    pub back_end_outstanding: usize,
    /// The query that gets no answer when a maximum is exceeded.
    pub overload: Overload,
    /// The receive and send buffers of sockets to back ends, in bytes.
    pub buffer_bytes: usize,
    /// Whether the front accepts clients over TCP.
    pub tcp: bool,
    /// The limits of clients' connections.
    pub limits: Limits,
    /// Whether others may forge replies of back ends. Datagrams to them then come from ports that change, and queries
    /// of [`upstream`] carry cookies and take no reply whose question has another case.
    pub cautious: bool,
    /// The path of a Unix socket on which the front reports counts.
    pub status: Option<PathBuf>,
    /// The address at which Prometheus can read counts.
    pub metrics: Option<SocketAddr>,
}

/// The query that gets no answer when too many are outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// The query that has just arrived.
    Newest,
    /// The query that has been outstanding longest.
    Oldest,
}

/// Values that a back end needs to send a query.
struct SendContext<'a> {
    random: &'a mut RandomIds,
    now_ns: u64,
}

/// A number below 2^16 in 16 bits: that of a back end, a link, an endpoint, a rule or a place, or a length.
#[inline]
fn short(number: usize) -> u16 {
    let [low, high, ..] = number.to_le_bytes();
    u16::from_le_bytes([low, high])
}
