//! The rate search against worked examples, simulated subjects and an independent implementation.

mod examples;
mod package;
mod properties;
mod simulate;
mod stalls;
mod subjects;
