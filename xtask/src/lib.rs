//! The project's chores.
//!
//! For: what continuous integration runs (`test`, `tidy`), the measurements beside other programs (`peers`),
//! the long proofs (`prove`), fuzzing (`fuzz`), and the relay that makes faults whose number is known (`relay`).
//! Not for: anything that a user of kqps needs.
//!
//! Invariant: no check is looser here than it is described; a chore that cannot be done says why and fails.

pub mod child;
pub mod fuzz;
pub mod kqps;
pub mod peers;
pub mod prove;
pub mod relay;
pub mod shell;
pub mod test;
pub mod tidy;
pub mod workspace;
