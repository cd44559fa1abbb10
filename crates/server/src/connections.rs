//! DNS over TCP (RFC 7766), beside UDP on the same addresses, in TLS (RFC 7858) and by HTTP (RFC 8484) at addresses of
//! their own, and with the same framing over Unix sockets. One thread in each process serves all connections; events
//! say which of them can go on. The number of connections is limited in total and per client, and so is the memory of
//! each connection. A connection without progress is closed, whether it sends nothing, sends byte by byte, does not
//! read its replies, or has vanished.
//!
//! Clients of a Unix socket are trusted: the expected client is a process of this host that sends many queries at
//! once for many clients.

mod client_limits;
mod connection;
mod counts;
mod event_loop;
pub mod frame;
pub mod fuzz;
mod http;
mod keeper;
mod listener;
mod output;
mod padding;
mod slots;
mod stream;
mod tls;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use kqps_kernel::affinity::{confine_thread, thread_id};
use kqps_kernel::limits::{raise_open_files, reserve_open_files};
use mio::Waker;
use serde::{Deserialize, Serialize};

pub use counts::{End, TcpReport};
pub use http::HttpStream;
pub use keeper::{Accepting, Keeper, KeptConnection};
pub use output::Output;
pub use slots::{Active, Slots};
pub use stream::Stream;
pub use tls::TlsStream;

pub(crate) use counts::add_counts;

use crate::answer::Answer;
use crate::sockets::ListeningSocket;
use crate::worker::StopFlag;
use event_loop::ConnectionLoop;

/// Files that are open besides connections, with some to spare: listening sockets, pollers, files that are read.
pub const OTHER_FILES: usize = 64;

/// The limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How long a connection may make no progress: no whole query arrives, and the client reads little or nothing of
    /// its replies.
    pub idle: Duration,
    /// The maximum number of connections of the thread that has these limits, at least 1. A further connection displaces the connection
    /// that has been idle longest. If none is idle, the further connection is closed.
    pub connections: usize,
    /// The maximum number of connections of one client to that thread, at least 1. A client is an IPv4 address, or the first 64
    /// bits of an IPv6 address. Another connection of the client is closed. This limit does not apply to Unix
    /// sockets.
    pub per_client: usize,
}

impl Limits {
    /// [`Self::idle`] in nanoseconds, at most [`u64::MAX`].
    pub fn idle_ns(&self) -> u64 {
        u64::try_from(self.idle.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The thread that serves the connections.
pub struct ConnectionThread {
    waker: Arc<Waker>,
    thread: JoinHandle<io::Result<TcpReport>>,
}

impl ConnectionThread {
    /// Starts the thread on these cores; an empty list means any core.
    pub(crate) fn start<A: Answer + Send + 'static>(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        cpus: Vec<u32>,
        answer: A,
        mut stop: StopFlag,
    ) -> io::Result<Self>
    where
        A::Many: Send,
    {
        // The usual limit of open files is lower than that of connections.
        raise_open_files()?;
        reserve_open_files((limits.connections + OTHER_FILES) as u64)?;
        let (mut connections, waker) = ConnectionLoop::new(listeners, limits, answer)?;
        let thread = std::thread::Builder::new().name("tcp".to_owned()).spawn(move || {
            if !cpus.is_empty() {
                confine_thread(thread_id(), &cpus)?;
            }
            stop.report_ready()?;
            connections.serve(&stop)?;
            Ok(connections.close())
        })?;
        Ok(Self { waker, thread })
    }

    /// Ends the thread, after its [`StopFlag`] was set, and returns its counts.
    pub(crate) fn stop(self) -> io::Result<TcpReport> {
        self.waker.wake()?;
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    }
}
