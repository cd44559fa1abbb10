//! The controller: a study becomes cells, a cell becomes starts of its subject, a start becomes trials.
//!
//! For: what the default study measures, how a budget is spent, starting and stopping subjects, the order of
//! trials, and going on after a death. Not for: sending queries (`player`), nor for what a trial means
//! (`verdict`): the lab asks the search what it wants next, and obeys.
//!
//! Invariant: the only crate that starts other programs. What a run wants next is a function of what its store
//! holds, so that a run that was killed goes on without repeating or losing a committed trial.

pub mod budget;
pub mod canary;
pub mod comparison;
pub mod conduct;
pub mod configured;
pub mod folder;
pub mod gauged;
pub mod kept;
pub mod layout;
pub mod load;
pub mod materials;
pub mod order;
pub mod packages;
pub mod path;
pub mod placement;
pub mod player;
pub mod running;
pub mod search;
pub mod session;
pub mod setup;
pub mod signing;
pub mod study;
pub mod study_file;
pub mod subject;
pub mod unit;
pub mod warm_up;
pub mod words;

// What people write by hand is read in one way in all crates.
pub use kqps_dataset::toml_file;

mod reasons;
mod record;
mod rig;

#[cfg(test)]
mod simulated;
