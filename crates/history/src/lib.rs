//! The history of runs: series of ratios over many runs, and the changes in them.
//!
//! For: taking the figures of a run that can be compared between runs, keeping them, and finding where a series
//! changed. Not for: measuring, nor for how a change looks (`report`).
//!
//! Invariant: the store alone touches a file. All else is a function of stored records, and its randomness comes
//! from a seed that is the hash of the series. The store can be made anew from the folders of the runs.

mod ceiling;
mod chance;
mod changes;
mod creep;
mod divergence;
pub mod entry;
mod extract;
pub mod host;
pub mod judged;
mod judging;
pub mod key;
pub mod kind;
mod level;
mod median;
mod outlier;
pub mod store;
mod two_runs;

pub use changes::{ChangePoint, Finder, Sample, find};
pub use creep::creep;
pub use entry::{Build, Entry, Figure, Reading};
pub use extract::{Programs, entry_of};
pub use host::Host;
pub use judged::{Change, History, LAST, Level, Move, Point, Series, Shape, Strength, Stretch, TooFew};
pub use judging::judge;
pub use key::Key;
pub use kind::Kind;
pub use store::{Added, Records, Store, StoreError};
pub use two_runs::{Beside, BesideRow, NOT_HERE, NOT_KNOWN, NOT_THERE, Side, beside, run_before};
