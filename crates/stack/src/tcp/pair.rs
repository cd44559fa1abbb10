//! The addresses and ports of a connection, in 40 bytes, and their hash.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::ends::ipv6;

/// The local and the remote end of a connection. Addresses of IPv4 are mapped to IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    local: [u64; 2],
    remote: [u64; 2],
    /// The local port in the upper half.
    ports: u32,
}

impl Pair {
    #[inline]
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        let ports = (u32::from(local.port()) << 16) | u32::from(remote.port());
        Self { local: halves(local.ip()), remote: halves(remote.ip()), ports }
    }

    #[inline]
    pub(super) fn local(&self) -> SocketAddr {
        SocketAddr::new(address(self.local), (self.ports >> 16) as u16)
    }

    #[inline]
    pub(super) fn remote(&self) -> SocketAddr {
        SocketAddr::new(address(self.remote), self.ports as u16)
    }

    /// A hash that nobody foresees who does not know the key.
    #[inline]
    pub(super) fn hash(&self, key: [u64; 2]) -> u64 {
        let local = fold(self.local[0] ^ key[0], self.local[1] ^ key[1]);
        let remote = fold(self.remote[0] ^ key[1], self.remote[1] ^ key[0].rotate_left(32));
        let ports = fold(u64::from(self.ports) ^ key[0], key[1] | 1);
        fold(local ^ ports, remote ^ key[1])
    }
}

/// Both halves of a product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn halves(address: IpAddr) -> [u64; 2] {
    let bits = ipv6(address).to_bits();
    [(bits >> 64) as u64, bits as u64]
}

#[inline]
fn address(halves: [u64; 2]) -> IpAddr {
    let address = Ipv6Addr::from_bits((u128::from(halves[0]) << 64) | u128::from(halves[1]));
    address.to_ipv4_mapped().map_or(address.into(), Into::into)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KEY: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

    #[test]
    fn addresses_and_ports_come_back() {
        for (local, remote) in [("192.0.2.1:65535", "198.51.100.7:53"), ("[2001:db8::1]:1", "[fe80::9]:853")] {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            let pair = Pair::new(local, remote);
            assert_eq!((pair.local(), pair.remote()), (local, remote));
        }
        assert_eq!(size_of::<Pair>(), 40);
    }

    #[test]
    fn neighbours_have_hashes_far_apart() {
        let remote: SocketAddr = "192.0.2.53:53".parse().unwrap();
        let pairs = (0..16_u8).flat_map(|host| (0..4096_u16).map(move |port| ([10, 0, 0, host], 30_000 + port)));
        let hashes: Vec<u64> =
            pairs.map(|(host, port)| Pair::new(SocketAddr::from((host, port)), remote).hash(KEY)).collect();
        assert_eq!(hashes.iter().collect::<BTreeSet<_>>().len(), 65_536);
        // In as many slots as pairs, 63 % of the slots are taken if hashes are as if random.
        for shift in [0, 16, 32, 48] {
            let taken: BTreeSet<u16> = hashes.iter().map(|hash| (hash >> shift) as u16).collect();
            assert!((40_000..43_000).contains(&taken.len()), "{} at bit {shift}", taken.len());
        }
    }
}
