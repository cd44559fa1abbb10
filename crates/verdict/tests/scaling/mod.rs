//! The Universal Scalability Law: known answers, simulated and published series, and the series of runs. And how many
//! hosts a load takes.

mod answers;
mod plans;
mod published;
mod runs;
mod series;
mod simulated;
