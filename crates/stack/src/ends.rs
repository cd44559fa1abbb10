//! Where a frame comes from and where it goes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The two ends of a hop: their Ethernet addresses, and the VLAN between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// The Ethernet address of the sender.
    pub source_mac: [u8; 6],
    /// The Ethernet address of the receiver, which is that of a gateway if there is one.
    pub target_mac: [u8; 6],
    /// The number of the VLAN (IEEE 802.1Q), 0 to 4095; `None` if frames have no tag.
    pub vlan: Option<u16>,
}

impl Path {
    /// The way back.
    #[must_use]
    pub fn turned(&self) -> Self {
        Self { source_mac: self.target_mac, target_mac: self.source_mac, vlan: self.vlan }
    }
}

/// The ends of a datagram or a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The hop that the frame takes.
    pub path: Path,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver, of the same family as the sender. If the families differ, both are written as IPv6 addresses, the
    /// IPv4 one as mapped (RFC 4291, section 2.5.5.2).
    pub to: SocketAddr,
}

impl Ends {
    /// The ends of a reply.
    #[must_use]
    pub fn turned(&self) -> Self {
        Self { path: self.path.turned(), from: self.to, to: self.from }
    }

    /// Whether the packet is one of IPv4.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.from.is_ipv4() && self.to.is_ipv4()
    }
}

/// An address as one of IPv6.
pub(crate) fn ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
