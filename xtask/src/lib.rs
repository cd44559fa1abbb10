//! The project's chores.
//!
//! For: what continuous integration runs (`test`, `tidy`), fuzzing (`fuzz`), what is known against dependencies (`deny`),
//! packages of kqps (`package`), and the builds of what `kqps-proofs` runs (`workspace`). Not for: anything that a user of
//! kqps needs.
//!
//! Invariant: every check is as strict as its description. A chore that cannot be done says why and fails.

pub mod deny;
pub mod fuzz;
pub mod package;
pub mod test;
pub mod tidy;
pub mod workspace;
