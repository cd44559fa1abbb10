//! A pair of virtual Ethernet devices (veth(4)) between two network namespaces. The host never sees the
//! devices. When either namespace ends, the kernel removes both devices.
//!
//! The devices carry only the packets that the two sides send. Each side has a permanent entry for the other's
//! hardware address, so there is no ARP. The devices have no IPv6 unless [`super::veth_v6`] adds it, so there are no
//! solicitations or multicast reports. A device's counters therefore count exactly what was sent over it.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};

use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::{Netlink, RequestMode};
use super::{NetNs, device};
use crate::ethtool::value;

/// The name of the device in both namespaces.
pub const DEVICE: &str = "kqps0";

/// The index of the device in both namespaces; loopback has index 1.
pub(super) const INDEX: u32 = 2;

/// The prefix length of the network that holds both addresses, in bits.
const PREFIX: u8 = 24;

/// Settings of a pair of devices. None of them affects the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VethSettings {
    /// Send queues, and as many receive queues, of each device; `None` for the kernel's default.
    pub queues: Option<u32>,
    /// The length of each device's send queue in packets; `None` for the kernel's default.
    pub txqueuelen: Option<u32>,
    /// The cores over which received packets are distributed (RPS, Documentation/networking/scaling.rst). With
    /// `None`, the core that sent a packet also receives it.
    pub rps_cpus: Option<Vec<u32>>,
    /// Whether generic receive offload merges received packets; on veth it also turns on NAPI. `None` for the
    /// kernel's default.
    pub gro: Option<bool>,
    /// Sysctls to set in both namespaces: name (`net.ipv4.udp_rmem_min`) → value.
    pub sysctls: BTreeMap<String, String>,
}

/// A side of a pair of devices.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The namespace that holds the device.
    pub namespace: &'a NetNs,
    /// The IPv4 address of the device, in a /24 network.
    pub address: Ipv4Addr,
}

impl End<'_> {
    /// A locally administered hardware address (IEEE 802, section 8.4.2) that ends in the IPv4 address.
    pub(super) fn hardware(&self) -> Vec<u8> {
        [&[0x02, 0x6b][..], &self.address.octets()].concat()
    }
}

/// Connects two namespaces by a pair of devices. When the call returns, both devices are up and packets pass.
pub fn join(one: End<'_>, other: End<'_>, settings: &VethSettings) -> io::Result<()> {
    for end in [one, other] {
        end.namespace.within(|| {
            set_sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
            settings.sysctls.iter().try_for_each(|(name, value)| set_sysctl(name, value))
        })?;
    }
    one.namespace.within(|| {
        let made = Netlink::open()?.request(pair(one, other, settings), RequestMode::New);
        made.map_err(|error| explained("making a veth pair", &error))
    })?;
    for (end, peer) in [(one, other), (other, one)] {
        end.namespace.within(|| {
            if let Some(gro) = settings.gro {
                value::set_gro(DEVICE, gro).map_err(|error| explained("setting GRO", &error))?;
            }
            bring_up(end, peer).map_err(|error| explained("bringing a veth device up", &error))
        })?;
        if let Some(cpus) = &settings.rps_cpus {
            let spread = end.namespace.within(|| device::spread(DEVICE, cpus));
            spread.map_err(|error| explained("setting RPS", &error))?;
        }
    }
    for end in [one, other] {
        if !end.namespace.within(|| value::is_linked(DEVICE))? {
            return Err(io::Error::other("a veth pair is up but has no carrier"));
        }
    }
    Ok(())
}

/// Makes the kernel complete the checksums of packets before the device of the calling thread's namespace sends them.
/// Otherwise they stay incomplete on a veth pair, and a program that reads packets at the other end by itself
/// (`AF_XDP`) finds them wrong.
pub fn complete_checksums() -> io::Result<()> {
    value::set_checksum_offload(DEVICE, false).map_err(|error| explained("completing checksums", &error))
}

/// The request that creates both devices, each in its namespace.
fn pair(one: End<'_>, other: End<'_>, settings: &VethSettings) -> RouteNetlinkMessage {
    let mut peer = link(other, settings);
    peer.attributes.push(LinkAttribute::NetNsFd(other.namespace.as_fd().as_raw_fd()));
    let mut link = link(one, settings);
    link.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
    ]));
    RouteNetlinkMessage::NewLink(link)
}

fn link(end: End<'_>, settings: &VethSettings) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = INDEX;
    link.attributes = vec![LinkAttribute::IfName(DEVICE.into()), LinkAttribute::Address(end.hardware())];
    if let Some(queues) = settings.queues {
        link.attributes.extend([LinkAttribute::NumTxQueues(queues), LinkAttribute::NumRxQueues(queues)]);
    }
    if let Some(packets) = settings.txqueuelen {
        link.attributes.push(LinkAttribute::TxQueueLen(packets));
    }
    link
}

/// Gives the device of one end its address and its peer, and brings it up. Runs in the namespace of that end.
fn bring_up(end: End<'_>, peer: End<'_>) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let mut address = AddressMessage::default();
    address.header.family = AddressFamily::Inet;
    address.header.prefix_len = PREFIX;
    address.header.index = INDEX;
    address.attributes =
        vec![AddressAttribute::Local(end.address.into()), AddressAttribute::Address(end.address.into())];
    netlink.request(RouteNetlinkMessage::NewAddress(address), RequestMode::New)?;

    let mut up = LinkMessage::default();
    up.header.index = INDEX;
    up.header.flags = LinkFlags::Up;
    up.header.change_mask = LinkFlags::Up;
    netlink.request(RouteNetlinkMessage::SetLink(up), RequestMode::Changed)?;

    let mut neighbour = NeighbourMessage::default();
    neighbour.header.family = AddressFamily::Inet;
    neighbour.header.ifindex = INDEX;
    neighbour.header.state = NeighbourState::Permanent;
    neighbour.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(peer.address)),
        NeighbourAttribute::LinkLayerAddress(peer.hardware()),
    ];
    netlink.request(RouteNetlinkMessage::NewNeighbour(neighbour), RequestMode::Set)
}

/// Sets a sysctl of the calling thread's network namespace. Sysctls of the whole host do not exist there, or
/// refuse to be written.
pub(super) fn set_sysctl(name: &str, value: &str) -> io::Result<()> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if !name.starts_with("net.") || name.contains("..") || !name.chars().all(is_plain) {
        let what = format!("`{name}` is not a sysctl of a network namespace: their names begin with `net.`");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    // Does not create a missing file: that would report a mistyped name as "permission denied".
    let file = std::fs::OpenOptions::new().write(true).open(path);
    file.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|error| explained(&format!("setting {name} to {value}"), &error))
}

/// Prefixes an error with the action that failed.
pub(super) fn explained(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::SocketAddr;

    use kqps_skips::{Capability, skip};

    use super::*;
    use crate::namespace::joined::joined;
    use crate::sys::get_option;
    use crate::udp::{Peer, UdpOptions, UdpSocket};

    /// From linux/ethtool.h: reads whether generic receive offload is on.
    const ETHTOOL_GGRO: u32 = 0x2b;
    /// From linux/ethtool.h: reads whether the device computes checksums.
    const ETHTOOL_GTXCSUM: u32 = 0x16;

    #[test]
    fn devices_are_as_they_were_asked_for() {
        let settings = VethSettings {
            queues: Some(2),
            txqueuelen: Some(77),
            rps_cpus: Some(vec![0]),
            gro: Some(true),
            sysctls: [("net.ipv4.ip_default_ttl".to_string(), "33".to_string())].into(),
        };
        let Some((one, other)) = joined(&settings) else { return };
        let host = fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").unwrap();
        for namespace in [&one, &other] {
            assert_eq!(namespace.within(|| value::ethtool(DEVICE, ETHTOOL_GGRO, 0)).unwrap(), 1);
            let settings = namespace.within(|| {
                // From here on, /sys shows the devices of this namespace.
                device::spread(DEVICE, &[0])?;
                let of = |name: &str| fs::read_to_string(format!("/sys/class/net/{DEVICE}/{name}"));
                let ttl = fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl")?;
                Ok([of("tx_queue_len")?, of("queues/rx-1/rps_cpus")?, of("operstate")?, ttl])
            });
            assert_eq!(settings.unwrap().map(|text| text.trim().to_string()), ["77", "1", "up", "33"]);
        }
        assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").unwrap(), host);
        assert!(!fs::read_to_string("/proc/net/dev").unwrap().contains(DEVICE), "it is on the host");
    }

    #[test]
    fn checksums_are_completed_at_one_end_alone() {
        let Some((one, other)) = joined(&VethSettings::default()) else { return };
        let leaves_them =
            |namespace: &NetNs| namespace.within(|| value::ethtool(DEVICE, ETHTOOL_GTXCSUM, 0)).unwrap() != 0;
        assert!(leaves_them(&one) && leaves_them(&other));
        one.within(complete_checksums).unwrap();
        assert!(!leaves_them(&one) && leaves_them(&other));
    }

    #[test]
    fn datagrams_leave_in_fragments_unless_they_must_not() {
        let Some((one, _other)) = joined(&VethSettings::default()) else { return };
        let sent = one.within(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0).into(), &UdpOptions::default())?;
            let to = Peer { address: SocketAddr::from(([198, 18, 0, 2], 9)).into(), asked: None };
            let send = |bytes| socket.send(&vec![0; bytes], &to).map_err(|error| error.raw_os_error());
            let in_fragments = send(1473);
            socket.never_fragment()?;
            Ok([in_fragments, send(1473), send(1472)])
        });
        // The MTU of the device is 1500 bytes, 28 of which are headers.
        assert_eq!(sent.unwrap(), [Ok(()), Err(Some(libc::EMSGSIZE)), Ok(())]);
    }

    #[test]
    fn a_socket_of_either_family_can_forbid_fragments() {
        for (address, level, name, whole) in [
            ("127.0.0.1:0", libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
            ("[::1]:0", libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
        ] {
            let Ok(socket) = UdpSocket::bind(address.parse().unwrap(), &UdpOptions::default()) else {
                skip(Capability::Ipv6, format!("{address}: this host lacks its family"));
                continue;
            };
            socket.never_fragment().unwrap();
            let set: libc::c_int = get_option(socket.as_raw_fd(), level, name).unwrap();
            assert_eq!(set, whole, "{address}");
        }
    }

    #[test]
    fn a_device_goes_with_the_namespace_of_the_other() {
        let Some((one, other)) = joined(&VethSettings::default()) else { return };
        let has_device = |namespace: &NetNs| {
            let devices = namespace.within(|| fs::read_to_string("/proc/thread-self/net/dev"));
            devices.unwrap().contains(DEVICE)
        };
        assert!(has_device(&one));
        drop(other);
        // The kernel removes a namespace on another thread.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while has_device(&one) {
            assert!(std::time::Instant::now() < deadline, "the device outlived its peer");
            std::thread::yield_now();
        }
    }

    #[test]
    fn only_settings_of_a_namespace_are_set() {
        for (name, why) in [
            ("kernel.panic", "`kernel.panic` is not a sysctl of a network namespace"),
            ("net/../kernel/panic", "is not a sysctl of a network namespace"),
            ("net.ipv4.no_such_thing", "setting net.ipv4.no_such_thing to 1: "),
        ] {
            let error = set_sysctl(name, "1").unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
