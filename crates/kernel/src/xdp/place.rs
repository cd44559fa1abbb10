//! Where frames for an address of this host arrive: its device, from the kernel's tables (rtnetlink(7)).

use std::io;
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};

use super::devices::devices;
use super::route::link;
use crate::namespace::netlink::Netlink;

/// A device at which frames for this host arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The index of the device that receives Ethernet frames. Under a VLAN this is the device below it.
    pub device: u32,
    /// The name of that device.
    pub name: String,
    /// The number of the VLAN, if the addresses are of one.
    pub vlan: Option<u16>,
    /// The length of the longest IP packet, in bytes.
    pub mtu: u32,
    /// The number of queues that receive; `None` if the kernel does not say.
    pub queues: Option<u32>,
    /// The addresses of this host at the device, or at its VLAN.
    pub addresses: Vec<IpAddr>,
}

/// The device that has an address, in the network namespace of the calling thread. Fails if no device has the address
/// as its own, or if the device has no Ethernet frames, as loopback.
pub fn with_address(address: IpAddr) -> io::Result<Place> {
    let netlink = Netlink::open()?;
    let all = addresses(&netlink)?;
    let found = all.iter().find(|(_, own)| *own == address);
    let (device, _) = found.ok_or_else(|| io::Error::other("no device has this address as its own"))?;
    at(&netlink, *device, &all)
}

/// The device of this name, in the network namespace of the calling thread. Fails if there is none, or if it has no
/// Ethernet frames.
pub fn named(name: &str) -> io::Result<Place> {
    let found = devices()?.into_iter().find(|device| device.name == name);
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such device with Ethernet frames");
    let netlink = Netlink::open()?;
    at(&netlink, found.ok_or_else(missing)?.index, &addresses(&netlink)?)
}

fn at(netlink: &Netlink, index: u32, all: &[(u32, IpAddr)]) -> io::Result<Place> {
    let own = link(netlink, index)?;
    let (vlan, device) = match own.vlan {
        None => (None, index),
        Some((number, below)) if link(netlink, below)?.vlan.is_none() => (Some(number), below),
        Some(_) => return Err(io::Error::other("its device is a VLAN within a VLAN")),
    };
    let found = devices()?.into_iter().find(|found| found.index == device);
    let gone = || io::Error::new(io::ErrorKind::NotFound, "its device is gone");
    let found = found.ok_or_else(gone)?;
    let addresses = all.iter().filter(|(place, _)| *place == index).map(|(_, address)| *address).collect();
    Ok(Place { device, name: found.name, vlan, mtu: own.mtu, queues: found.queues, addresses })
}

/// All addresses of this host, each with the index of its device.
fn addresses(netlink: &Netlink) -> io::Result<Vec<(u32, IpAddr)>> {
    let all = netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    Ok(all.iter().filter_map(own_address).collect())
}

/// The index and the own address of an entry. At a point-to-point device `Address` is that of the other end.
fn own_address(message: &RouteNetlinkMessage) -> Option<(u32, IpAddr)> {
    let RouteNetlinkMessage::NewAddress(entry) = message else { return None };
    let local = entry.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let plain = entry.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    Some((entry.header.index, local.or(plain)?))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use kqps_skips::{Capability, skip};

    use super::*;
    use crate::namespace::veth::DEVICE;
    use crate::xdp::trial::{FAR, NEAR, pair};

    #[test]
    fn an_address_is_at_its_device() {
        if let Err(reason) = crate::probe::probe_one("veth") {
            skip(Capability::Networks, reason);
            return;
        }
        let (near, _far) = pair().unwrap();
        let place = near.within(|| with_address(NEAR.into())).unwrap();
        assert_eq!((place.name.as_str(), place.vlan, place.mtu), (DEVICE, None, 1500));
        assert_eq!((place.queues, &place.addresses[..]), (Some(1), &[IpAddr::from(NEAR)][..]));
        assert_eq!(near.within(|| named(DEVICE)).unwrap(), place);
        let error =
            |address: Ipv4Addr| near.within(move || with_address(address.into())).unwrap_err().to_string();
        assert!(error(Ipv4Addr::LOCALHOST).contains("no Ethernet frames"));
        assert!(error(FAR).contains("no device has this address"));
        let error = near.within(|| named("lo")).unwrap_err().to_string();
        assert!(error.contains("no such device"), "{error}");
    }
}
