//! Adding routes in the calling thread's network namespace, as `ip route add` does.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::{Netlink, RequestMode};
use super::veth::{INDEX, explained};

/// The table of addresses of the host (rtnetlink(7), `RT_TABLE_LOCAL`).
const TABLE_LOCAL: u8 = 255;

/// The index of loopback.
const LOOPBACK: u32 = 1;

/// Takes packets to any address of a prefix for packets to this host (`ip route add local PREFIX dev lo`). Bits of `network`
/// behind the prefix do not count.
pub fn take_prefix(network: IpAddr, bits: u8) -> io::Result<()> {
    let mut route = message(network);
    route.header.destination_prefix_length = bits;
    route.header.table = TABLE_LOCAL;
    route.header.scope = RouteScope::Host;
    route.header.kind = RouteType::Local;
    route.attributes =
        vec![RouteAttribute::Destination(address(masked(network, bits))), RouteAttribute::Oif(LOOPBACK)];
    add(route).map_err(|error| explained(&format!("taking packets to {network}/{bits}"), &error))
}

/// Drops packets to an address without a word, although a prefix of [`take_prefix`] holds it (`ip route add blackhole ADDRESS
/// table local`).
pub fn drop_packets_to(to: IpAddr) -> io::Result<()> {
    add(blackhole(to)).map_err(|error| explained(&format!("dropping packets to {to}"), &error))
}

/// Undoes [`drop_packets_to`].
pub fn take_packets_to(to: IpAddr) -> io::Result<()> {
    let removed =
        Netlink::open()?.request(RouteNetlinkMessage::DelRoute(blackhole(to)), RequestMode::Changed);
    removed.map_err(|error| explained(&format!("taking packets to {to} again"), &error))
}

fn blackhole(to: IpAddr) -> RouteMessage {
    let mut route = message(to);
    route.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
    route.header.table = TABLE_LOCAL;
    route.header.scope = RouteScope::Universe;
    route.header.kind = RouteType::BlackHole;
    route.attributes = vec![RouteAttribute::Destination(address(to))];
    route
}

/// Sends packets to all other networks of the gateway's family over the veth device, to this gateway.
pub fn add_default(gateway: IpAddr) -> io::Result<()> {
    let mut route = message(gateway);
    route.header.table = RouteHeader::RT_TABLE_MAIN;
    route.header.scope = RouteScope::Universe;
    route.header.kind = RouteType::Unicast;
    route.attributes = vec![RouteAttribute::Gateway(address(gateway)), RouteAttribute::Oif(INDEX)];
    add(route).map_err(|error| explained(&format!("routing by way of {gateway}"), &error))
}

fn message(of_family: IpAddr) -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header.address_family =
        if of_family.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    route.header.protocol = RouteProtocol::Static;
    route
}

fn add(route: RouteMessage) -> io::Result<()> {
    Netlink::open()?.request(RouteNetlinkMessage::NewRoute(route), RequestMode::New)
}

fn address(ip: IpAddr) -> RouteAddress {
    match ip {
        IpAddr::V4(ip) => RouteAddress::Inet(ip),
        IpAddr::V6(ip) => RouteAddress::Inet6(ip),
    }
}

/// The network of an address. Bits behind the prefix are an error to the kernel.
fn masked(network: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match network {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::namespace::joined::{end, joined};
    use crate::namespace::veth::VethSettings;
    use crate::namespace::veth_v6;
    use crate::udp::{Peer, UdpOptions, UdpSocket, Wait};

    #[test]
    fn a_network_has_no_bits_behind_its_prefix() {
        for (address, bits, network) in [
            ("192.0.2.77", 24, "192.0.2.0"),
            ("192.0.2.77", 32, "192.0.2.77"),
            ("192.0.2.77", 0, "0.0.0.0"),
            ("2001:db8::7", 32, "2001:db8::"),
            ("2001:db8::7", 128, "2001:db8::7"),
            ("2001:db8::7", 0, "::"),
        ] {
            assert_eq!(masked(address.parse().unwrap(), bits), network.parse::<IpAddr>().unwrap());
        }
    }

    /// Two namespaces, of which the first has these prefixes and the other sends everything there.
    #[test]
    fn every_address_of_a_prefix_answers_from_itself() {
        let Some((world, home)) = joined(&VethSettings::default()) else { return };
        let v6 = |last: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        veth_v6::add((end(&world, 1), v6(1)), (end(&home, 2), v6(2))).unwrap();
        let options = UdpOptions { pktinfo: true, free_bind: true, ..UdpOptions::default() };
        let open = |address: &'static str| {
            world.within(|| UdpSocket::bind(address.parse::<SocketAddr>().unwrap(), &options)).unwrap()
        };
        let servers = [open("0.0.0.0:53"), open("[::]:53")];
        world
            .within(|| {
                take_prefix("192.0.2.99".parse().unwrap(), 24)?;
                take_prefix("2001:db8::".parse().unwrap(), 32)
            })
            .unwrap();
        home.within(|| {
            add_default([198, 18, 0, 1].into())?;
            add_default(v6(1).into())
        })
        .unwrap();
        for (server, asked, own) in
            [(&servers[0], "192.0.2.200:53", "0.0.0.0:0"), (&servers[1], "[2001:db8:7::9]:53", "[::]:0")]
        {
            let asked: SocketAddr = asked.parse().unwrap();
            let client =
                home.within(|| UdpSocket::bind(own.parse().unwrap(), &UdpOptions::default())).unwrap();
            client.send(b"query", &Peer { address: asked.into(), asked: None }).unwrap();
            assert!(server.wait_readable(10_000_000_000).unwrap(), "{asked}");
            let (mut buffer, mut peer) = ([0; 16], Peer::default());
            assert_eq!(server.recv(&mut buffer, &mut peer, Wait::No).unwrap(), Some(5));
            assert_eq!(peer.asked.unwrap().ip, asked.ip());
            server.send(b"reply", &peer).unwrap();
            assert!(client.wait_readable(10_000_000_000).unwrap(), "{asked}");
            assert_eq!(client.recv(&mut buffer, &mut peer, Wait::No).unwrap(), Some(5));
            assert_eq!(peer.address.to_socket_addr().map(|from| from.ip()), Some(asked.ip()));
        }
    }
}
