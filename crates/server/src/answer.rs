//! The interface between a loop and a service: the service turns a query into its reply in the same buffer.

use std::collections::BTreeMap;

use kqps_kernel::Address;

use crate::counts::Cause;

/// The longest query that is answered, in bytes: the largest size that EDNS clients usually offer (RFC 6891, section
/// 6.2.5). Every I/O model has space for exactly this size.
pub const QUERY_BYTES: usize = 4096;

/// A received query.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The buffer, which begins with the query. The reply is written over it and may use the whole buffer. The
    /// bytes behind the query are left over from earlier packets.
    pub buffer: &'a mut [u8],
    /// The length of the query in bytes.
    pub query_bytes: usize,
    /// The sender of the query, to which the reply goes.
    pub source: &'a Address,
}

/// Answers queries. Every worker thread has its own value, and calls it once per query.
pub trait Answer {
    /// Whether a reply may be longer than its query. If so, the loops provide space behind the query, which
    /// costs one of them a copy.
    const GROWS: bool;

    /// Receives the queries of a batch before the calls of [`Self::answer`], and may fetch what they will need.
    #[inline]
    fn foresee<'q>(&mut self, queries: impl ExactSizeIterator<Item = &'q [u8]>) {
        let _ = queries;
    }

    /// Turns a query into its reply in place. Returns the length of the reply in bytes, or why there is none.
    fn answer(&mut self, packet: Packet<'_>) -> Result<usize, Cause>;

    /// The number of replies by rcode; empty if the service does not count them.
    fn response_rcodes(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}
