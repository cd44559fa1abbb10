//! Comparisons on simulated hosts, whose true difference is known.

mod conditions;
mod facts;
mod rates;
mod simulate;
mod verdicts;
