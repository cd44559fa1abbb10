//! Comparisons of hosts that exist only here, whose true difference is known.

mod conditions;
mod facts;
mod rates;
mod simulate;
mod verdicts;
