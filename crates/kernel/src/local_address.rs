//! Addresses that belong to this host. Packets to them never leave the host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Any port but 0: no packet is sent there.
const PORT: u16 = 53;

/// Whether an address is one of this host's; its port does not count.
///
/// Neither binding to the address nor the source address of a route to it answers this. With
/// `net.ipv4.ip_nonlocal_bind` the kernel binds to any address. Of two IPv4 addresses in one network, it sends from
/// the first one, even to the second.
///
/// Two other calls do answer it. As the interface of multicasts the kernel accepts only an IPv4 address of this host
/// (`IP_MULTICAST_IF`, ip(7)). To an IPv6 address of its own it sends from that same address (RFC 6724, section 5,
/// rule 1). The check sends no packet.
pub fn is_local(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
            .and_then(|socket| socket2::SockRef::from(&socket).set_multicast_if_v4(&ip))
            .is_ok_and(|()| !ip.is_unspecified()),
        IpAddr::V6(ip) => source(address).is_ok_and(|source| source.ip() == ip),
    }
}

/// The source address that the kernel chooses for packets to `address`.
fn source(mut address: SocketAddr) -> std::io::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    address.set_port(PORT);
    socket.connect(address)?;
    socket.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_local_and_addresses_for_documents_are_not() {
        let is_local = |ip: &str| is_local(SocketAddr::new(ip.parse().unwrap(), 0));
        for ip in ["127.0.0.1", "127.3.2.1", "::1"] {
            assert!(is_local(ip), "{ip}");
        }
        for ip in ["192.0.2.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "2001:db8::1", "::", "ff02::1"] {
            assert!(!is_local(ip), "{ip}");
        }
    }
}
