//! Other programs that kqps and its chores run.
//!
//! For: programs that run to their end (`shell`), environments of Python (`python`), and the installation of Debian
//! packages that must start no service (`services`). Not for: name servers under test, nor programs that run beside the caller.
//!
//! Invariant: a program that fails is an error with its command line, and a policy file of the host stays as it was.

pub mod python;
pub mod services;
pub mod shell;
