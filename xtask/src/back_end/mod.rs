//! A back end for a front, which answers every query right until it is told to misbehave, and counts what it does: its
//! counts are the truth that a front's are held against. It speaks DNS by datagrams, and by connections over TCP and
//! Unix sockets (RFC 7766, section 8).
//!
//! Not fast: a thread for whoever connects, and one that listens. What a fault is, is in `fault`; `connections` and
//! `datagrams` are the two ways by which queries come.

mod connections;
mod datagrams;
mod fault;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;
use kqps_lab::subject::port;

pub use fault::Fault;

/// How long a thread of it waits for anything before it looks whether it is to behave in another way.
const LOOK: Duration = Duration::from_millis(2);

/// How it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Connections.
    Tcp,
    /// Connections on this host.
    Unix,
}

/// Where it is reached.
#[derive(Clone, Debug)]
enum Place {
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Queries that it read.
    pub received: u64,
    /// Right replies that it handed to the kernel, at once or late.
    pub right: u64,
    /// Others, whatever was wrong with them.
    pub spoiled: u64,
}

/// A back end at work. Dropped, it stops.
pub struct BackEnd {
    place: Place,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What its threads look at.
#[derive(Default)]
struct Shared {
    /// The fault, by its place among all of them.
    fault: AtomicUsize,
    stop: AtomicBool,
    received: AtomicU64,
    right: AtomicU64,
    spoiled: AtomicU64,
}

impl BackEnd {
    /// Starts one that is well, at a place that is free, and likely still is after it was left for a while; `folder` is
    /// where the file of a Unix socket goes.
    pub fn start(transport: Transport, folder: &Path, name: &str, seed: u64) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let host = Ipv4Addr::LOCALHOST.into();
        let (place, work): (_, Box<dyn FnOnce() + Send>) = match transport {
            Transport::Udp => {
                let socket = port::open(host, datagrams::bind).context("a back end cannot bind")?;
                (Place::Udp(socket.local_addr()?), Box::new(move || datagrams::serve(socket, &theirs, seed)))
            }
            Transport::Tcp => {
                let listener = port::open(host, TcpListener::bind).context("a back end cannot listen")?;
                let address = listener.local_addr()?;
                let door = connections::Tcp { address, listener: Some(listener) };
                (Place::Tcp(address), Box::new(move || connections::serve(door, &theirs, seed)))
            }
            Transport::Unix => {
                let path = folder.join(format!("{name}.sock"));
                let door = connections::Unix::open(path.clone()).context("a back end cannot listen")?;
                (Place::Unix(path), Box::new(move || connections::serve(door, &theirs, seed)))
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { place, shared, thread: Some(thread) })
    }

    /// As `kqps serve front --backend` takes it.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Udp(address) => format!("udp://{address}"),
            Place::Tcp(address) => format!("tcp://{address}"),
            Place::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// From now on it behaves like this.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.store(fault as usize, Ordering::Relaxed);
    }

    /// What it did so far.
    pub fn truth(&self) -> Truth {
        let told = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Truth {
            received: told(&self.shared.received),
            right: told(&self.shared.right),
            spoiled: told(&self.shared.spoiled),
        }
    }
}

impl Drop for BackEnd {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and is no news to whoever drops it.
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
