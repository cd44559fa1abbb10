//! What a loop calls: bytes in, bytes out, in the same place.

use crate::counts::Cause;

/// A received query.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Its bytes, which the answer overwrites.
    pub bytes: &'a mut [u8],
    /// The port that it came from, and that the answer would go to.
    pub source_port: u16,
}

/// Answers queries. Every worker thread has its own, and asks it once per query.
pub trait Answer {
    /// Turns a query into its reply in place and returns the reply's length, at most the query's; or says why
    /// there is none.
    fn answer(&mut self, packet: Packet<'_>) -> Result<usize, Cause>;
}
