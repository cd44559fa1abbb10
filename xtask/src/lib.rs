//! The project's chores.
//!
//! For: what continuous integration runs (`test`, `tidy`), the measurements beside other programs (`peers`),
//! the long proofs (`prove`), fuzzing (`fuzz`), what is known against dependencies (`deny`), and the sources of
//! faults in known numbers: the relay between a player and its subject (`relay`) and the back end behind a front
//! (`back_end`). Not for: anything that a user of kqps needs.
//!
//! Invariant: every check is as strict as its description. A chore that cannot be done says why and fails.

pub mod back_end;
pub mod child;
pub mod deny;
pub mod fuzz;
pub mod kqps;
pub mod peers;
pub mod prove;
pub mod relay;
pub mod scratch;
pub mod shell;
pub mod test;
pub mod tidy;
pub mod workspace;
