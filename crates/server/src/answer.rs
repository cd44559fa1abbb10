//! What a loop calls: bytes in, bytes out, in the same place.

use std::collections::BTreeMap;

use kqps_kernel::Address;

use crate::counts::Cause;

/// A received query.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Begins with the query; the reply is written over it, and may take all of the buffer. What lies behind
    /// the query is left over from others.
    pub buffer: &'a mut [u8],
    /// How long the query is, bytes.
    pub query_bytes: usize,
    /// Where it came from, and where the reply goes.
    pub source: &'a Address,
}

/// Answers queries. Every worker thread has its own, and asks it once per query.
pub trait Answer {
    /// Whether a reply may be longer than its query. The loops give it room behind the query then, which
    /// costs one of them a copy.
    const GROWS: bool;

    /// Is told the queries of a batch before it is asked for the reply to each, and may fetch what it will need.
    #[inline]
    fn foresee<'q>(&mut self, queries: impl ExactSizeIterator<Item = &'q [u8]>) {
        let _ = queries;
    }

    /// Turns a query into its reply in place and returns the reply's length; or says why there is none.
    fn answer(&mut self, packet: Packet<'_>) -> Result<usize, Cause>;

    /// How many replies of each rcode it made, for those that look.
    fn response_rcodes(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}
