//! Judgement of facts whose answer is known: made by hand, simulated, or published.

mod compare;
mod estimate;
mod finding;
mod judge;
mod scaling;
mod search;
