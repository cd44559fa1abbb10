//! Loads that change with time: a ramp is due, and leaves, by its integral; resperf finds the capacity of a server that
//! stops at a known rate; and a check says the right word of servers whose capacity is known, beside other work.

mod check;
mod ramp;
mod resperf;

use anyhow::Result;

use super::{Bench, Part};

pub(super) use ramp::Bins;

const PARTS: [Part; 3] = [("ramp", ramp::prove), ("resperf", resperf::prove), ("check", check::prove)];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}
