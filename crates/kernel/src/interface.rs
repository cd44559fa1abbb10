//! The interface that carries the packets of one of this host's addresses, from the kernel's tables (rtnetlink(7)).

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkLayerType, LinkMessage};

use crate::namespace::netlink::Netlink;

/// The most VLANs within each other.
const STACK_MOST: usize = 4;

/// How an interface handles packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// They stay on this host.
    Loopback,
    /// It passes them to the interface with this index.
    Above(u32),
    /// It spreads them over several interfaces, or drops them.
    Virtual,
    /// It sends and receives them.
    Carrier,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    name: String,
    kind: Kind,
}

/// The name of the interface by which packets to this address come into the calling thread's network namespace: the one
/// that has the address, or the one below its VLAN. `None` if that is not certain: no interface or several have the
/// address, or the one that has it carries nothing by itself, as a bridge, a bond, a dummy, or loopback with an address
/// that is not its own.
pub fn of_address(address: IpAddr) -> io::Result<Option<String>> {
    let netlink = Netlink::open()?;
    let having: Vec<u32> = netlink
        .dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewAddress(found) => has(&found, address).then_some(found.header.index),
            _ => None,
        })
        .collect();
    let interfaces: BTreeMap<u32, Interface> = netlink
        .dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some((link.header.index, interface(&link)?)),
            _ => None,
        })
        .collect();
    Ok(carrier(&interfaces, &having, address))
}

/// Whether an entry of the kernel's table is that of this address. With a peer, its own address is the local one.
fn has(entry: &AddressMessage, address: IpAddr) -> bool {
    let local = entry.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(local) => Some(*local),
        _ => None,
    });
    let only = || {
        entry.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(only) => Some(*only),
            _ => None,
        })
    };
    local.or_else(only) == Some(address)
}

fn interface(link: &LinkMessage) -> Option<Interface> {
    let (mut name, mut below, mut is_elsewhere) = (None, None, false);
    let (mut is_vlan, mut is_virtual) = (false, false);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(found) => name = Some(found.clone()),
            LinkAttribute::Link(index) => below = Some(*index),
            // The interface below is in another network namespace.
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::LinkInfo(info) => {
                let mut kinds = info.iter().filter_map(|one| match one {
                    LinkInfo::Kind(kind) => Some(kind),
                    _ => None,
                });
                let kind = kinds.next();
                is_vlan = kind == Some(&InfoKind::Vlan);
                let without_wire =
                    [InfoKind::Bond, InfoKind::Bridge, InfoKind::Team, InfoKind::Dummy, InfoKind::Vrf];
                is_virtual = kind.is_some_and(|kind| without_wire.contains(kind));
            }
            _ => {}
        }
    }
    let kind = match below {
        _ if link.header.link_layer_type == LinkLayerType::Loopback => Kind::Loopback,
        Some(index) if is_vlan && !is_elsewhere => Kind::Above(index),
        _ if is_virtual => Kind::Virtual,
        _ => Kind::Carrier,
    };
    Some(Interface { name: name?, kind })
}

/// The interface that carries packets to an address which the interfaces with these indices have.
fn carrier(interfaces: &BTreeMap<u32, Interface>, having: &[u32], address: IpAddr) -> Option<String> {
    if address.is_loopback() {
        let loopback = interfaces.values().find(|interface| interface.kind == Kind::Loopback);
        return loopback.map(|interface| interface.name.clone());
    }
    let [mut index] = having[..] else { return None };
    for _ in 0..STACK_MOST {
        let Interface { name, kind } = interfaces.get(&index)?;
        match kind {
            Kind::Carrier => return Some(name.clone()),
            Kind::Above(below) => index = *below,
            Kind::Loopback | Kind::Virtual => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_carries_its_own_addresses_and_no_interface_one_for_documents() {
        for own in ["127.0.0.1", "127.9.8.7"] {
            assert_eq!(of_address(own.parse().unwrap()).unwrap().as_deref(), Some("lo"), "{own}");
        }
        assert_eq!(of_address("192.0.2.1".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn packets_pass_a_vlan_and_no_interface_that_has_several_below() {
        let all = [
            (1, "lo", Kind::Loopback),
            (2, "eth0", Kind::Carrier),
            (3, "eth0.10", Kind::Above(2)),
            (4, "eth0.10.20", Kind::Above(3)),
            (5, "bond0", Kind::Virtual),
            (6, "bond0.10", Kind::Above(5)),
            (7, "vlan0", Kind::Above(99)),
            (8, "loop", Kind::Above(8)),
        ];
        let all = all.into_iter().map(|(index, name, kind)| (index, Interface { name: name.into(), kind }));
        let all = all.collect();
        let of = |having: &[u32]| carrier(&all, having, "192.0.2.1".parse().unwrap());
        for index in [2, 3, 4] {
            assert_eq!(of(&[index]).as_deref(), Some("eth0"), "{index}");
        }
        for having in [&[][..], &[1], &[5], &[6], &[7], &[8], &[9], &[2, 5]] {
            assert_eq!(of(having), None, "{having:?}");
        }
    }

    #[test]
    fn an_end_of_a_tunnel_is_not_its_peer() {
        let entry = |attributes| {
            let mut entry = AddressMessage::default();
            entry.attributes = attributes;
            entry
        };
        let [own, peer]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let tunnel = entry(vec![AddressAttribute::Address(peer), AddressAttribute::Local(own)]);
        assert!(has(&tunnel, own) && !has(&tunnel, peer));
        assert!(has(&entry(vec![AddressAttribute::Address(peer)]), peer));
    }
}
