//! The routes of the calling thread's network namespace, of all tables (rtnetlink(7)).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::drops::name;
use super::netlink::Netlink;

/// A route to other hosts. One that leads over several devices is several of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The device that it leads to.
    pub device: String,
    /// The network that it leads to.
    pub network: IpAddr,
    /// The length of the network's prefix, in bits; 0 for a default route.
    pub bits: u32,
    /// The number of its table. Rules decide which packets look into which table.
    pub table: u32,
}

impl Route {
    /// Whether an address is in the route's network.
    pub fn has(&self, address: IpAddr) -> bool {
        let (one, other, all) = match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (u128::from(network.to_bits()), u128::from(address.to_bits()), 32)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits(), address.to_bits(), 128),
            _ => return false,
        };
        let prefix = |bits: u128| bits.checked_shr(all - self.bits.min(all)).unwrap_or(0);
        prefix(one) == prefix(other)
    }
}

/// All routes to other hosts. Those to addresses of this host, and those that refuse packets, are left out.
pub fn all() -> io::Result<Vec<Route>> {
    let netlink = Netlink::open()?;
    let mut routes = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        for message in netlink.dump(RouteNetlinkMessage::GetRoute(request))? {
            if let RouteNetlinkMessage::NewRoute(route) = message {
                routes.extend(read(&route));
            }
        }
    }
    Ok(routes)
}

fn read(route: &RouteMessage) -> Vec<Route> {
    if route.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let mut network = match route.header.address_family {
        AddressFamily::Inet => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let (mut table, mut devices) = (u32::from(route.header.table), Vec::new());
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => network = (*address).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => network = (*address).into(),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Oif(device) => devices.push(*device),
            RouteAttribute::MultiPath(hops) => devices.extend(hops.iter().map(|hop| hop.interface_index)),
            _ => {}
        }
    }
    let bits = u32::from(route.header.destination_prefix_length);
    let of = |device| Some(Route { device: name(device)?, network, bits, table });
    devices.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::joined::joined;
    use crate::namespace::veth::{DEVICE, VethSettings};

    #[test]
    fn a_network_has_its_addresses() {
        let route = |network: &str, bits| Route {
            device: "eth0".into(),
            network: network.parse().unwrap(),
            bits,
            table: 254,
        };
        let has = |route: &Route, address: &str| route.has(address.parse().unwrap());
        assert!(has(&route("192.0.2.0", 24), "192.0.2.7") && !has(&route("192.0.2.0", 24), "192.0.3.7"));
        assert!(has(&route("0.0.0.0", 0), "203.0.113.9") && !has(&route("0.0.0.0", 0), "2001:db8::1"));
        assert!(has(&route("2001:db8::", 32), "2001:db8:1::7") && !has(&route("2001:db8::", 32), "fe80::1"));
        assert!(has(&route("192.0.2.1", 32), "192.0.2.1") && !has(&route("::1", 128), "::2"));
    }

    #[test]
    fn a_device_with_an_address_has_a_route() {
        let Some((one, _other)) = joined(&VethSettings::default()) else { return };
        let routes = one.within(all).unwrap();
        let to_peer: Vec<&Route> = routes.iter().filter(|route| route.has([198, 18, 0, 2].into())).collect();
        assert_eq!(to_peer.len(), 1, "{routes:?}");
        assert_eq!((to_peer[0].device.as_str(), to_peer[0].bits), (DEVICE, 24));
    }
}
