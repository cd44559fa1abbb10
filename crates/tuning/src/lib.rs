//! Settings of a host that decide how it receives and sends packets: which are advised, and how they are set and put
//! back.
//!
//! For: the names and values of settings, reading and writing them, a journal of what was changed, undoing it after any
//! end of the program, and advice from the facts of a host. Not for: reading those facts (`host`), measuring whether a
//! setting helps (`lab`, `verdict`), and settings of a subject.
//!
//! Invariant: no setting is written before its old value is on disk.

pub mod advise;
pub mod apply;
pub mod guard;
pub mod held_settings;
pub mod journal;
pub mod link;
pub mod owner;
pub mod plain;
pub mod real;
pub mod receive_core;
pub mod setting;
pub mod system;
pub mod undo;

mod own_sys;
mod settle;

#[cfg(test)]
mod memory;

pub use apply::{Applied, ApplyError, apply};
pub use guard::Guard;
pub use held_settings::Held;
pub use journal::{Journal, JournalError};
pub use owner::Owner;
pub use real::Real;
pub use setting::{Change, Setting};
pub use system::{Identity, SettingError, System};
pub use undo::{Undone, undo};
