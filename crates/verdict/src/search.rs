//! The rate search: MLRsearch (RFC 9971) as a pure function of the trials made so far.
//!
//! The caller calls [`next_trial`] after every trial. It returns the trial to make next, or the bounds once
//! they are found. It keeps no state between calls, so a stored run can be searched again, trial by trial.

mod at_load;
mod bounds;
mod buffer;
mod class;
mod futile;
mod goal;
mod hurry;
mod level;
mod next;
mod probe;

pub use bounds::Bounds;
pub use class::{Class, classify, conditional_throughput};
pub use futile::Futile;
pub use goal::{BadGoal, Goal, Preset};
pub use hurry::LATEST;
pub use next::{Next, Start, bounds_found, most_trials, next_trial};
pub use probe::Probe;
