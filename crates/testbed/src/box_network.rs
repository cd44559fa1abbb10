//! The network of an Internet in a box: two namespaces that a veth pair joins. One is the world: it takes packets to all
//! addresses of some prefixes. The other is the home of a resolver, which sends everything to the world. No packet leaves
//! the host, since neither has another device.
//!
//! Both exist as long as a process, a socket or this value is in them, and end with the last of these, however that ends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kqps_kernel::namespace::veth::{self, End, VethSettings};
use kqps_kernel::namespace::{NetNs, new_routes, veth_v6};

/// Networks of the pair, of which the first is taken that holds no address of the world: for benchmarks (RFC 2544,
/// appendix C.2.2), for documents (RFC 5737), and a private one (RFC 1918).
const NETWORKS: [[u8; 3]; 5] = [[198, 18, 0], [192, 0, 2], [198, 51, 100], [203, 0, 113], [172, 31, 253]];

/// Likewise for IPv6: unique local addresses (RFC 4193), and those for documents (RFC 3849).
const NETWORKS_V6: [[u16; 4]; 2] = [[0xfd6b, 0x7170, 0x7300, 0], [0x2001, 0xdb8, 0xffff, 0xfffe]];

/// The last part of the address of each side.
const WORLD: u8 = 1;
const HOME: u8 = 2;

/// Two joined namespaces.
#[derive(Debug)]
pub struct BoxNetwork {
    world: NetNs,
    home: NetNs,
    addresses: PairAddresses,
}

/// The addresses of the devices, from networks that hold no address of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairAddresses {
    /// The IPv4 address of the world's device, and of the home's.
    pub v4: [Ipv4Addr; 2],
    /// Their IPv6 addresses.
    pub v6: [Ipv6Addr; 2],
}

impl BoxNetwork {
    /// Makes both namespaces, joins them, and routes. The world takes packets to these prefixes.
    ///
    /// # Errors
    ///
    /// Without the rights to administer the system and the network (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`), which
    /// `kqps probe` reports as `veth`; or if the prefixes leave no network for the pair.
    pub fn lay(prefixes: &[(IpAddr, u8)]) -> io::Result<Self> {
        let addresses = PairAddresses::beside(prefixes)?;
        let (world, home) = (NetNs::new()?, NetNs::new()?);
        let world_end = End { namespace: &world, address: addresses.v4[0] };
        let home_end = End { namespace: &home, address: addresses.v4[1] };
        veth::join(world_end, home_end, &VethSettings::default())?;
        veth_v6::add((world_end, addresses.v6[0]), (home_end, addresses.v6[1]))?;
        world.within(|| {
            prefixes.iter().try_for_each(|&(network, bits)| new_routes::take_prefix(network, bits))
        })?;
        home.within(|| {
            new_routes::add_default(addresses.v4[0].into())?;
            new_routes::add_default(addresses.v6[0].into())
        })?;
        Ok(Self { world, home, addresses })
    }

    /// The namespace that takes packets to all prefixes.
    pub fn world(&self) -> &NetNs {
        &self.world
    }

    /// The namespace of a resolver.
    pub fn home(&self) -> &NetNs {
        &self.home
    }

    /// The addresses of the pair.
    pub fn addresses(&self) -> PairAddresses {
        self.addresses
    }
}

impl PairAddresses {
    /// Addresses that no prefix holds.
    fn beside(prefixes: &[(IpAddr, u8)]) -> io::Result<Self> {
        let is_free = |address: IpAddr, bits| {
            !prefixes.iter().any(|&(network, length)| overlap((address, bits), (network, length)))
        };
        let v4 = NETWORKS.map(|[a, b, c]| [WORLD, HOME].map(|last| Ipv4Addr::new(a, b, c, last)));
        let v6 = NETWORKS_V6
            .map(|[a, b, c, d]| [WORLD, HOME].map(|last| Ipv6Addr::new(a, b, c, d, 0, 0, 0, last.into())));
        let v4 = v4.into_iter().find(|pair| is_free(pair[0].into(), 24));
        let v6 = v6.into_iter().find(|pair| is_free(pair[0].into(), 64));
        match (v4, v6) {
            (Some(v4), Some(v6)) => Ok(Self { v4, v6 }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the prefixes of the servers leave no network for the link between server and resolver",
            )),
        }
    }
}

/// Whether two networks have an address in common.
pub fn overlap((one, bits_of_one): (IpAddr, u8), (other, bits_of_other): (IpAddr, u8)) -> bool {
    let bits = u32::from(bits_of_one.min(bits_of_other));
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (one.to_bits() ^ other.to_bits()).checked_shr(32 - bits.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            (one.to_bits() ^ other.to_bits()).checked_shr(128 - bits.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(all: &[(&str, u8)]) -> Vec<(IpAddr, u8)> {
        all.iter().map(|(network, bits)| (network.parse().unwrap(), *bits)).collect()
    }

    #[test]
    fn the_pair_has_addresses_beside_those_of_the_world() {
        let beside = |all: &[(&str, u8)]| PairAddresses::beside(&prefixes(all));
        let usual = beside(&[("192.0.2.0", 24), ("2001:db8::", 32)]).unwrap();
        assert_eq!(usual.v4.map(|address| address.to_string()), ["198.18.0.1", "198.18.0.2"]);
        assert_eq!(usual.v6[1].to_string(), "fd6b:7170:7300::2");
        let other = beside(&[("198.18.0.0", 15), ("fd00::", 8), ("192.0.2.200", 32)]).unwrap();
        assert_eq!(other.v4[0].to_string(), "198.51.100.1");
        assert_eq!(other.v6[0].to_string(), "2001:db8:ffff:fffe::1");
        assert!(beside(&[("0.0.0.0", 0)]).unwrap_err().to_string().contains("leave no network"));
        assert!(beside(&[("::", 0)]).is_err());
    }

    #[test]
    fn networks_overlap_if_one_holds_the_other() {
        let net = |text: &str, bits| (text.parse::<IpAddr>().unwrap(), bits);
        assert!(overlap(net("10.0.0.0", 8), net("10.1.2.3", 32)) && overlap(net("::", 0), net("::1", 128)));
        assert!(!overlap(net("10.0.0.0", 9), net("10.128.0.0", 9)));
        assert!(!overlap(net("0.0.0.0", 0), net("::", 0)));
    }
}
