//! The player: plays a dataset at a target, on a schedule or with a window, and accounts for every query.
//!
//! For: one trial, exactly measured. Not for: choosing the load (`verdict` searches, `lab` obeys), nor for saying what a
//! trial means.
//!
//! Invariant: it never reads a study, never judges and knows no subject but its addresses. Every query that its schedule calls for ends in exactly one bucket
//! of [`kqps_observation::Accounts`], and a trial whose buckets do not add up is an error.
//!
//! The path of a trial through this crate: [`plan`] holds the options. [`crew`] binds the sockets, starts the threads and
//! joins them. Each thread runs one loop of [`io`] over its [`state`]. Its [`supply`] takes queries of its [`part`] at its
//! [`pace`] (a [`schedule`] or a window). Its [`books`] keep them [`inflight`], count their fates in a [`tally`] and the
//! replies that the subject held back in [`cuts`]. [`record`] turns the tallies into a [`kqps_observation::Trial`].

pub mod books;
pub mod clock;
pub mod course;
pub mod crew;
pub mod cuts;
pub mod error;
pub mod inflight;
pub mod io;
pub mod live;
pub mod loss;
pub mod pace;
pub mod part;
pub mod plan;
mod precedence;
pub mod record;
pub mod reply;
pub mod schedule;
mod sockets;
pub mod sources;
pub mod state;
pub mod supply;
pub mod tally;

pub use crew::{Control, play};
pub use error::PlayError;
pub use io::offers;
pub use live::Live;
pub use plan::{Arrivals, Io, LoadPlan, Plan, PlanError, Stop, UdpPlan, Wire};
pub use sources::Sources;
