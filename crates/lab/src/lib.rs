//! The controller: it turns a study into cells, a cell into starts of its subject, and a start into trials.
//!
//! For: what the default study measures, how a budget is spent, starting and stopping subjects, the order of
//! trials, and resuming after a crash. Not for: sending queries (`player`), nor for the meaning of a trial
//! (`verdict`). The lab asks the search for the next trial, and plays it.
//!
//! Invariant: the only crate that starts subjects and players (`hosts` starts the programs that reach other hosts,
//! `tuning` its guard). The next step of a run is a function of its store, so a run that was killed continues without
//! repeating or losing a committed trial. An agent, which works for a run on another host, stores nothing.

pub mod agent;
pub mod at_hosts;
pub mod budget;
pub mod canary;
pub mod certificates;
pub mod comparison;
pub mod conduct;
pub mod configured;
pub mod echo_io;
pub mod error;
pub mod folder;
pub mod gauged;
pub mod layout;
pub mod live_sink;
pub mod materials;
pub mod order;
pub mod packages;
pub mod path;
pub mod patience;
pub mod placement;
pub mod play;
pub mod player;
pub mod player_hosts;
pub mod player_setup;
pub mod request;
mod residence;
pub mod running_server;
pub mod search;
pub mod search_run;
pub mod session;
pub mod signing;
pub mod started;
pub mod study;
pub mod study_file;
pub mod subject;
pub mod trial_request;
pub mod unit;
pub mod warm_up;
pub mod words;

// All crates read hand-written files in the same way.

mod claim;
mod clock;
mod host_settings;
mod open_files;
mod past_kernel;
mod profile;
mod reasons;
mod record;
mod rounds;
mod site;
mod starvation;
mod subject_launcher;

#[cfg(test)]
mod simulated;
