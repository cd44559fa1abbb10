//! Errors of a trial that could not be played. Each message includes the system's own, so no error has a
//! `source` beside it.

use std::io;
use std::net::SocketAddr;

use kqps_observation::IdentityViolated;

/// The reason why a trial could not be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// A socket could not be bound.
    #[error("cannot bind a socket at {address}: {error}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },
    /// This process may not open so many sockets.
    #[error(
        "cannot open {wanted} sockets: this process may have {limit} open files (ulimit -Hn); use fewer sockets (-c) \
         or threads (-T)"
    )]
    TooManySockets {
        /// How many were wanted.
        wanted: usize,
        /// `RLIMIT_NOFILE`, which was raised as far as it goes.
        limit: u64,
    },
    /// A thread could not be pinned.
    #[error("cannot pin a thread to core {cpu}: {error}")]
    Pin {
        /// Where.
        cpu: u32,
        /// What the kernel said.
        error: io::Error,
    },
    /// The I/O that was asked for does not work on this host.
    #[error("--io {io} does not work on this host: {reason}")]
    Io {
        /// What was asked for.
        io: &'static str,
        /// Why not.
        reason: String,
    },
    /// A loop ended on an error that is no single packet's.
    #[error("the player's {io} loop failed: {error}")]
    Loop {
        /// Which.
        io: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}; use fewer threads (-T)")]
    Thread(io::Error),
    /// The accounts do not add up.
    #[error(transparent)]
    Identity(#[from] IdentityViolated),
}
