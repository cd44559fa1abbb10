//! Errors of a trial that could not be played. Each message includes the system's own, so no error has a
//! `source` beside it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use kqps_observation::IdentityViolated;
use kqps_tls::TlsError;

use crate::plan::{Plan, PlanError};

/// The reason why a trial could not be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The plan does not fit the queries.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A socket could not be bound.
    #[error("cannot bind a socket at {address}: {error}")]
    Bind {
        /// The address to which the socket should be bound.
        address: SocketAddr,
        /// The kernel's error.
        error: io::Error,
    },
    /// No port of a source address was free for a socket.
    #[error(
        "cannot bind {sockets}: no port is free at {address}, and each address has {ports} ports \
         (net.ipv4.ip_local_port_range); {advice}"
    )]
    NoPort {
        /// How many sockets the plan needs, in words.
        sockets: String,
        /// The source address without a free port.
        address: IpAddr,
        /// The number of ports that each address has.
        ports: usize,
        /// Advice for the user.
        advice: String,
    },
    /// Another program has the port that the plan names.
    #[error(
        "cannot bind a socket at {address}: another program has this port; send from other ports (-x), or leave -x out"
    )]
    PortTaken {
        /// The address with the port.
        address: SocketAddr,
    },
    /// The buffers of connections could not be set.
    #[error("cannot set the buffers of a connection to {bytes} bytes: {error}")]
    Buffers {
        /// The size of each.
        bytes: usize,
        /// The kernel's error.
        error: io::Error,
    },
    /// The process may not open enough files for its sockets.
    #[error(
        "cannot open {wanted} sockets: this process may have {limit} open files (ulimit -Hn); use fewer sockets (-c) \
         or threads (-T)"
    )]
    TooManySockets {
        /// The number of sockets that the plan needs.
        wanted: usize,
        /// `RLIMIT_NOFILE`, after it was raised as far as possible.
        limit: u64,
    },
    /// The process may not open enough files for the clients of a capture.
    #[error(
        "cannot open {wanted} sockets for the clients of the capture: this process may have {limit} open files \
         (ulimit -Hn); send from more addresses (-a), play fewer slices (--pile) or a shorter window (--window)"
    )]
    TooManyClients {
        /// The number of sockets that the clients need.
        wanted: usize,
        /// `RLIMIT_NOFILE`, after it was raised as far as possible.
        limit: u64,
    },
    /// A thread could not be pinned.
    #[error("cannot pin a thread to core {cpu}: {error}")]
    Pin {
        /// The core to which the thread should be pinned.
        cpu: u32,
        /// The kernel's error.
        error: io::Error,
    },
    /// The I/O model of the plan does not work on this host.
    #[error("--io {io} does not work on this host: {reason}")]
    Io {
        /// The I/O model's name in flags.
        io: &'static str,
        /// The reason, in words.
        reason: String,
    },
    /// A loop ended on an error that does not belong to a single packet.
    #[error("the player's {io} loop failed: {error}")]
    Loop {
        /// The loop's name in flags.
        io: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
    /// Frames cannot pass the kernel's network stack as the plan asks.
    #[error("--io xdp: {0}")]
    Past(String),
    /// Frames that passed the kernel are missing from the player's counts.
    #[error(
        "{matched} frames came past the kernel, but {read} were read and {dropped} dropped: this is an error of kqps"
    )]
    Frames {
        /// Frames that the program on the device selected.
        matched: u64,
        /// Frames that the player read.
        read: u64,
        /// Frames that its sockets dropped.
        dropped: u64,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}; use fewer threads (-T)")]
    Thread(io::Error),
    /// The accounts do not add up.
    #[error(transparent)]
    Identity(#[from] IdentityViolated),
}

impl PlayError {
    /// The error of a plan that needs more sockets than the process may open. The clients of a capture decide how many
    /// a replay needs.
    pub(crate) fn too_many_sockets(plan: &Plan, wanted: usize, limit: u64) -> Self {
        match plan.replay {
            Some(_) => Self::TooManyClients { wanted, limit },
            None => Self::TooManySockets { wanted, limit },
        }
    }
}
