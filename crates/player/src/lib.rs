//! The player: plays a dataset at a target, on a schedule or with a window, and accounts for every query.
//!
//! For: one trial, exactly measured. Not for: choosing the load (`verdict` searches, `lab` obeys), nor for saying what
//! a trial means.
//!
//! Invariant: it never reads a study, never judges and knows no subject but its addresses. Every query that its
//! schedule calls for ends in exactly one bucket of [`kqps_observation::Accounts`], and a trial whose buckets do not
//! add up is an error.
//!
//! The path of a trial through this crate: [`plan`] holds the options. [`trial`] binds the sockets, starts the threads
//! and joins them. Each thread runs one loop of a [`wire`] over its [`state`]. Its [`supply`] takes queries on its
//! [`walk`] through the dataset at its [`pace`] (a [`schedule`] or a window), or those of its clients in a [`replay`]
//! of a capture. Its [`books`] keep them [`inflight`], count their fates in a [`tally`], the replies that the subject
//! held back in [`held_back`] and, of a capture, the [`differences`]. If asked for, each query gets random labels or a
//! signature as it is sent, and its fate passes to the caller in [`reports`]. [`record`] turns the tallies into a
//! [`kqps_observation::Trial`]. The threads of attackers have no queries in books, but a loop of their own
//! (`hostile`).

pub mod books;
mod class;
pub mod clock;
pub mod connections;
pub mod differences;
pub mod error;
mod files;
pub mod held_back;
mod hostile;
pub mod inflight;
pub mod live;
pub mod loss;
pub mod outstanding;
pub mod pace;
mod per_query;
pub mod plan;
pub mod record;
pub mod replay;
pub mod replies;
pub mod reply;
pub mod reports;
pub mod schedule;
mod share;
pub mod silences;
pub mod sources;
mod start;
pub mod state;
pub mod supply;
pub mod tally;
mod team;
mod thread;
pub mod timeline;
pub mod trial;
mod wait;
pub mod walk;
pub mod wire;

pub use class::Class;
pub use error::PlayError;
pub use live::Live;
pub use plan::{
    Arrivals, Close, HttpPlan, Io, Lane, LoadPlan, MomentsPlan, Part, PerQueryPlan, Plan, PlanError, Prefix,
    QuicPlan, ReplayPlan, Stop, TcpPlan, TlsPlan, TsigKey, UdpPlan, Wire,
};
pub use sources::Sources;
pub use trial::{Control, Together, play, play_classes, play_in_memory};
pub use wire::udp::offers;
