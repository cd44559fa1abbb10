//! The messages between a parent and its worker processes.

use std::os::fd::RawFd;

use kqps_tls::Identity;
use serde::{Deserialize, Serialize};

use super::listeners::ListenerDescription;
use crate::report::Report;
use crate::service::Description;
use crate::services::auth::ZonesLoaded;

/// The task of a child. File descriptors stand for sockets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TaskDescription {
    pub(super) io: String,
    pub(super) service: Description,
    pub(super) process: usize,
    pub(super) processes: usize,
    pub(super) workers: Vec<WorkerDescription>,
    pub(super) listeners: Vec<ListenerDescription>,
    /// Settings that connections in TLS, or over QUIC, need.
    pub(super) tls: Option<TlsDescription>,
}

/// Settings that connections in TLS, or over QUIC, need.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TlsDescription {
    /// The certificate and key.
    pub(super) identity: Identity,
    /// Whether early data is taken.
    pub(super) early_data: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerDescription {
    pub(super) cpu: Option<u32>,
    /// The receiving and the sending socket of each endpoint, which may be the same.
    pub(super) endpoints: Vec<(RawFd, RawFd)>,
    pub(super) listeners: Vec<ListenerDescription>,
}

/// A message from a child, one per line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// The child can answer. Holds what it loaded, if it serves zones.
    Ready(Option<ZonesLoaded>),
    /// The child has reloaded its zones.
    Reloaded(ZonesLoaded),
    /// The child has ended. Holds its counts, and why it could not go on unless it was asked to end.
    Ended(Box<Report>, Option<String>),
    /// The child could not load its zones.
    NoZones(String),
    /// A signal with this number arrived before the child could answer.
    Stopped(i32),
    /// The child could not start.
    Failed(String),
}
