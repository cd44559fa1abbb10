//! Judgements of facts that were built by hand: warnings, the bottleneck, and the verdict on whole runs and
//! single searches.

mod bottlenecks;
mod ceilings;
mod connections;
mod doubts;
mod facts;
mod figures;
mod held_loads;
mod hosts;
mod limits;
mod profiles;
mod reasons;
mod residence;
mod runs;
mod searches;
mod warnings;
