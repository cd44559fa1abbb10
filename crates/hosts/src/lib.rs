//! Several hosts: one trial of what many players measured.

pub mod merge;
