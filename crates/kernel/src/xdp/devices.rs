//! The devices of a host, and what they can do for programs and sockets.

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};

use super::netdev;
use crate::ethtool::{channels, driver_info};
use crate::namespace::netlink::Netlink;

/// A device with Ethernet frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The index (netdevice(7)).
    pub index: u32,
    /// The name, such as `eth0`.
    pub name: String,
    /// The driver's name, such as `virtio_net`; `None` if it has none.
    pub driver: Option<String>,
    /// The number of queues that receive; `None` if the kernel does not say.
    pub queues: Option<u32>,
    /// The abilities of the driver; the reason if they are unknown.
    pub features: Result<XdpFeatures, String>,
}

/// The abilities of a driver. Without all of them, frames still get past the stack on every device: a program then runs
/// in the stack, and frames are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// The driver itself runs programs, and hands frames to sockets. Some drivers can do it only with certain numbers
    /// of queues.
    pub native: bool,
    /// The device reads and writes the frames of sockets itself.
    pub zero_copy: bool,
}

/// The devices of the calling thread's network namespace, by index.
pub fn devices() -> io::Result<Vec<Device>> {
    let features = netdev::features().map_err(|error| error.to_string());
    let links = Netlink::open()?.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let links = links.into_iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewLink(link) => {
            (link.header.link_layer_type == LinkLayerType::Ether).then_some(link)
        }
        _ => None,
    });
    let of_link = |link: LinkMessage| {
        let name = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })?;
        let index = link.header.index;
        let features = features.as_ref().map_err(String::clone).and_then(|features| {
            let bits = features.get(&index).ok_or("the kernel does not say for this device")?;
            Ok(XdpFeatures::from_bits(*bits))
        });
        let driver = driver_info(&name).ok().flatten().map(|info| info.name);
        let driver = driver.filter(|driver| !driver.is_empty());
        let queues = channels(&name).ok().flatten().map(|channels| channels.receiving());
        let queues = queues.filter(|queues| *queues > 0);
        Some(Device { index, driver, queues: queues.or_else(|| queues_of(&link)), features, name })
    };
    let mut devices: Vec<Device> = links.filter_map(of_link).collect();
    devices.sort_by_key(|device| device.index);
    Ok(devices)
}

/// The number of queues that the device was made with.
fn queues_of(link: &LinkMessage) -> Option<u32> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::NumRxQueues(queues) => Some(*queues),
        _ => None,
    })
}

impl XdpFeatures {
    fn from_bits(bits: u64) -> Self {
        let has = |wanted: u64| bits & wanted == wanted;
        Self { native: has(netdev::RUNS | netdev::REDIRECTS), zero_copy: has(netdev::ZERO_COPY) }
    }
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};

    use super::*;
    use crate::namespace::veth::DEVICE;
    use crate::xdp::trial;

    #[test]
    fn native_takes_programs_and_sockets() {
        assert_eq!(XdpFeatures::from_bits(0), XdpFeatures::default());
        assert_eq!(XdpFeatures::from_bits(1), XdpFeatures::default());
        assert_eq!(XdpFeatures::from_bits(7), XdpFeatures { native: true, zero_copy: false });
        assert_eq!(XdpFeatures::from_bits(127), XdpFeatures { native: true, zero_copy: true });
    }

    #[test]
    fn the_end_of_a_veth_pair_is_a_device() {
        if let Err(reason) = crate::probe::probe_one("veth") {
            skip(Capability::Networks, reason);
            return;
        }
        let (near, _far) = trial::pair().unwrap();
        let devices = near.within(devices).unwrap();
        // Loopback has no Ethernet frames.
        assert!(devices.iter().all(|device| device.name != "lo"), "{devices:?}");
        let device = devices.iter().find(|device| device.name == DEVICE).unwrap();
        assert_eq!((device.driver.as_deref(), device.queues), (Some("veth"), Some(1)));
        match &device.features {
            Ok(features) => assert_eq!(features, &XdpFeatures { native: true, zero_copy: false }),
            Err(reason) => skip(Capability::Networks, reason),
        }
    }
}
