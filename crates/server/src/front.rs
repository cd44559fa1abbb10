//! The front: a receptionist before the name servers. It takes queries from many clients, hands them to back ends in
//! batches, and sends the answers back in batches; a back end that fails is found out, and its queries go to another.
//!
//! Every worker is a thread that has all of this for itself: its sockets, its connections to each back end, its
//! table of queries under way, its own view of every back end's health. Nothing is shared, so nothing is locked.
//!
//! - [`policy`] says whom a query may go to, `choose` picks one of those.
//! - `desk` leads a query from its client to a back end and back; `queries` holds what is under way, `ids` its
//!   numbers on each link, `stream` and `datagrams` are the links, `health` says whether a back end is used.
//! - `asked` and `edns` read a client's query, `reply` makes what it is answered.
//! - `turn` is the loop; `intake`, `clients` and `post` are its clients' side; `home` is where those find it.
//! - `fuzz` gives what reads back ends' bytes to the fuzz targets.
//! - `board` starts the workers, hands them another policy, and tells what they count while they run.

mod asked;
mod back_end;
mod board;
mod choose;
mod clients;
mod company;
mod counts;
mod datagrams;
mod desk;
mod edns;
pub mod fuzz;
mod health;
mod home;
mod ids;
mod intake;
pub mod policy;
mod post;
mod queries;
mod reply;
mod status;
mod stream;
mod token;
mod turn;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use board::Board;
pub(crate) use counts::add_back_ends;
pub use counts::{BackEndReport, BackEndReports};
pub use health::Checks;
pub(crate) use home::Home;
use ids::Chance;
pub use policy::Policy;

use crate::tcp;

/// What a front is told. Numbers that bound something are for each worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Whom queries go to.
    pub policy: Policy,
    /// How back ends are checked.
    pub checks: Checks,
    /// Queries handed to a back end in one call, and replies handed to clients, at least 1.
    pub batch: usize,
    /// How long the first query of a batch waits for more while others keep coming in. When no more come in, none
    /// waits.
    pub flush: Duration,
    /// How long a worker waits before it looks for queries again, at most `flush`, where two or more come in that
    /// time; zero for never.
    pub coalesce: Duration,
    /// How long a client waits for its answer; a back end has half of that, and another one, if there is one, the
    /// other half.
    pub timeout: Duration,
    /// Connections to each back end that is reached by connections, at least 1.
    pub connections: usize,
    /// Sockets to each back end that is reached by datagrams, at least 1.
    pub sockets: usize,
    /// Queries under way at most, at least 1; and at one back end.
    pub outstanding: usize,
    /// The same at one back end.
    pub back_end_outstanding: usize,
    /// Which one goes where that is too many.
    pub overload: Overload,
    /// Receive and send buffers of sockets to back ends, bytes.
    pub buffer_bytes: usize,
    /// Whether clients may come by TCP.
    pub tcp: bool,
    /// What their connections may take.
    pub limits: tcp::Limits,
    /// A Unix socket that tells what is counted.
    pub status: Option<PathBuf>,
    /// Where what is counted is told to Prometheus.
    pub metrics: Option<SocketAddr>,
}

/// Which query gets no answer where too many are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overload {
    /// The one that has just come.
    Newest,
    /// The one that has waited longest.
    Oldest,
}

/// What sending a query takes.
struct Ready<'a> {
    chance: &'a mut Chance,
    now_ns: u64,
}
