//! Servers that count what attackers do to them, and answer no query: connections over TCP, TLS and HTTPS, and datagrams.
//!
//! One thread does it all, so that a server has room for as many connections as the process may have open files.

mod connection;
mod datagrams;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::epoll::Epoll;
use kqps_kernel::tcp;
use kqps_tls::Acceptor;

use crate::thread::Background;
use connection::Connection;
pub use datagrams::{CountingDatagrams, DatagramCounts};

/// Descriptors that one wait returns at most.
const EVENTS: usize = 256;

/// The key of the listening socket. Those of connections follow, by their place.
const LISTENER: u64 = 0;

/// The longest sleep, so that the loop notices a stop, nanoseconds.
const SLEEP_NS: u64 = 10_000_000;

/// The interval at which a caller looks whether connections have ended.
const LOOK: Duration = Duration::from_millis(1);

/// The protocol of the connections.
#[derive(Clone, Debug)]
pub enum Layer {
    /// Bytes.
    Plain,
    /// TLS.
    Tls(Acceptor),
    /// HTTP/2 in TLS. The server has no settings, and answers no request.
    Http(Acceptor),
}

/// Counts of what came on connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that have ended.
    pub ended: u64,
    /// Connections that the client reset.
    pub resets: u64,
    /// Bytes that arrived, with TLS.
    pub bytes: u64,
    /// Bytes within TLS; 0 without it.
    pub plain: u64,
    /// Handshakes of TLS that were completed.
    pub handshakes: u64,
    /// Requests of HTTP/2 that were begun (HEADERS).
    pub streams: u64,
    /// Streams that were reset (`RST_STREAM`).
    pub stream_resets: u64,
    /// Connections whose TLS or HTTP/2 the server did not understand.
    pub broken: u64,
}

/// A server that reads all connections to their end. Dropping it stops it.
pub struct CountingServer {
    address: SocketAddr,
    counts: Arc<Mutex<ConnectionCounts>>,
    /// The error that ended the thread; empty if none did.
    failure: Arc<Mutex<String>>,
    thread: Background<()>,
}

impl CountingServer {
    /// A server at a free port of the loopback address. An error if it cannot listen.
    pub fn start(layer: Layer) -> Result<Self> {
        let listener = tcp::listen(SocketAddr::from(([127, 0, 0, 1], 0)), 1)?.pop().context("one socket")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let epoll = Epoll::new(EVENTS)?;
        epoll.add(&listener, LISTENER)?;
        let counts = Arc::new(Mutex::new(ConnectionCounts::default()));
        let engine = Engine {
            layer,
            listener,
            epoll,
            places: Vec::new(),
            free: Vec::new(),
            counts: ConnectionCounts::default(),
            shared: Arc::clone(&counts),
        };
        let failure = Arc::new(Mutex::new(String::new()));
        let failed = Arc::clone(&failure);
        let named = ("the server that counts", "counting");
        let thread = Background::start(named, None, move |stop| {
            engine.run(stop).inspect_err(|error| *lock(&failed) = format!("{error:#}"))
        })?;
        Ok(Self { address, counts, failure, thread })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counts so far.
    pub fn counts(&self) -> ConnectionCounts {
        *lock(&self.counts)
    }

    /// The counts when so many connections have ended. An error if fewer have after this time.
    pub fn after(&self, ended: u64, within: Duration) -> Result<ConnectionCounts> {
        let until = Instant::now() + within;
        loop {
            let counts = self.counts();
            if counts.ended >= ended {
                return Ok(counts);
            }
            ensure!(self.thread.is_at_work(), "the server that counts has failed: {}", lock(&self.failure));
            ensure!(Instant::now() < until, "fewer than {ended} connections have ended: {counts:?}");
            std::thread::sleep(LOOK);
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the loop.
struct Engine {
    layer: Layer,
    listener: TcpListener,
    epoll: Epoll,
    places: Vec<Option<Connection>>,
    free: Vec<usize>,
    counts: ConnectionCounts,
    shared: Arc<Mutex<ConnectionCounts>>,
}

impl Engine {
    fn run(mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let ready: Vec<u64> = self.epoll.wait_for(Some(SLEEP_NS))?.map(|ready| ready.key).collect();
            for key in ready {
                match key {
                    LISTENER => self.accept()?,
                    key => self.read(key as usize - 1),
                }
            }
            *lock(&self.shared) = self.counts;
        }
        Ok(())
    }

    /// Accepts the waiting connections.
    fn accept(&mut self) -> Result<()> {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("accepting a connection"),
            };
            socket.set_nonblocking(true)?;
            self.counts.accepted += 1;
            let place = self.free.pop().unwrap_or_else(|| {
                self.places.push(None);
                self.places.len() - 1
            });
            self.epoll.add(&socket, place as u64 + 1)?;
            self.places[place] = Some(Connection::new(socket, &self.layer)?);
        }
    }

    fn read(&mut self, place: usize) {
        let Some(connection) = &mut self.places[place] else { return };
        if connection.read(&mut self.counts) {
            self.counts.ended += 1;
            self.places[place] = None;
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use kqps_kernel::tcp::reset_at_close;

    use super::*;

    #[test]
    fn bytes_ends_and_resets_are_counted() {
        let server = CountingServer::start(Layer::Plain).unwrap();
        for resets in [false, true, true] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            if resets {
                reset_at_close(&stream).unwrap();
            } else {
                stream.write_all(b"12345").unwrap();
            }
        }
        let counts = server.after(3, Duration::from_secs(20)).unwrap();
        let wanted = ConnectionCounts { accepted: 3, ended: 3, resets: 2, bytes: 5, ..Default::default() };
        assert_eq!(counts, wanted);
        let error = server.after(4, Duration::ZERO).unwrap_err().to_string();
        assert!(error.starts_with("fewer than 4 connections have ended"), "{error}");
    }
}
