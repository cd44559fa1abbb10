//! DNS over TCP (RFC 7766), beside UDP on the same addresses, and in the same framing over Unix sockets: one thread
//! in each process serves all connections, and is told by events which of them can go on. Connections are limited in
//! all and per client, what a connection holds in memory is bounded, and one that makes no progress is closed,
//! whether it says nothing, sends byte by byte, does not read its replies, or has vanished.
//!
//! Who may use a Unix socket is trusted: a process of this host that asks for many clients, and writes many queries
//! at once.

mod clients;
mod connection;
mod counts;
pub(crate) mod frame;
mod house;
mod listener;
mod places;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use kqps_kernel::affinity::{confine_thread, thread_id};
use kqps_kernel::limits::{raise_open_files, reserve_open_files};
use mio::Waker;
use serde::{Deserialize, Serialize};

pub use counts::TcpReport;

pub(crate) use clients::Clients;
pub(crate) use counts::{End, TcpCounts, add_counts};
pub(crate) use listener::{Accepted, Listener};
pub(crate) use places::{Active, Places};
pub(crate) use stream::Stream;

use crate::counts::Cause;
use crate::sockets::ListeningSocket;
use crate::worker::Going;
use house::House;

/// Files that are open beside connections, and a few more: sockets that are listened on, pollers, files that are read.
pub(crate) const OTHER_FILES: usize = 64;

/// What connections may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How long a connection may make no progress: no whole query comes in, and little or nothing of its replies
    /// is taken.
    pub idle: Duration,
    /// Connections of each process at one time, at least 1. A further one takes the place of the one that has
    /// been idle longest, or is closed where none is idle.
    pub connections: usize,
    /// Connections of one client at one time, at least 1: an IPv4 address, or the first 64 bits of an IPv6
    /// address. A further one is closed. Peers at Unix sockets may have as many as there may be in all.
    pub per_client: usize,
}

/// Answers queries that came by a connection, where a reply may be as long as a message can be, or be many
/// messages.
pub trait StreamAnswer {
    /// A reply of many messages that is under way.
    type Stream;

    /// Turns a query into its reply in place; says how long that is, or begins a reply of many messages, or says
    /// why there is none. The buffer has room for the longest message. A query that came by a Unix socket has no
    /// client that is known.
    fn answer(
        &mut self,
        buffer: &mut [u8],
        query_bytes: usize,
        client: Option<IpAddr>,
    ) -> Result<Said<Self::Stream>, Cause>;

    /// Writes the next message of a reply, and returns its length; none after the last.
    fn next(&mut self, stream: &mut Self::Stream, buffer: &mut [u8]) -> Option<usize>;

    /// How many replies of one message it made of each rcode.
    fn response_rcodes(&self) -> BTreeMap<String, u64>;
}

/// What became of a query.
#[derive(Debug)]
pub enum Said<S> {
    /// A reply of so many bytes.
    Reply(usize),
    /// A reply of many messages, which are to be asked for.
    Stream(S),
}

/// The thread that serves the connections.
pub(crate) struct Tcp {
    waker: Arc<Waker>,
    thread: JoinHandle<io::Result<TcpReport>>,
}

impl Tcp {
    /// Starts it, on these cores or, where there are none, on any.
    pub(crate) fn start<A: StreamAnswer + Send + 'static>(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        cpus: Vec<u32>,
        answer: A,
        mut going: Going,
    ) -> io::Result<Self>
    where
        A::Stream: Send,
    {
        // The usual limit of open files is lower than that of connections.
        raise_open_files()?;
        reserve_open_files((limits.connections + OTHER_FILES) as u64)?;
        let (mut house, waker) = House::new(listeners, limits, answer)?;
        let thread = std::thread::Builder::new().name("tcp".to_owned()).spawn(move || {
            if !cpus.is_empty() {
                confine_thread(thread_id(), &cpus)?;
            }
            going.ready()?;
            house.serve(&going)?;
            Ok(house.close())
        })?;
        Ok(Self { waker, thread })
    }

    /// Ends it once its `Going` says so, and returns what it counted.
    pub(crate) fn stop(self) -> io::Result<TcpReport> {
        self.waker.wake()?;
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    }
}
