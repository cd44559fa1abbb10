//! Judgements of facts that were built by hand: warnings, the bottleneck, and the verdict on whole runs and single searches.

mod bottlenecks;
mod doubts;
mod facts;
mod figures;
mod limits;
mod reasons;
mod runs;
mod searches;
mod warnings;
