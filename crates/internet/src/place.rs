//! Zones and the names in them, by number.

/// A zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneId {
    /// The root.
    Root,
    /// A top-level domain.
    Tld(u32),
    /// The zone of a hosting company, with the names of its servers and the targets of aliases.
    Company(u32),
    /// A zone that a company hosts.
    Site(u64),
}

/// A name in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Apex,
    /// In the root: the delegation of a top-level domain.
    Tld(u32),
    /// In the root: the parent of the names of its servers.
    RootServers,
    /// In the root: a server of the root.
    RootServer(u8),
    /// In a top-level domain: the parent of the names of its servers.
    Nic,
    /// In a top-level domain: one of its servers.
    NicServer(u8),
    /// In a top-level domain: the delegation of a company's zone.
    Company(u32),
    /// In a top-level domain: the delegation of a zone.
    Site(u64),
    /// In the zone of a company, or in a zone whose servers have names in it: a server.
    Server(u8),
    /// In the zone of a company: a name to which an alias of another zone leads. It has the number of that zone, and the
    /// number of CNAMEs from `www` there to this name.
    Edge(u64, u8),
    Www,
    Mail,
    Host(u8),
    Wildcard,
    Dmarc,
    /// The parent of [`Node::Sip`].
    Tcp,
    Sip,
}

impl Node {
    /// Whether another zone begins here.
    pub(crate) fn is_cut(self) -> bool {
        matches!(self, Self::Tld(_) | Self::Company(_) | Self::Site(_))
    }
}
