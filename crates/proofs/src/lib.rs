//! Proofs: known answers that kqps must reproduce, and its speed beside other programs.
//!
//! For: the long proofs and their small forms, which the tests run (`prove`), and the measurements beside other programs
//! (`peers`). Not for: building kqps, nor for the other chores of the project (`xtask`).
//!
//! Invariant: every proof is as strict as its description. One that cannot be made says why and fails. Each runs kqps as a
//! user would.

pub mod child;
pub mod identity;
mod path;
pub mod peers;
pub mod program;
pub mod prove;
pub mod scratch;

use kqps_programs::shell;
