//! Subjects and trials on other hosts: the agent that works on each of them, and the controller that drives the agents.
//!
//! For: starting a subject on one host, playing its trials from others at one moment, and reaching a lost host again.
//! Not for: who the hosts are and how they are reached (`fleet`), nor for what is measured (`lab`).
//!
//! Invariant: an agent stores nothing, and everything that it started ends with it. A trial is whole or void: no player
//! gets more load because another was lost.

pub mod agent;
pub mod controller;
mod error;

pub use error::HostsError;
