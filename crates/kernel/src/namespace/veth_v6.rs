//! IPv6 on a pair of devices that [`veth::join`] made, without solicitations: each side has a permanent entry for the
//! other's hardware address, and the devices have no other address. Only reports of multicast groups (RFC 9777), which the
//! kernel sends as a device comes up, pass besides what the two sides send.

use std::io;
use std::net::Ipv6Addr;

use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::{Netlink, RequestMode};
use super::veth::{DEVICE, End, INDEX, explained, set_sysctl};

/// The prefix length of the network that holds both addresses, in bits.
const PREFIX: u8 = 64;

/// Gives both devices an address more, in one /64 network. The pair was joined before.
pub fn add(one: (End<'_>, Ipv6Addr), other: (End<'_>, Ipv6Addr)) -> io::Result<()> {
    for ((end, own), (peer, of_peer)) in [(one, other), (other, one)] {
        let hardware = peer.hardware();
        end.namespace.within(|| {
            // No address of the link's own, and none by advertisements.
            for (name, value) in [("addr_gen_mode", "1"), ("accept_ra", "0"), ("disable_ipv6", "0")] {
                set_sysctl(&format!("net.ipv6.conf.{DEVICE}.{name}"), value)?;
            }
            let added = add_here(own, of_peer, hardware);
            added.map_err(|error| explained("giving a veth device an IPv6 address", &error))
        })?;
    }
    Ok(())
}

/// Gives the device of the calling thread's namespace its address and its peer.
fn add_here(own: Ipv6Addr, peer: Ipv6Addr, hardware: Vec<u8>) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let mut address = AddressMessage::default();
    address.header.family = AddressFamily::Inet6;
    address.header.prefix_len = PREFIX;
    address.header.index = INDEX;
    // Nobody else can have the address, so nobody is asked (RFC 4862, section 5.4).
    address.attributes =
        vec![AddressAttribute::Address(own.into()), AddressAttribute::Flags(AddressFlags::Nodad)];
    netlink.request(RouteNetlinkMessage::NewAddress(address), RequestMode::New)?;
    let mut neighbour = NeighbourMessage::default();
    neighbour.header.family = AddressFamily::Inet6;
    neighbour.header.ifindex = INDEX;
    neighbour.header.state = NeighbourState::Permanent;
    neighbour.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(peer)),
        NeighbourAttribute::LinkLayerAddress(hardware),
    ];
    netlink.request(RouteNetlinkMessage::NewNeighbour(neighbour), RequestMode::Set)
}
