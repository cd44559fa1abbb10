//! The interface between a loop and a service: the service turns a query into its reply in the same buffer, whatever
//! brought the query.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use kqps_kernel::{Address, LocalAddress};

use crate::counts::Cause;
use crate::later::{Mailbox, Origin};

/// The longest query by UDP that is answered, in bytes: the largest size that EDNS clients usually offer (RFC 6891,
/// section 6.2.5). Every I/O model has space for exactly this size.
pub const QUERY_BYTES: usize = 4096;

/// A received query.
#[derive(Debug)]
pub struct Query<'a> {
    /// The buffer, which begins with the query. The reply is written over it and may use the whole buffer. The
    /// bytes behind the query are left over from earlier queries. By a connection it has room for the longest message.
    pub buffer: &'a mut [u8],
    /// The length of the query in bytes.
    pub bytes: usize,
    /// Who asks, and over what.
    pub client: Client<'a>,
    /// Where the query came in, for an answer that comes later.
    pub origin: Origin,
}

/// Who asks, and over what.
#[derive(Clone, Copy, Debug)]
pub enum Client<'a> {
    /// The sender of a datagram, to which the reply goes.
    Udp(&'a Address),
    /// The other end of a connection over TCP or QUIC.
    Tcp(IpAddr),
    /// The other end of a connection by HTTP, on which every reply is one message.
    Https(IpAddr),
    /// A process of this host, on a Unix socket.
    Unix,
}

impl<'a> Query<'a> {
    /// A query that arrived as a datagram.
    #[inline]
    pub fn by_udp(buffer: &'a mut [u8], bytes: usize, source: &'a Address) -> Self {
        Self { buffer, bytes, client: Client::Udp(source), origin: Origin::default() }
    }

    /// Notes that the query arrived at the endpoint with this index in its worker. `local` is the address to which it
    /// was sent, if the reply must name it.
    #[inline]
    #[must_use]
    pub fn at(self, endpoint: usize, local: Option<LocalAddress>) -> Self {
        Self { origin: Origin::Datagrams { endpoint, local }, ..self }
    }

    /// Whether the query is longer than its transport allows.
    #[inline]
    pub fn is_too_long(&self) -> bool {
        matches!(self.client, Client::Udp(_)) && self.bytes > QUERY_BYTES
    }
}

/// The outcome of a query.
#[derive(Debug)]
pub enum Answered<M> {
    /// A reply of one message, with this length in bytes.
    One(usize),
    /// A reply of many messages, which [`Answer::next`] writes.
    Many(M),
    /// A reply that another thread sends later, to the query's [`Origin`].
    Later,
    /// No reply, and why.
    None(Cause),
}

impl<M> Answered<M> {
    /// The length of the only message, or why there is none. UDP carries no reply of many messages.
    #[inline]
    pub fn one(self) -> Result<usize, Cause> {
        match self {
            Self::One(bytes) => Ok(bytes),
            Self::Many(_) => Err(Cause::NotByUdp),
            Self::Later => Err(Cause::Later),
            Self::None(cause) => Err(cause),
        }
    }
}

/// Answers queries. Every thread has its own value, and calls it once per query.
pub trait Answer {
    /// Whether a reply may be longer than its query. If so, the loops provide space behind the query, which
    /// costs one of them a copy.
    const GROWS: bool;

    /// Whether replies may come later. If so, the loops find out where each query came in.
    const LATER: bool = false;

    /// The state of a reply of many messages; [`std::convert::Infallible`] if no reply has many.
    type Many;

    /// Receives the queries of a batch before the calls of [`Self::answer`], and may fetch what they will need.
    #[inline]
    fn foresee<'q>(&mut self, queries: impl ExactSizeIterator<Item = &'q [u8]>) {
        let _ = queries;
    }

    /// Turns a query into its reply in place.
    fn answer(&mut self, query: Query<'_>) -> Answered<Self::Many>;

    /// Writes the next message of a reply. Returns its length in bytes; `None` after the last message.
    fn next(&mut self, many: &mut Self::Many, buffer: &mut [u8]) -> Option<usize>;

    /// Passes on the queries whose replies come later. Loops call it at the end of every turn.
    #[inline]
    fn end_turn(&mut self) {}

    /// Where later replies arrive for a thread that serves connections; `None` if none come later.
    fn mailbox(&self) -> Option<Arc<Mailbox>> {
        None
    }

    /// The number of replies of one message by rcode; empty if the service does not count them.
    fn response_rcodes(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn an_outcome_is_no_larger_than_a_length_and_a_cause() {
        assert_eq!(size_of::<Answered<Infallible>>(), size_of::<Result<usize, Cause>>());
        assert_eq!(size_of::<Answered<Box<u64>>>(), size_of::<Result<usize, Cause>>());
    }

    #[test]
    fn udp_carries_one_message_and_queries_of_a_limited_length() {
        assert_eq!(Answered::<()>::One(12).one(), Ok(12));
        assert_eq!(Answered::Many(()).one(), Err(Cause::NotByUdp));
        assert_eq!(Answered::<()>::Later.one(), Err(Cause::Later));
        assert_eq!(Answered::<()>::None(Cause::PortZero).one(), Err(Cause::PortZero));
        let source = Address::from(std::net::SocketAddr::from(([192, 0, 2, 1], 53)));
        let mut buffer = [0; QUERY_BYTES + 1];
        assert!(!Query::by_udp(&mut buffer, QUERY_BYTES, &source).is_too_long());
        assert!(Query::by_udp(&mut buffer, QUERY_BYTES + 1, &source).is_too_long());
        let client = Client::Tcp(IpAddr::from([192, 0, 2, 1]));
        let query = Query { buffer: &mut buffer, bytes: QUERY_BYTES + 1, client, origin: Origin::default() };
        assert!(!query.is_too_long());
    }
}
