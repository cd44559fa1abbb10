//! The facts of an answer for its caller.

use crate::recipe::Fault;

/// The level of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// The root.
    Root,
    /// A top-level domain.
    Tld,
    /// A hosting company.
    Hosting,
    /// No server has the address.
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
    /// The query is malformed, or the server does not know EDNS.
    FormErr,
    /// The query is of another kind than questions for records, or of another version of EDNS.
    NotImp,
    /// The reply was too long for UDP.
    Truncated,
    /// No reply.
    Silent,
}

/// The result of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The level of the server.
    pub level: Level,
    /// The kind of its reply.
    pub kind: Kind,
    /// How long the server takes, in nanoseconds.
    pub delay_ns: u64,
    /// The fault that it made. A delay counts only if there is no other fault.
    pub fault: Option<Fault>,
}
