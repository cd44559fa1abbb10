//! The controller: it turns a study into cells, a cell into starts of its subject, and a start into trials.
//!
//! For: what the default study measures, how a budget is spent, the order of trials, and resuming after a crash. Not
//! for: starting a subject and playing a trial (`testbed`, and `remote` on other hosts), nor for the meaning of a trial
//! (`verdict`). The lab asks the search for the next trial, and requests it.
//!
//! Invariant: the next step of a run is a function of its store, so a run that was killed continues without repeating
//! or losing a committed trial.

pub mod budget;
pub mod canary;
pub mod comparison;
pub mod conduct;
pub mod configured;
pub mod error;
pub mod gauged;
pub mod layout;
pub mod order;
pub mod placement;
pub mod request;
mod residence;
pub mod running_server;
pub mod search;
pub mod search_run;
pub mod session;
pub mod study;
pub mod study_file;
pub mod unit;
pub mod warm_up;

mod claim;
mod clock;
mod open_files;
mod profile;
mod reasons;
mod record;
mod rounds;
mod subject_launcher;

#[cfg(test)]
mod simulated;
