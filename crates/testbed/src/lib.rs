//! The test bed: what one start of a subject needs on this host, and one trial at it.
//!
//! For: definitions of subjects, starting, watching and stopping them, zones and queries of a run, certificates, the
//! path between player and subject, settings of the host, and one trial through `player`. Not for: which trial comes
//! next (`lab`), nor for other hosts (`remote`).
//!
//! Invariant: the only crate that starts subjects and players (`fleet` starts the programs that reach other hosts,
//! `tuning` its guard). No process, interface or setting outlives the value that stands for it, except programs that a
//! user's command of an event leaves running.

pub mod attack;
pub mod box_network;
pub mod cell_event;
pub mod certificates;
pub mod echo_io;
pub mod event;
pub mod folder;
pub mod host_settings;
pub mod internet;
pub mod live_sink;
pub mod materials;
pub mod packages;
pub mod past_kernel;
pub mod path;
pub mod patience;
pub mod play;
pub mod player;
pub mod player_hosts;
pub mod player_setup;
pub mod primary;
pub mod signing;
pub mod site;
pub mod started;
pub mod starvation;
pub mod subject;
pub mod trial_request;
pub mod words;
