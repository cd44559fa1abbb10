//! Proofs: known answers that kqps must reproduce, and its speed beside other programs.
//!
//! For: the long proofs and their small forms, which the tests run (`prove`), and the measurements beside other programs
//! (`peers`). Not for: the other chores of the project (`xtask`). The program (`main.rs`) builds what it runs by
//! way of `xtask`, and the library builds nothing.
//!
//! Invariant: every proof is as strict as its description. One that cannot be made says why and fails. Each runs kqps as a
//! user would.

pub mod child;
pub mod identity;
mod numbered;
mod path;
pub mod peers;
pub mod program;
pub mod prove;
pub mod scratch;
mod wait;
