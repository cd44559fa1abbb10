//! The interface between this server and the tree of zones that it plays: who answers what, how, and after how long.

use std::net::IpAddr;

use strum::{Display, VariantArray};

/// The zones of all name servers, each at addresses of its own, and the behaviour of these servers. Threads share it.
pub trait Tree: Send + Sync {
    /// The prefixes that hold the addresses of all servers, IPv4 and IPv6, each with its length in bits.
    fn prefixes(&self) -> Vec<(IpAddr, u8)>;

    /// Appends the reply of the server at this address to `reply`, which is empty. It stays empty if the server is silent.
    /// The query has a whole header, without the QR bit.
    fn answer(&self, server: IpAddr, query: &[u8], is_tcp: bool, reply: &mut Vec<u8>) -> TreeAnswer;

    /// The names of the faults that servers have. [`TreeAnswer::fault`] is an index of this list.
    fn faults(&self) -> &[&'static str] {
        &[]
    }

    /// Whether any server takes some time to answer.
    fn has_delays(&self) -> bool {
        true
    }

    /// How the server at this address treats connections by TCP. It is asked once for each connection.
    fn conduct(&self, server: IpAddr) -> TcpConduct {
        let _ = server;
        TcpConduct::Usual
    }

    /// A file of root hints, by which a resolver finds the root's servers: records in master format.
    fn root_hints(&self) -> String;

    /// The trust anchors of the root as DS or DNSKEY records in master format; empty if the root is not signed.
    fn trust_anchor(&self) -> String;
}

/// The outcome of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeAnswer {
    /// The level of the zone.
    pub level: Level,
    /// The kind of the answer.
    pub kind: Kind,
    /// The time from the arrival of the query until the answer leaves, in nanoseconds.
    pub delay_ns: u64,
    /// The fault of this answer, if it has one, as an index of [`Tree::faults`].
    pub fault: Option<u8>,
}

/// The place in the tree of the server's zone that has the name in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Level {
    /// The root.
    Root,
    /// A top-level domain.
    Tld,
    /// A zone below a top-level domain.
    Hosting,
    /// No zone: no server has this address, or it does not have the zone that was asked for.
    Nothing,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// Records of the question, or an alias that leads to them.
    Answer,
    /// The name servers of a zone below.
    Referral,
    /// The name does not exist.
    Nxdomain,
    /// The name exists without such records.
    Nodata,
    /// REFUSED: the server does not have the zone.
    Refused,
    /// SERVFAIL.
    Servfail,
    /// FORMERR, or another rcode that no other row has, such as BADVERS.
    Formerr,
    /// NOTIMP: the query is of a kind that the server does not have.
    Notimp,
    /// An answer that was cut off to fit a datagram.
    Truncated,
    /// No answer at all.
    Silent,
}

/// How a server treats connections by TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpConduct {
    /// It accepts connections, and a reply leaves whole when its delay is over.
    #[default]
    Usual,
    /// It resets every connection right after the handshake, which the kernel has made.
    Refuse {
        /// The fault that is counted for each connection, as an index of [`Tree::faults`].
        fault: Option<u8>,
    },
    /// Replies leave in pieces, one reply after the other.
    Slow {
        /// The bytes of each piece, 1 to 512.
        piece_bytes: u16,
        /// The time between two pieces, in nanoseconds.
        gap_ns: u64,
    },
}

/// The number of levels and of kinds.
pub(super) const LEVELS: usize = Level::VARIANTS.len();
pub(super) const KINDS: usize = Kind::VARIANTS.len();
