//! This machine: its parts, what it did during a trial, and where packets were dropped.
//!
//! For: the topology and how player and subject share it, how the machine is set up for packets, counters of `/proc`
//! read before and after a trial, how fast cores are and when they stand still, the drop ledger, profiles, how long
//! queries stay in this host, what a container takes away, and the fingerprint of a run. Not for: judging any of it
//! (`verdict`), nor for starting and pinning servers and players (`lab`, `player`).
//!
//! Invariant: it reads the machine and changes nothing. It may load a core for some milliseconds to measure it, or wake
//! up on it from time to time. It reports what it cannot read, with the reason. Nothing here panics because a file is
//! missing or a process has gone.

pub mod container;
pub mod fingerprint;
pub mod gauge;
pub mod ledger;
pub mod profile;
pub mod residence;
pub mod setup;
pub mod topology;
pub mod usage;
pub mod watch;
pub mod witness;

mod counters;
mod cpu_time;
mod drop_reasons;
mod files;
#[cfg(test)]
mod fixture;
mod frequency;
mod interrupts;
mod listener;
mod network;
mod process;
mod split;
mod subject;
mod subject_cores;
mod sysctls;
mod unreadable;

pub use files::Root;
pub use fingerprint::memory_available;
pub use gauge::gauge;
pub use ledger::ledger;
pub use listener::listeners;
pub use process::{
    allowed_cpus, families, group, lives, parent_of_same_program, processes, program, ready_threads, started,
    threads_of,
};
pub use profile::Profile;
pub use residence::{ResidenceWatch, Stamped};
pub use split::{Split, alone, split};
pub use subject::{cpu_s_so_far, rss_bytes_now};
pub use topology::Topology;
pub use watch::{
    HostWatch, PlayerPlace, PlayerWatched, ServerSeen, SubjectSeen, SubjectWatch, SubjectWatched, TrialWatch,
    Watch, WatchResult,
};
pub use witness::Witness;
