use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

use kqps_skips::{Capability, skip};

use super::*;
use crate::bpf;

const UDP: u8 = 17;
const TCP: u8 = 6;

/// A program that no device has, run on frames that no device received.
struct Loaded {
    program: OwnedFd,
    counters: OwnedFd,
    _sockets: OwnedFd,
}

impl Loaded {
    /// Loads the program of a filter, if this process may.
    fn new(filter: &Filter) -> Option<Self> {
        let sockets = match bpf::sockets(1) {
            Ok(sockets) => sockets,
            Err(error) => {
                skip(Capability::Root, format!("a map for BPF programs: {error}"));
                return None;
            }
        };
        let counters = bpf::counters(COUNTERS).unwrap();
        let code = program(filter, sockets.as_fd(), counters.as_fd()).unwrap();
        Some(Self { program: bpf::load(&code, bpf::OF_XDP).unwrap(), counters, _sockets: sockets })
    }

    /// Whether a frame matches. Since no queue has a socket, it then counts as unclaimed.
    fn matches(&self, frame: &[u8]) -> bool {
        let count = |counter| bpf::sum(self.counters.as_fd(), counter).unwrap();
        let before = count(UNCLAIMED);
        assert_eq!(bpf::run(self.program.as_fd(), frame).unwrap(), XDP_PASS as u32);
        assert_eq!(count(MATCHED), 0);
        count(UNCLAIMED) > before
    }
}

/// Frames to `198.18.0.0/15` and `2001:db8:ff00::/40`, and to ports from 5000 to 5999.
fn filter() -> Filter {
    let prefix = |address: &str, bits| Prefix { address: address.parse().unwrap(), bits };
    Filter {
        device: 1,
        own: vec![prefix("203.0.113.7", 32), prefix("198.18.0.0", 15), prefix("2001:db8:ff00::", 40)],
        ports: 5000..=5999,
        peers: Vec::new(),
        protocols: Protocols::Both,
        vlan: None,
        untagged: false,
    }
}

/// A frame with a packet between two addresses of one family, behind VLAN tags of a type and a number.
fn frame(tags: &[(u16, u16)], protocol: u8, from: &str, to: &str) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut frame = vec![2; 12];
    for (kind, number) in tags {
        frame.extend(kind.to_be_bytes());
        // With a priority, which does not count.
        frame.extend((number | 0xe000).to_be_bytes());
    }
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    if from.is_ipv4() {
        // Version, length, number, do not fragment, hops, protocol, checksum.
        frame.extend([0x08, 0x00, 0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, protocol, 64]);
    }
    frame.extend([octets(from), octets(to)].concat());
    frame.extend([from.port().to_be_bytes(), to.port().to_be_bytes()].concat());
    frame.extend([0; 12]);
    frame
}

#[test]
fn destinations_count_by_address_and_port() {
    let Some(loaded) = Loaded::new(&filter()) else { return };
    for (to, wanted) in [
        ("198.18.0.0:5000", true),
        ("198.19.255.255:5999", true),
        ("198.20.0.0:5300", false),
        ("198.17.255.255:5300", false),
        ("203.0.113.7:5300", true),
        ("203.0.113.6:5300", false),
        ("198.18.0.1:4999", false),
        ("198.18.0.1:6000", false),
        ("198.18.0.1:35859", false),
    ] {
        for protocol in [UDP, TCP] {
            assert_eq!(loaded.matches(&frame(&[], protocol, "192.0.2.1:53", to)), wanted, "{to}");
        }
    }
    for (to, wanted) in [
        ("[2001:db8:ff00::1]:5300", true),
        ("[2001:db8:ffff:ffff::]:5300", true),
        ("[2001:db8:fe00::1]:5300", false),
        ("[2001:db9:ff00::1]:5300", false),
        ("[2001:db8:ff00::1]:53", false),
    ] {
        assert_eq!(loaded.matches(&frame(&[], UDP, "[2001:db8::1]:53", to)), wanted, "{to}");
    }
}

#[test]
fn sources_count_if_there_are_peers() {
    let peers = ["192.0.2.1:53", "192.0.2.2:5353", "[2001:db8::1]:53"];
    let peers = peers.map(|peer| peer.parse::<SocketAddr>().unwrap()).to_vec();
    let Some(loaded) = Loaded::new(&Filter { peers, ..filter() }) else { return };
    for (from, wanted) in [
        ("192.0.2.1:53", true),
        ("192.0.2.2:5353", true),
        ("192.0.2.2:53", false),
        ("192.0.2.3:53", false),
        ("[2001:db8::1]:53", true),
        ("[2001:db8::1]:54", false),
        ("[2001:db8:0:1::1]:53", false),
    ] {
        let to = if from.starts_with('[') { "[2001:db8:ff00::1]:5300" } else { "198.18.0.1:5300" };
        assert_eq!(loaded.matches(&frame(&[], UDP, from, to)), wanted, "{from}");
    }
}

#[test]
fn a_family_without_peers_does_not_match() {
    let peers = vec!["[2001:db8::1]:53".parse().unwrap()];
    let Some(loaded) = Loaded::new(&Filter { peers, ..filter() }) else { return };
    assert!(!loaded.matches(&frame(&[], UDP, "192.0.2.1:53", "198.18.0.1:5300")));
    assert!(loaded.matches(&frame(&[], UDP, "[2001:db8::1]:53", "[2001:db8:ff00::1]:5300")));
}

#[test]
fn a_prefix_without_bits_takes_every_address() {
    let own = vec![Prefix { address: "::".parse().unwrap(), bits: 0 }];
    let Some(loaded) = Loaded::new(&Filter { own, ..filter() }) else { return };
    assert!(loaded.matches(&frame(&[], UDP, "[2001:db8::1]:53", "[2001:db8:1::1]:5300")));
    assert!(!loaded.matches(&frame(&[], UDP, "192.0.2.1:53", "198.18.0.1:5300")));
}

#[test]
fn protocols_count() {
    let (from, to) = ("192.0.2.1:53", "198.18.0.1:5300");
    for (protocols, udp, tcp) in
        [(Protocols::Udp, true, false), (Protocols::Tcp, false, true), (Protocols::Both, true, true)]
    {
        let Some(loaded) = Loaded::new(&Filter { protocols, ..filter() }) else { return };
        let matches = |protocol| loaded.matches(&frame(&[], protocol, from, to));
        // The third is ICMP.
        assert_eq!([matches(UDP), matches(TCP), matches(1)], [udp, tcp, false], "{protocols:?}");
    }
}

/// The tags of a frame, and whether a filter takes it: without a VLAN, with its VLAN, and with that or no tag.
type Case<'a> = (&'a [(u16, u16)], [bool; 3]);

#[test]
fn a_vlan_takes_its_own_tag_and_perhaps_none() {
    let (from, to) = ("192.0.2.1:53", "198.18.0.1:5300");
    let Some(plain) = Loaded::new(&filter()) else { return };
    let Some(tagged) = Loaded::new(&Filter { vlan: Some(7), ..filter() }) else { return };
    let Some(either) = Loaded::new(&Filter { vlan: Some(7), untagged: true, ..filter() }) else { return };
    let cases: [Case<'_>; 5] = [
        (&[], [true, false, true]),
        (&[(0x8100, 7)], [false, true, true]),
        // The tag of a provider, which the stack does not read.
        (&[(0x88a8, 7)], [false; 3]),
        (&[(0x8100, 8)], [false; 3]),
        (&[(0x8100, 7), (0x8100, 7)], [false; 3]),
    ];
    for (tags, wanted) in cases {
        let frame = frame(tags, UDP, from, to);
        assert_eq!([&plain, &tagged, &either].map(|filter| filter.matches(&frame)), wanted, "{tags:?}");
    }
}

#[test]
fn what_needs_the_stack_goes_to_it() {
    let Some(loaded) = Loaded::new(&filter()) else { return };
    let v4 = frame(&[], UDP, "192.0.2.1:53", "198.18.0.1:5300");
    let v6 = frame(&[], UDP, "[2001:db8::1]:53", "[2001:db8:ff00::1]:5300");
    let changed = |frame: &[u8], at: usize, byte: u8| {
        let mut frame = frame.to_vec();
        frame[at] = byte;
        loaded.matches(&frame)
    };
    assert!(loaded.matches(&v4) && loaded.matches(&v6));
    assert!(!changed(&v4, 14, 0x46), "options");
    assert!(!changed(&v4, 14, 0x65), "another version");
    assert!(!changed(&v4, 20, 0x20), "more fragments follow");
    assert!(!changed(&v4, 21, 1), "a later fragment");
    assert!(changed(&v4, 20, 0), "it may be fragmented, but is not");
    assert!(!changed(&v6, 14, 0x45), "another version");
    assert!(changed(&v6, 15, 0xff), "a flow label");
    assert!(!changed(&v6, 20, 44), "a fragment header");
    assert!(!changed(&v6, 20, 0), "hop-by-hop options");
    assert!(!changed(&v4, 13, 0x06), "ARP");
    for whole in [&v4, &v6] {
        let headers = whole.len() - 8;
        assert!(loaded.matches(&whole[..headers]), "ports and four bytes more");
        for bytes in 14..headers {
            assert!(!loaded.matches(&whole[..bytes]), "the first {bytes} bytes");
        }
    }
}

#[test]
fn the_verifier_takes_many_addresses() {
    let own = (0..=255).map(|last| Prefix::of_one([198, 18, 0, last].into())).collect();
    let peers = (0..=255).map(|last| SocketAddr::from(([192, 0, 2, last], 53))).collect();
    let Some(loaded) = Loaded::new(&Filter { own, peers, ..filter() }) else { return };
    assert!(loaded.matches(&frame(&[], UDP, "192.0.2.255:53", "198.18.0.255:5300")));
    assert!(!loaded.matches(&frame(&[], UDP, "192.0.3.255:53", "198.18.0.255:5300")));
}

#[test]
#[allow(clippy::reversed_empty_ranges)] // that is what is tried
fn a_filter_that_matches_nothing_is_an_error() {
    let none = File::open("/dev/null").unwrap();
    let bad = |filter: Filter| program(&filter, none.as_fd(), none.as_fd()).unwrap_err().to_string();
    assert!(bad(Filter { own: Vec::new(), ..filter() }).contains("destination address"));
    let own = vec![Prefix { address: [198, 18, 0, 0].into(), bits: 33 }];
    assert!(bad(Filter { own, ..filter() }).contains("198.18.0.0/33"));
    assert!(bad(Filter { ports: 2..=1, ..filter() }).contains("ports"));
    assert!(bad(Filter { vlan: Some(4096), ..filter() }).contains("VLAN"));
    let own = vec![Prefix::of_one([198, 18, 0, 1].into())];
    let peers = vec!["[2001:db8::1]:53".parse().unwrap()];
    assert!(bad(Filter { own, peers, ..filter() }).contains("family"));
}
