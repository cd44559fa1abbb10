use std::net::Ipv4Addr;

use kqps_skips::{Capability, skip};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{RouteProtocol, RouteScope};

use super::*;
use crate::namespace::NetNs;
use crate::xdp::trial::{FAR, NEAR, pair};

/// The hardware addresses of both ends, which end in their IPv4 addresses.
const NEAR_MAC: [u8; 6] = [0x02, 0x6b, 198, 18, 0, 1];
const FAR_MAC: [u8; 6] = [0x02, 0x6b, 198, 18, 0, 2];

/// An address of the far end that the near end has no entry for.
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);

/// An address behind the far end.
const BEHIND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);

fn joined() -> Option<(NetNs, NetNs)> {
    if let Err(reason) = crate::probe::probe_one("veth") {
        skip(Capability::Networks, reason);
        return None;
    }
    Some(pair().unwrap())
}

fn ask_from(namespace: &NetNs, target: impl Into<IpAddr>) -> io::Result<Route> {
    let target = target.into();
    namespace.within(move || to(target))
}

#[test]
fn a_neighbour_is_reached_over_its_device() {
    let Some((near, far)) = joined() else { return };
    let route = ask_from(&near, FAR).unwrap();
    let wanted = Route {
        device: route.device,
        source_mac: NEAR_MAC,
        target_mac: FAR_MAC,
        vlan: None,
        mtu: 1500,
        source: NEAR.into(),
    };
    assert_eq!(route, wanted);
    assert!(route.device > 1);
    let back = ask_from(&far, NEAR).unwrap();
    assert_eq!((back.source_mac, back.target_mac, back.source), (FAR_MAC, NEAR_MAC, FAR.into()));
}

#[test]
fn what_no_frame_reaches_is_an_error() {
    let Some((near, _far)) = joined() else { return };
    for (target, why) in [
        (IpAddr::from(NEAR), "it is an address of this host"),
        (Ipv4Addr::LOCALHOST.into(), "it is an address of this host"),
        (BEHIND.into(), "unreachable"),
    ] {
        let error = ask_from(&near, target).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(&target.to_string()), "{error}");
    }
}

#[test]
fn a_gateway_takes_frames_for_what_is_behind_it() {
    let Some((near, _far)) = joined() else { return };
    let device = ask_from(&near, FAR).unwrap().device;
    let added = near.within(|| {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.header.table = 254;
        route.header.protocol = RouteProtocol::Static;
        route.header.scope = RouteScope::Universe;
        route.header.kind = RouteType::Unicast;
        route.attributes =
            vec![RouteAttribute::Gateway(RouteAddress::Inet(FAR)), RouteAttribute::Oif(device)];
        Netlink::open()?.request(RouteNetlinkMessage::NewRoute(route), RequestMode::New)
    });
    added.unwrap();
    let route = ask_from(&near, BEHIND).unwrap();
    assert_eq!((route.device, route.target_mac, route.source), (device, FAR_MAC, NEAR.into()));
}

#[test]
fn the_kernel_asks_for_a_neighbour_that_it_does_not_know() {
    let Some((near, far)) = joined() else { return };
    let device = ask_from(&far, NEAR).unwrap().device;
    let added = far.within(|| {
        let mut address = AddressMessage::default();
        address.header.family = AddressFamily::Inet;
        address.header.prefix_len = 24;
        address.header.index = device;
        address.attributes =
            vec![AddressAttribute::Local(OTHER.into()), AddressAttribute::Address(OTHER.into())];
        Netlink::open()?.request(RouteNetlinkMessage::NewAddress(address), RequestMode::New)
    });
    added.unwrap();
    assert_eq!(ask_from(&near, OTHER).unwrap().target_mac, FAR_MAC);
}
