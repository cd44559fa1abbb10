//! How frames get to an address: the device, the hardware addresses and the VLAN, from the kernel's tables
//! (rtnetlink(7)).

use std::io;
use std::net::IpAddr;

use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkLayerType, LinkMessage, VlanProtocol,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::clock::{now_ns, sleep_until_ns};
use crate::namespace::netlink::{Netlink, RequestMode};

/// How long a neighbour may take to answer: the kernel asks three times, a second apart (`mcast_solicit`, arp(7)).
const PATIENCE_NS: u64 = 3_500_000_000;

/// The pause between looks for an answer.
const PAUSE_NS: u64 = 1_000_000;

/// How frames get to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The index of the device that sends Ethernet frames. Under a VLAN this is the device below it.
    pub device: u32,
    /// The hardware address from which frames are sent.
    pub source_mac: [u8; 6],
    /// The hardware address of the target, or of the gateway to it.
    pub target_mac: [u8; 6],
    /// The number of the VLAN, if the route leads into one.
    pub vlan: Option<u16>,
    /// The length of the longest IP packet, in bytes.
    pub mtu: u32,
    /// The address of this host that the kernel would send from.
    pub source: IpAddr,
}

/// Where the table of routes leads.
struct NextHop {
    device: u32,
    address: IpAddr,
    source: IpAddr,
    mtu: Option<u32>,
}

/// A device, with the facts that a route needs.
pub(super) struct Link {
    mac: [u8; 6],
    pub(super) mtu: u32,
    /// The number of a VLAN, and the device below it.
    pub(super) vlan: Option<(u16, u32)>,
}

/// Looks up the route to an address in the network namespace of the calling thread. If the kernel does not know the
/// hardware address of the next hop, it asks for it (`CAP_NET_ADMIN`), which takes up to 3.5 s. The error says why
/// frames cannot get there: no route, an address of this host, a device without Ethernet frames, or no answer.
pub fn to(target: IpAddr) -> io::Result<Route> {
    let explained = |error: io::Error| io::Error::new(error.kind(), format!("the way to {target}: {error}"));
    find(target).map_err(explained)
}

fn find(target: IpAddr) -> io::Result<Route> {
    let netlink = Netlink::open()?;
    let hop = next_hop(&netlink, target)?;
    let link = link(&netlink, hop.device)?;
    let device = match link.vlan {
        None => hop.device,
        Some((_, below)) if self::link(&netlink, below)?.vlan.is_none() => below,
        Some(_) => return Err(io::Error::other("it leads through a VLAN within a VLAN")),
    };
    Ok(Route {
        device,
        source_mac: link.mac,
        target_mac: neighbour(&netlink, &hop)?,
        vlan: link.vlan.map(|(number, _)| number),
        mtu: hop.mtu.unwrap_or(link.mtu).min(link.mtu),
        source: hop.source,
    })
}

fn odd(asked: &str) -> io::Error {
    io::Error::other(format!("the kernel answered a request for {asked} with something else"))
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn next_hop(netlink: &Netlink, target: IpAddr) -> io::Result<NextHop> {
    let mut request = RouteMessage::default();
    request.header.address_family = family(target);
    request.header.destination_prefix_length = if target.is_ipv4() { 32 } else { 128 };
    request.attributes = vec![RouteAttribute::Destination(target.into())];
    let RouteNetlinkMessage::NewRoute(route) = netlink.ask(RouteNetlinkMessage::GetRoute(request))? else {
        return Err(odd("a route"));
    };
    match route.header.kind {
        RouteType::Unicast => {}
        RouteType::Local => {
            return Err(io::Error::other("it is an address of this host, so no frame leaves it"));
        }
        other => return Err(io::Error::other(format!("the kernel has a route of the kind {other:?}"))),
    }
    let mut hop = NextHop { device: 0, address: target, source: unspecified(target), mtu: None };
    for attribute in route.attributes {
        match attribute {
            RouteAttribute::Oif(device) => hop.device = device,
            RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => hop.address = gateway.into(),
            // An IPv4 route may have an IPv6 gateway, as `Via`.
            RouteAttribute::Gateway(RouteAddress::Inet6(gateway))
            | RouteAttribute::Via(RouteVia::Inet6(gateway)) => hop.address = gateway.into(),
            RouteAttribute::PrefSource(RouteAddress::Inet(source)) => hop.source = source.into(),
            RouteAttribute::PrefSource(RouteAddress::Inet6(source)) => hop.source = source.into(),
            RouteAttribute::Metrics(metrics) => {
                hop.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) if *mtu > 0 => Some(*mtu),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    if hop.device == 0 || hop.source.is_unspecified() {
        return Err(io::Error::other("the kernel's route has no device, or no source address"));
    }
    Ok(hop)
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Looks up a device with Ethernet frames by its index.
pub(super) fn link(netlink: &Netlink, device: u32) -> io::Result<Link> {
    let mut request = LinkMessage::default();
    request.header.index = device;
    let RouteNetlinkMessage::NewLink(link) = netlink.ask(RouteNetlinkMessage::GetLink(request))? else {
        return Err(odd("a device"));
    };
    if link.header.link_layer_type != LinkLayerType::Ether {
        return Err(io::Error::other("its device has no Ethernet frames"));
    }
    let (mut mac, mut mtu, mut below, mut number) = (None, 0, None, None);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Address(address) => mac = <[u8; 6]>::try_from(&address[..]).ok(),
            LinkAttribute::Mtu(bytes) => mtu = *bytes,
            LinkAttribute::Link(device) => below = Some(*device),
            LinkAttribute::LinkInfo(info) => number = vlan(info)?,
            _ => {}
        }
    }
    let mac = mac.ok_or_else(|| io::Error::other("its device has no hardware address"))?;
    Ok(Link { mac, mtu, vlan: number.zip(below) })
}

/// The number of a VLAN; `None` for devices of other kinds. An error if its tags are not those that are written here.
fn vlan(info: &[LinkInfo]) -> io::Result<Option<u16>> {
    if !info.contains(&LinkInfo::Kind(InfoKind::Vlan)) {
        return Ok(None);
    }
    let data = info.iter().find_map(|part| match part {
        LinkInfo::Data(InfoData::Vlan(data)) => Some(data),
        _ => None,
    });
    let mut number = None;
    for part in data.into_iter().flatten() {
        match part {
            InfoVlan::Id(found) => number = Some(*found),
            InfoVlan::Protocol(VlanProtocol::Ieee8021Ad) => {
                return Err(io::Error::other("its device is a VLAN of a provider (802.1ad)"));
            }
            _ => {}
        }
    }
    Ok(number)
}

/// The hardware address of the next hop. Makes the kernel ask for it if it does not know it.
fn neighbour(netlink: &Netlink, hop: &NextHop) -> io::Result<[u8; 6]> {
    if let Some(mac) = known(netlink, hop)? {
        return Ok(mac);
    }
    let mut request = entry(hop);
    // With this flag the kernel does what it does when it has a packet for the neighbour.
    request.header.flags = NeighbourFlags::Use;
    netlink.request(RouteNetlinkMessage::NewNeighbour(request), RequestMode::Set)?;
    let end_ns = now_ns() + PATIENCE_NS;
    while now_ns() < end_ns {
        sleep_until_ns(now_ns() + PAUSE_NS);
        if let Some(mac) = known(netlink, hop)? {
            return Ok(mac);
        }
    }
    let what = format!("{} does not say its hardware address", hop.address);
    Err(io::Error::new(io::ErrorKind::HostUnreachable, what))
}

/// The hardware address of the next hop, if the kernel knows it.
fn known(netlink: &Netlink, hop: &NextHop) -> io::Result<Option<[u8; 6]>> {
    let found = match netlink.ask(RouteNetlinkMessage::GetNeighbour(entry(hop))) {
        Ok(RouteNetlinkMessage::NewNeighbour(found)) => found,
        Ok(_) => return Err(odd("a neighbour")),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    if matches!(
        found.header.state,
        NeighbourState::None | NeighbourState::Incomplete | NeighbourState::Failed
    ) {
        return Ok(None);
    }
    Ok(found.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(address) => <[u8; 6]>::try_from(&address[..]).ok(),
        _ => None,
    }))
}

/// A request about the next hop.
fn entry(hop: &NextHop) -> NeighbourMessage {
    let mut request = NeighbourMessage::default();
    request.header.family = family(hop.address);
    request.header.ifindex = hop.device;
    request.attributes = vec![NeighbourAttribute::Destination(hop.address.into())];
    request
}

#[cfg(test)]
mod tests;
