//! Socket addresses in the kernel's own layout, so that a batch needs no conversion per packet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const V4: u16 = libc::AF_INET as u16;
const V6: u16 = libc::AF_INET6 as u16;

/// An IPv4 or IPv6 address with a port, as the bytes of a `sockaddr_in` or `sockaddr_in6`. Two addresses are
/// equal if family, port and IP address are equal; flow label and scope do not count. The default value
/// holds no address.
#[derive(Clone, Copy, Default)]
#[repr(C, align(4))]
pub struct Address([u8; 28]);

impl Address {
    #[inline]
    pub(crate) fn from_kernel(bytes: [u8; 28]) -> Self {
        Self(bytes)
    }

    #[inline]
    fn family(&self) -> u16 {
        u16::from_ne_bytes([self.0[0], self.0[1]])
    }

    /// The port number, in host byte order.
    #[inline]
    pub fn port(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// The IP address without the port; `None` if the value holds no address.
    #[inline]
    pub fn ip(&self) -> Option<IpAddr> {
        match self.family() {
            V4 => Some(Ipv4Addr::from(four(&self.0, 4)).into()),
            V6 => Some(Ipv6Addr::from(four_fours(&self.0, 8)).into()),
            _ => None,
        }
    }

    /// A number that is the same for equal addresses and rarely the same for others: the port and the last
    /// four bytes of the IP address.
    #[inline]
    pub fn key(&self) -> u64 {
        let end = if self.family() == V6 { four(&self.0, 20) } else { four(&self.0, 4) };
        u64::from(self.port()) << 32 | u64::from(u32::from_ne_bytes(end))
    }

    /// The length of the address in bytes, as system calls expect it.
    #[inline]
    pub(crate) fn length(&self) -> libc::socklen_t {
        if self.family() == V6 { 28 } else { 16 }
    }

    /// The address as the standard library's type; `None` if the value holds no address.
    pub fn to_socket_addr(&self) -> Option<SocketAddr> {
        match self.family() {
            V4 => Some(SocketAddr::from((four(&self.0, 4), self.port()))),
            V6 => {
                let ip = Ipv6Addr::from(four_fours(&self.0, 8));
                let flow = u32::from_be_bytes(four(&self.0, 4));
                let scope = u32::from_ne_bytes(four(&self.0, 24));
                Some(SocketAddr::V6(SocketAddrV6::new(ip, self.port(), flow, scope)))
            }
            _ => None,
        }
    }
}

#[inline]
fn four(bytes: &[u8; 28], at: usize) -> [u8; 4] {
    [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
}

#[inline]
fn four_fours(bytes: &[u8; 28], at: usize) -> [u8; 16] {
    let mut ip = [0; 16];
    ip.copy_from_slice(&bytes[at..at + 16]);
    ip
}

impl PartialEq for Address {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Family, port, and the IPv4 address or the IPv6 flow label. The default flow label is 0.
        if four(&self.0, 0) != four(&other.0, 0) {
            return false;
        }
        if self.family() == V6 {
            four_fours(&self.0, 8) == four_fours(&other.0, 8)
        } else {
            four(&self.0, 4) == four(&other.0, 4)
        }
    }
}

impl Eq for Address {}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                bytes[..2].copy_from_slice(&V4.to_ne_bytes());
                bytes[4..8].copy_from_slice(&v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                bytes[..2].copy_from_slice(&V6.to_ne_bytes());
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            }
        }
        Self(bytes)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_socket_addr() {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("no address"),
        }
    }
}

/// The address to which a packet was sent, and the interface on which it arrived, from `IP_PKTINFO` or
/// `IPV6_PKTINFO`. With it, a wildcard socket can reply from the address to which the query was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// The destination address of the packet.
    pub ip: IpAddr,
    /// The index of the interface (netdevice(7)).
    pub interface: u32,
}

impl LocalAddress {
    pub(crate) fn v4(ip: [u8; 4], interface: u32) -> Self {
        Self { ip: Ipv4Addr::from(ip).into(), interface }
    }

    pub(crate) fn v6(ip: [u8; 16], interface: u32) -> Self {
        Self { ip: Ipv6Addr::from(ip).into(), interface }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_go_there_and_back() {
        for text in ["127.0.0.1:53", "[::1]:5300", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::from(address).to_socket_addr(), Some(address));
            assert_eq!(Address::from(address).ip(), Some(address.ip()));
        }
        assert_eq!(Address::default().to_socket_addr(), None);
        assert_eq!(Address::default().ip(), None);
    }

    #[test]
    fn equal_means_family_port_and_address() {
        let address = |text: &str| Address::from(text.parse::<SocketAddr>().unwrap());
        assert_eq!(address("[fe80::1%3]:1"), address("[fe80::1]:1"));
        assert_ne!(address("127.0.0.1:53"), address("127.0.0.1:54"));
        assert_ne!(address("127.0.0.1:53"), address("127.0.0.2:53"));
        assert_ne!(address("[::1]:53"), address("[::2]:53"));
        assert_ne!(address("0.0.0.0:53"), address("[::]:53"));
    }

    #[test]
    fn equal_addresses_share_a_key_and_neighbours_do_not() {
        let key = |text: &str| Address::from(text.parse::<SocketAddr>().unwrap()).key();
        assert_eq!(key("[fe80::1%3]:1"), key("[fe80::1]:1"));
        assert_ne!(key("127.0.0.1:53"), key("127.0.0.1:54"));
        assert_ne!(key("127.0.0.1:53"), key("127.0.0.2:53"));
        assert_ne!(key("[::1]:53"), key("[::2]:53"));
    }
}
