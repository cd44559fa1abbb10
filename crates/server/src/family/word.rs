//! What parent and child tell each other.

use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use crate::auth::Told;
use crate::report::Report;
use crate::service::Service;

/// What a child is told: descriptors stand for sockets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) io: String,
    pub(super) service: Service,
    pub(super) process: usize,
    pub(super) processes: usize,
    pub(super) workers: Vec<WorkerDescription>,
    pub(super) listeners: Vec<ListenerDescription>,
}

/// A listening socket, by its kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ListenerDescription {
    Tcp(RawFd),
    Unix(RawFd),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerDescription {
    pub(super) cpu: Option<u32>,
    /// The receiving and the sending socket of each endpoint; equal when it is the same.
    pub(super) endpoints: Vec<(RawFd, RawFd)>,
}

/// A line that a child says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// It can answer; from what, where it has zones.
    Ready(Option<Told>),
    /// It has loaded its zones again.
    Reloaded(Told),
    /// It has ended; this is what it counted, and why it could not go on, if it was not told to end.
    Ended(Report, Option<String>),
    /// It has no zone to answer from.
    NoZones(String),
    /// The signal of this number came before it could answer.
    Stopped(i32),
    /// It cannot begin.
    Failed(String),
}
