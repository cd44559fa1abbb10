//! The facts of an answer for its caller.

use crate::recipe::Fault;

/// The level of the zone from which a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The root.
    Root,
    /// A top-level domain.
    Tld,
    /// A hosting company.
    Hosting,
    /// No server has the address, or it does not have the zone of the name that was asked for.
    Nothing,
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Records of the type, or a CNAME.
    Answer,
    /// The servers of a zone below.
    Referral,
    /// The name does not exist.
    NxDomain,
    /// The name does not have the type.
    NoData,
    /// The server does not answer for the name, or not at all.
    Refused,
    /// SERVFAIL.
    ServFail,
    /// The query is malformed or of another version of EDNS, or the server does not know EDNS.
    FormErr,
    /// The query is of another kind than questions for records.
    NotImp,
    /// The reply was too long for UDP.
    Truncated,
    /// No reply.
    Silent,
}

/// The result of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The level of the zone.
    pub level: Level,
    /// The kind of its reply.
    pub kind: Kind,
    /// How long the server takes, in nanoseconds.
    pub delay_ns: u64,
    /// The fault that it made. A delay counts only if there is no other fault.
    pub fault: Option<Fault>,
}

/// The conduct of a server toward connections by TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpConduct {
    /// It accepts them, and sends whole replies.
    Usual,
    /// It refuses them: by a fault, or because no server has the address.
    Refuse(Option<Fault>),
    /// It sends its replies in pieces.
    Slow {
        /// The bytes of each piece, 1 to 512.
        piece_bytes: u16,
        /// The time between two pieces, in microseconds.
        gap_us: u32,
    },
}
