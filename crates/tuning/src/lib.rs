//! The settings of a host that decide how fast a name server answers on it.
//!
//! For: advice on queues, interrupts, cores and the settings around them. Not for: reading a host (`host`), nor for
//! measuring whether a piece of advice helps (`lab`).
//!
//! Invariant: no setting is written before its old value is on disk.

pub mod advise;
