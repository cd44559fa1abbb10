//! The rate search against worked examples, simulated subjects and an independent implementation.

mod early_end;
mod examples;
mod package;
mod properties;
mod refuted;
mod simulate;
mod stalls;
mod subjects;
