//! The meaning of the observations: the rate search, intervals, comparisons, warnings, the bottleneck, the
//! grade, the judgement of a whole run, how far a server scales, and how many hosts a load takes.
//!
//! For: turning records into answers, each with its reasons. Not for: making a trial, nor for how an answer
//! looks.
//!
//! Invariant: pure. No file, no clock, no socket; randomness comes only from a seed that the caller passes. The
//! same records give the same answer, years later.

pub mod advice;
pub mod bottleneck;
pub mod breaking;
pub mod caveats;
pub mod change;
pub mod check;
pub mod compare;
mod core_time;
pub mod disturbed;
pub mod estimate;
pub mod evidence;
pub mod expected;
pub mod figure;
pub mod finding;
pub mod grade;
mod groups;
pub mod holm;
pub mod interval;
pub mod judge;
mod lack;
mod mean;
mod narrow;
pub mod percent;
pub mod plan;
pub mod promise;
pub mod rate;
pub mod scaling;
pub mod scenario;
pub mod search;
pub mod silence;
pub mod speed;
pub mod standstill;
pub mod steady;
pub mod student;
mod unsteady;
mod waits;
pub mod warning;
