//! What a server is asked to be.

use std::net::SocketAddr;

use crate::io::Model;

/// How workers come by their sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// All workers read from the same one.
    Shared,
    /// Each has its own on the same port, and the kernel spreads flows over them (`SO_REUSEPORT`).
    ReusePort,
    /// Each has its own on a port of its own: worker *k* on the port given plus *k*.
    PortEach,
}

/// Which socket a reply leaves by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The one that the query came in by.
    Same,
    /// One of the worker's own that receives nothing.
    Own,
}

/// A server's settings. Workers are numbered through all processes: `processes × threads` of them.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where to listen; port 0 picks a free one.
    pub listen: Vec<SocketAddr>,
    /// The loop.
    pub io: Model,
    /// Worker processes, at least 1. With 1 the threads run in this process.
    pub processes: u32,
    /// Threads in each process, at least 1.
    pub threads: u32,
    /// How workers come by their sockets.
    pub sockets: Sockets,
    /// Which socket replies leave by.
    pub reply: Reply,
    /// The core of each worker in turn, from the start again when there are more workers; empty pins none.
    pub cpus: Vec<u32>,
    /// Receive and send buffers of every socket, bytes.
    pub buffer_bytes: usize,
    /// Whether a flow is steered to a worker on the core where it comes in. Workers must have cores then.
    pub steer: bool,
}

impl Setup {
    /// How many workers there are.
    pub fn workers(&self) -> u32 {
        self.processes * self.threads
    }

    /// The core that a worker is pinned to.
    pub fn cpu(&self, worker: u32) -> Option<u32> {
        self.cpus.get(worker as usize % self.cpus.len().max(1)).copied()
    }
}

#[cfg(test)]
impl Setup {
    /// One worker that does nothing special.
    pub(crate) fn small(listen: Vec<SocketAddr>, io: Model) -> Self {
        Self {
            listen,
            io,
            processes: 1,
            threads: 1,
            sockets: Sockets::Shared,
            reply: Reply::Same,
            cpus: Vec::new(),
            buffer_bytes: 1 << 20,
            steer: false,
        }
    }
}
