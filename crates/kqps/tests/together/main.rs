//! Tests that start many programs and mostly wait for them, so that they share the cores. A busy host does
//! not change their results.

mod known_counts;
mod peers;
