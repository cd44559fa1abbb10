//! The errors of a server.

use std::io;

use kqps_kernel::process::Signal;

use crate::sockets::BindError;

/// Why a server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Two settings contradict each other; the text says which.
    #[error("{0}")]
    Setup(String),
    /// This host does not support the I/O model.
    #[error("--io {model} does not work on this host: {reason}")]
    Unavailable {
        /// The name of the I/O model.
        model: &'static str,
        /// The capability that the host lacks.
        reason: String,
    },
    /// The device did not become one whose frames pass the kernel.
    #[error("--io xdp on {device}: {reason}")]
    Device {
        /// The name of the device.
        device: String,
        /// The step that the kernel refused, and why.
        reason: String,
    },
    /// The server could not listen on an address or at the path of a Unix socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No zone could be loaded; the text says why.
    #[error("{0}")]
    Zones(String),
    /// A signal arrived before the server could answer.
    #[error("stopped by a signal before it could answer")]
    Stopped {
        /// The number of the signal (signal(7)).
        signal: i32,
    },
    /// A worker could not start or go on.
    #[error("worker {worker} ({model}): {error}")]
    Worker {
        /// The number of the worker within its process, from 0.
        worker: usize,
        /// The name of its I/O model.
        model: &'static str,
        /// The error that stopped the worker.
        error: io::Error,
    },
    /// The thread that serves connections could not start or go on.
    #[error("serving connections: {0}")]
    Connections(io::Error),
    /// A worker process ended by itself, or did not end when asked.
    #[error("worker process {process} {how}")]
    Process {
        /// The number of the process, from 0.
        process: usize,
        /// The fault of the process, as the end of a sentence.
        how: String,
    },
    /// Another error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ServeError {
    /// The error for a signal that arrived before the server could answer.
    pub(crate) fn stopped(signal: Signal) -> Self {
        Self::Stopped { signal: signal.number() }
    }
}
