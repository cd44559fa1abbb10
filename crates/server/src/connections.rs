//! DNS over TCP (RFC 7766), beside UDP on the same addresses, in TLS (RFC 7858) and by HTTP (RFC 8484) at addresses of
//! their own, and with the same framing over Unix sockets; and over QUIC (RFC 9250) at addresses of its own. One thread
//! in each process serves all connections but those over QUIC, which one for each worker serves; events say which of
//! them can go on. The number of connections is limited in total and per client, and so is the memory of each
//! connection. A connection without progress is closed, whether it sends nothing, sends byte by byte, does not read its
//! replies, or has vanished.
//!
//! Clients of a Unix socket are trusted: the expected client is a process of this host that sends many queries at
//! once for many clients.

mod client_limits;
mod connection;
mod counts;
mod event_loop;
pub mod frame;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod http;
mod keeper;
mod later;
mod listener;
mod output;
mod padding;
mod quic;
mod slots;
mod stream;
mod tls;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use kqps_kernel::UdpSocket;
use kqps_kernel::affinity::{confine_thread, thread_id};
use kqps_kernel::limits::{raise_open_files, reserve_open_files};
use mio::Waker;
use serde::{Deserialize, Serialize};

pub use counts::{End, TcpReport};
pub use http::HttpStream;
pub use keeper::{Accepting, Keeper, KeptConnection};
pub use output::Output;
pub use quic::QuicReport;
pub use slots::{Active, Slots};
pub use stream::Stream;
pub use tls::TlsStream;

pub(crate) use counts::add_counts;

use crate::answer::Answer;
use crate::sockets::ListeningSocket;
use crate::worker::StopFlag;
use event_loop::ConnectionLoop;
use quic::QuicLoop;

/// Files that are open besides connections, with some to spare: listening sockets, pollers, files that are read.
pub const OTHER_FILES: usize = 64;

/// The limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How long a connection may make no progress: no whole query arrives, and the client reads little or nothing of
    /// its replies.
    pub idle: Duration,
    /// The maximum number of connections of the thread that has these limits, at least 1. A further connection displaces
    /// the connection that has been idle longest. If none is idle, the further connection is closed.
    pub connections: usize,
    /// The maximum number of connections of one client to that thread, at least 1. A client is an IPv4 address, or the
    /// first 64 bits of an IPv6 address. Another connection of the client is closed. This limit does not apply to Unix
    /// sockets.
    pub per_client: usize,
}

impl Limits {
    /// [`Self::idle`] in nanoseconds, at most [`u64::MAX`].
    pub fn idle_ns(&self) -> u64 {
        u64::try_from(self.idle.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Reserves descriptors for all connections. The usual limit of open files is lower than that of connections.
    pub(crate) fn reserve_files(&self) -> io::Result<()> {
        raise_open_files()?;
        reserve_open_files((self.connections + OTHER_FILES) as u64)
    }
}

/// A thread that serves connections: of QUIC, or all others.
pub struct ConnectionThread {
    waking: Waking,
    thread: JoinHandle<io::Result<ConnectionReport>>,
}

/// Means to make a thread look at its [`StopFlag`].
enum Waking {
    Waker(Arc<Waker>),
    Sockets(Vec<Arc<UdpSocket>>),
}

/// The counts of a thread that serves connections.
pub(crate) enum ConnectionReport {
    Tcp(TcpReport),
    Quic(QuicReport),
}

impl ConnectionThread {
    /// Starts the thread on these cores; an empty list means any core. Either all sockets are of QUIC or none is.
    pub fn start<A: Answer + Send + 'static>(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        cpus: Vec<u32>,
        answer: A,
        mut stop: StopFlag,
    ) -> io::Result<Self>
    where
        A::Many: Send,
    {
        let of_quic: Vec<_> = listeners.iter().filter_map(ListeningSocket::quic).collect();
        if !of_quic.is_empty() {
            let sockets = of_quic.iter().map(|quic| Arc::clone(&quic.socket)).collect();
            let thread = std::thread::Builder::new().name("quic".to_owned()).spawn(move || {
                confine(&cpus)?;
                let mut connections = QuicLoop::new(of_quic, limits, answer);
                stop.report_ready()?;
                connections.serve(&stop)?;
                Ok(ConnectionReport::Quic(connections.close()?))
            })?;
            return Ok(Self { waking: Waking::Sockets(sockets), thread });
        }
        limits.reserve_files()?;
        let (mut connections, waker) = ConnectionLoop::new(listeners, limits, answer)?;
        Self::with_loop(waker, cpus, stop, move |stop| {
            connections.serve(stop)?;
            Ok(connections.close())
        })
    }

    /// Starts the thread of a loop on these cores; an empty list means any core. The waker makes the loop look at the flag, and
    /// the loop ends when the flag is set.
    pub(crate) fn with_loop(
        waker: Arc<Waker>,
        cpus: Vec<u32>,
        mut stop: StopFlag,
        serve: impl FnOnce(&StopFlag) -> io::Result<TcpReport> + Send + 'static,
    ) -> io::Result<Self> {
        let thread = std::thread::Builder::new().name("tcp".to_owned()).spawn(move || {
            confine(&cpus)?;
            stop.report_ready()?;
            serve(&stop).map(ConnectionReport::Tcp)
        })?;
        Ok(Self { waking: Waking::Waker(waker), thread })
    }

    /// Ends the thread, after its [`StopFlag`] was set, and returns its counts.
    pub(crate) fn stop(self) -> io::Result<ConnectionReport> {
        // A waker that is dropped takes its event with it, so it stays until the thread has ended.
        match &self.waking {
            Waking::Waker(waker) => waker.wake()?,
            Waking::Sockets(sockets) => sockets.iter().for_each(|socket| socket.wake_readers()),
        }
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    }
}

/// Keeps this thread on these cores; an empty list means any core.
fn confine(cpus: &[u32]) -> io::Result<()> {
    if cpus.is_empty() { Ok(()) } else { confine_thread(thread_id(), cpus) }
}
