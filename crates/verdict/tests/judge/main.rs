//! Judgements of facts that were built by hand: warnings, the bottleneck, and the verdict on whole runs.

mod bottlenecks;
mod facts;
mod figures;
mod reasons;
mod runs;
mod warnings;
