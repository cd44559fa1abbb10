//! A back end for a front. It answers every query correctly until a test sets a fault, and counts what it
//! does. Proofs compare a front's counts with these. It speaks DNS by datagrams, and by connections over TCP
//! and Unix sockets (RFC 7766, section 8).
//!
//! It is not fast: one thread listens, and each connection has another. `fault` has the faults; `connections`
//! and `datagrams` are the two kinds of transport.

mod connections;
mod datagrams;
mod fault;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use kqps_kernel::port;
use socket2::SockAddr;

use connections::Door;
pub use fault::Fault;

/// How long a thread waits for input before it checks for a new fault.
const LOOK: Duration = Duration::from_millis(2);

/// The transport of a back end's queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// A Unix stream socket.
    Unix,
}

#[derive(Clone, Debug)]
enum Endpoint {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Counts of a back end so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Queries that it read.
    pub received: u64,
    /// Correct replies that it handed to the kernel, on time or late.
    pub right: u64,
    /// Wrong replies of any kind that it handed to the kernel.
    pub spoiled: u64,
}

/// A running back end. Dropping it stops it.
pub struct BackEnd {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The state that its threads share.
#[derive(Default)]
struct Shared {
    /// The index of the fault among all faults.
    fault: AtomicUsize,
    stop: AtomicBool,
    received: AtomicU64,
    right: AtomicU64,
    spoiled: AtomicU64,
}

impl BackEnd {
    /// Starts a back end without faults on a free port. The port likely stays free while the back end does
    /// not listen. `folder` is where the file of a Unix socket goes. An error if it cannot bind or listen.
    pub fn start(transport: Transport, folder: &Path, name: &str, seed: u64) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let host = Ipv4Addr::LOCALHOST.into();
        let (endpoint, work): (_, Box<dyn FnOnce() + Send>) = match transport {
            Transport::Udp => {
                let socket = port::open(host, datagrams::bind).context("a back end cannot bind")?;
                let endpoint = Endpoint::Udp(socket.local_addr()?);
                (endpoint, Box::new(move || datagrams::serve(socket, &theirs, seed)))
            }
            Transport::Tcp => {
                let opened = port::open(host, |address| Ok((Door::open(address)?, address)));
                let (door, address) = opened.context("a back end cannot listen")?;
                (Endpoint::Tcp(address), Box::new(move || connections::serve(door, &theirs, seed)))
            }
            Transport::Unix => {
                let path = folder.join(format!("{name}.sock"));
                let door = Door::open(SockAddr::unix(&path)?).context("a back end cannot listen")?;
                (Endpoint::Unix(path), Box::new(move || connections::serve(door, &theirs, seed)))
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { endpoint, shared, thread: Some(thread) })
    }

    /// Its URL for `kqps serve front --backend`.
    pub fn url(&self) -> String {
        match &self.endpoint {
            Endpoint::Udp(address) => format!("udp://{address}"),
            Endpoint::Tcp(address) => format!("tcp://{address}"),
            Endpoint::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Sets the fault from now on.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.store(fault as usize, Ordering::Relaxed);
    }

    /// Its counts so far.
    pub fn truth(&self) -> Truth {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Truth {
            received: read(&self.shared.received),
            right: read(&self.shared.right),
            spoiled: read(&self.shared.spoiled),
        }
    }
}

impl Drop for BackEnd {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic is printed already, and must not spread to the thread that drops this.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn fault(&self) -> Fault {
        Fault::value_variants()[self.fault.load(Ordering::Relaxed)]
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, right: u64, spoiled: u64) {
        self.right.fetch_add(right, Ordering::Relaxed);
        self.spoiled.fetch_add(spoiled, Ordering::Relaxed);
    }
}
