//! Faults of servers, as data.

use serde::Deserialize;

/// A fault that a server makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It takes longer by `delay_us`.
    Delay,
    /// The query or its reply is lost, over UDP.
    Loss,
    /// The server does not answer, over any transport.
    Silence,
    /// It answers REFUSED.
    Refused,
    /// It answers SERVFAIL.
    Servfail,
    /// It knows nothing of its zones, and refers to the root.
    Lame,
    /// It answers FORMERR to a query with EDNS.
    NoEdns,
    /// It truncates every reply over UDP.
    Truncation,
    /// It truncates replies over UDP that are longer than `bytes`.
    PathMtu,
    /// It refuses connections.
    TcpRefused,
    /// It takes longer by `delay_us` over TCP, and sends its replies in pieces of `piece_bytes`.
    SlowTcp,
    /// It gives another address than the right one, without a signature that fits.
    WrongAnswer,
    /// It refers each name below its zones to `names` servers that do not exist, or as many as fit (the attack `NXNSAttack`, USENIX
    /// Security 2020).
    ManyServers,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Delay,
        Self::Loss,
        Self::Silence,
        Self::Refused,
        Self::Servfail,
        Self::Lame,
        Self::NoEdns,
        Self::Truncation,
        Self::PathMtu,
        Self::TcpRefused,
        Self::SlowTcp,
        Self::WrongAnswer,
        Self::ManyServers,
    ];

    /// Its word in recipes and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Loss => "loss",
            Self::Silence => "silence",
            Self::Refused => "refused",
            Self::Servfail => "servfail",
            Self::Lame => "lame",
            Self::NoEdns => "no-edns",
            Self::Truncation => "truncation",
            Self::PathMtu => "path-mtu",
            Self::TcpRefused => "tcp-refused",
            Self::SlowTcp => "slow-tcp",
            Self::WrongAnswer => "wrong-answer",
            Self::ManyServers => "many-servers",
        }
    }
}

/// Servers that may have a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the words say it
pub enum Among {
    #[default]
    All,
    Root,
    Tld,
    Company,
}

/// A fault, and where and how often it is made.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// The fault.
    pub fault: Fault,
    /// The servers among which some have it.
    #[serde(default)]
    pub among: Among,
    /// The share of these servers that have it, 0 to 1, drawn by the seed.
    #[serde(default = "Behaviour::whole")]
    pub servers: f64,
    /// The share of the queries to such a server at which it is made, 0 to 1, in steps of 0.000001; 1 for refused connections
    /// and for pieces, which are of a whole connection. The queries of each transport are counted by themselves, and those with
    /// the fault are spread evenly in exact numbers. A fault shows only if it can: no address is wrong in a referral, a small
    /// MTU cuts long replies alone, and of two faults other than a delay the first in the recipe is made.
    #[serde(default = "Behaviour::whole")]
    pub queries: f64,
    /// How much longer a delay is, in microseconds: quantiles at equal distances. Each query has a time of its own. All
    /// delays of a query together are at most 120 s.
    #[serde(default)]
    pub delay_us: Vec<u64>,
    /// The longest reply that passes a small MTU, in bytes.
    #[serde(default = "Behaviour::usual_bytes")]
    pub bytes: u16,
    /// The bytes of each piece in which slow TCP sends replies, 1 to 512; 0 for whole replies.
    #[serde(default)]
    pub piece_bytes: u16,
    /// The time between two pieces, in microseconds, up to 1 s. At least 10 are kept.
    #[serde(default)]
    pub piece_gap_us: u32,
    /// The number of servers that a name gets by `many-servers`, 1 to 255.
    #[serde(default = "Behaviour::usual_names")]
    pub names: u8,
}

impl Behaviour {
    fn whole() -> f64 {
        1.0
    }

    fn usual_bytes() -> u16 {
        512
    }

    fn usual_names() -> u8 {
        20
    }
}
