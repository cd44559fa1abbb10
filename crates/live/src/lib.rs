//! The live view of a running command: one source of figures, and three consumers that only read it.
//!
//! ```text
//!  counts of the player ──┐                 ┌──► terminal (`tui`)
//!  where the search is ───┼──► Hub ─────────┼──► Prometheus (`metrics`)
//!  the run's page ────────┘                 └──► page (`site`)
//! ```
//!
//! For: the snapshot of a command that plays trials, the history of its intervals, and how each consumer shows them. Not
//! for: measuring, which a player does, nor for what is printed when the command ends.
//!
//! Invariant: data flows one way. A consumer reads the [`Hub`] and writes nothing to it; that the user wants to end is
//! passed to the command, which asks its player. A thread that shows something runs when nothing else wants its core.

pub mod figures;
pub mod history;
pub mod hub;
pub mod metrics;
pub mod of_trial;
pub mod site;
pub mod standing;
pub mod tui;

pub use history::{History, Interval};
pub use hub::{Hub, Snapshot};
pub use site::LiveSite;
pub use standing::{Load, Place, STARTING, Standing};
pub use tui::Tui;
