//! The settings that all kinds of servers share.

use std::net::SocketAddr;

use kqps_tls::Identity;

use crate::model::Model;

/// How sockets are divided among workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// All workers read from the same socket.
    Shared,
    /// Each worker has its own socket on the same port, and the kernel distributes flows over them
    /// (`SO_REUSEPORT`).
    ReusePort,
    /// Each worker has its own socket on its own port: worker *k* on the given port plus *k*.
    PortEach,
}

/// The sockets that accept connections: those of TCP, or those of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listeners {
    /// A socket at each address; one thread of each process serves its connections. Processes cannot share a socket of
    /// QUIC.
    #[default]
    Shared,
    /// A socket at each address for each worker (`SO_REUSEPORT`), with a thread of its own on the worker's core.
    ReusePort,
    /// A socket for each worker on its own port, with a thread of its own: worker *k* on the given port plus *k*.
    PortEach,
}

/// The socket that sends a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The socket on which the query arrived.
    Same,
    /// A socket of the worker's own that receives nothing.
    Own,
}

/// The packets that the sockets of a wildcard address take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Packets to the addresses of this host.
    #[default]
    Host,
    /// Also packets to addresses that no interface has and that are routed to this host. Replies leave from there.
    Routed,
    /// Packets of this host to addresses of its loopback interface.
    Loopback,
}

/// A server's settings. Workers are numbered across all processes: there are `processes × threads` of
/// them.
#[derive(Clone, Debug)]
pub struct ServerSetup {
    /// The addresses for datagrams. Without any, the server takes connections alone.
    pub listen: Vec<Listen>,
    /// The addresses for connections by TCP alone; port 0 picks a free port.
    pub tcp: Vec<SocketAddr>,
    /// Where to accept connections in TLS, also by HTTP, and over QUIC; `None` for nowhere.
    pub tls: Option<TlsSetup>,
    /// The I/O model of every worker.
    pub io: Model,
    /// The device whose frames pass the kernel, by its name; `None` for the device of the addresses.
    pub device: Option<String>,
    /// The number of worker processes, at least 1. With 1 the threads run in this process.
    pub processes: u32,
    /// The number of threads in each process, at least 1.
    pub threads: u32,
    /// How sockets are divided among workers.
    pub sockets: Sockets,
    /// The TCP sockets that accept connections, if the service has any. Beside datagrams they have the ports of these.
    pub listeners: Listeners,
    /// The socket that sends replies.
    pub reply: Reply,
    /// The core of each worker in turn, from the start again if there are more workers. Empty pins no
    /// worker.
    pub cpus: Vec<u32>,
    /// The receive and send buffers of every socket, in bytes.
    pub buffer_bytes: usize,
    /// Whether to steer each flow of datagrams, and each new connection, to a worker on the core that receives it, where
    /// workers have sockets of their own on one port. Requires `cpus`.
    pub steer: bool,
    /// The packets that sockets of a wildcard address take.
    pub reach: Reach,
    /// Whether the kernel says when each datagram arrived, for replies that leave some time after that.
    pub arrivals: bool,
}

/// An address for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address; port 0 picks a free port.
    pub address: SocketAddr,
    /// Whether to accept connections by TCP there as well, if the service does so.
    pub with_tcp: bool,
}

/// Where a server accepts connections in TLS, and over QUIC.
#[derive(Clone, Debug)]
pub struct TlsSetup {
    /// The addresses to listen on; port 0 picks a free port.
    pub listen: Vec<SocketAddr>,
    /// The addresses to listen on for HTTP in TLS; port 0 picks a free port.
    pub https: Vec<SocketAddr>,
    /// The addresses to listen on for QUIC; port 0 picks a free port.
    pub quic: Vec<SocketAddr>,
    /// The sockets that accept connections over QUIC.
    pub quic_listeners: Listeners,
    /// The server's certificate and key.
    pub identity: Identity,
    /// Whether queries may arrive with the first packets of a resumed connection (0-RTT).
    pub early_data: bool,
}

impl ServerSetup {
    /// The number of workers in all processes.
    pub fn workers(&self) -> u32 {
        self.processes * self.threads
    }

    /// The core to which a worker is pinned; `None` if workers are not pinned.
    pub fn cpu(&self, worker: u32) -> Option<u32> {
        self.cpus.get(worker as usize % self.cpus.len().max(1)).copied()
    }

    /// Why these settings contradict each other; `None` if they do not.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let shares = |tls: &TlsSetup| !tls.quic.is_empty() && tls.quic_listeners == Listeners::Shared;
        if self.processes > 1 && self.tls.as_ref().is_some_and(shares) {
            return Some(
                "--listeners shared: all packets of a connection over QUIC must reach one process: use --listeners \
                 reuseport, or --threads",
            );
        }
        if self.steer && self.sockets != Sockets::ReusePort && !self.listen.is_empty() {
            return Some("--steer needs --sockets reuseport");
        }
        let needs_cpus = self.steer && self.cpus.is_empty();
        needs_cpus.then_some(
            "--steer cpu sends a flow to a worker on the core that receives it: give the workers cores with --cpus",
        )
    }
}

#[cfg(test)]
impl ServerSetup {
    /// A setup of one worker with default settings.
    pub(crate) fn small(listen: Vec<SocketAddr>, io: Model) -> Self {
        let listen = listen.into_iter().map(|address| Listen { address, with_tcp: true }).collect();
        Self {
            listen,
            tcp: Vec::new(),
            tls: None,
            io,
            device: None,
            processes: 1,
            threads: 1,
            sockets: Sockets::Shared,
            listeners: Listeners::Shared,
            reply: Reply::Same,
            cpus: Vec::new(),
            buffer_bytes: 1 << 20,
            steer: false,
            reach: Reach::Host,
            arrivals: false,
        }
    }
}
