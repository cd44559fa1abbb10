//! Targets and source addresses that a load may have: a load generator is a weapon.
//! Loopback, this host's own addresses and the benchmarking network 198.18.0.0/15 (RFC 2544, appendix C.2.2)
//! are always allowed as targets, any other address if the user names it twice. An address of another network
//! namespace on this host is not allowed, since a packet from here may go to another machine with the same
//! address. A source must be one of this host's own addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use kqps_kernel::local_address::is_local;
use kqps_player::Sources;

use crate::exit::bad_input;

/// A network that the user allows: `ADDR` or `ADDR/PREFIX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    address: IpAddr,
    prefix: u32,
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected ADDR or ADDR/PREFIX, such as 192.0.2.0/24, found `{text}`");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let longest = bits(address).1;
        let prefix = prefix.map_or(Ok(longest), |prefix| prefix.parse().map_err(|_| expected()))?;
        if prefix > longest { Err(expected()) } else { Ok(Self { address, prefix }) }
    }
}

impl Allowed {
    pub(super) fn contains(self, address: IpAddr) -> bool {
        let ((ours, length), (theirs, other)) = (bits(self.address), bits(address));
        let shift = length - self.prefix;
        length == other && (shift >= 128 || ours >> shift == theirs >> shift)
    }
}

/// An address as a number, and its length in bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

/// Refuses a target that is neither on this host, nor in the benchmarking network, nor in one that the user allows.
pub(super) fn check_target(address: SocketAddr, allowed: &[Allowed]) -> anyhow::Result<()> {
    let benchmarking = Allowed { address: IpAddr::from([198, 18, 0, 0]), prefix: 15 };
    let ip = address.ip();
    if is_local(address) || benchmarking.contains(ip) || allowed.iter().any(|network| network.contains(ip)) {
        return Ok(());
    }
    Err(bad_input(refusal(ip, is_local(([127, 0, 0, 1], 0).into()))))
}

/// Why a target is refused. `is_lo_up` is whether this host has 127.0.0.1, which it has not while `lo` is down.
fn refusal(ip: IpAddr, is_lo_up: bool) -> String {
    if ip.is_loopback() && !is_lo_up {
        return format!(
            "{ip} is on this host, but the interface lo is down: bring it up by `ip link set lo up`"
        );
    }
    format!(
        "{ip} is not on this host. A load can bring a server and its network down: if both are yours, \
         allow it with --allow-target {ip}"
    )
}

/// Refuses sources that do not belong to this host. The kernel may bind a socket to such an address
/// (`net.ipv6.ip_nonlocal_bind`), and replies would then go to another host. The unspecified address is
/// allowed.
pub(crate) fn check_sources(sources: &Sources, sockets: usize) -> anyhow::Result<()> {
    let distinct: BTreeSet<IpAddr> = (0..sockets).map(|number| sources.of_socket(number)).collect();
    check_own(distinct)
}

/// Refuses addresses that do not belong to this host, but for the unspecified one.
pub(super) fn check_own(sources: impl IntoIterator<Item = IpAddr>) -> anyhow::Result<()> {
    match sources.into_iter().find(|source| !source.is_unspecified() && !is_local((*source, 0).into())) {
        None => Ok(()),
        Some(foreign) => Err(bad_input(format!(
            "-a: this host has no address {foreign}; it sends from its own addresses only, or replies would go to others"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_lo_is_refused_because_lo_is_down() {
        let said = |ip: &str, is_lo_up| refusal(ip.parse().unwrap(), is_lo_up);
        for ip in ["127.0.0.1", "127.3.2.1", "::1"] {
            assert!(said(ip, false).contains("the interface lo is down"), "{ip}");
        }
        assert!(said("192.0.2.1", false).contains("--allow-target 192.0.2.1"));
        assert!(said("::1", true).contains("is not on this host"), "IPv6 may be off");
    }

    #[test]
    fn sources_are_addresses_of_this_host() {
        let check = |text: &str, sockets| check_sources(&text.parse().unwrap(), sockets);
        for own in ["127.0.0.1", "127.1.0.0/16", "::1", "0.0.0.0", "::"] {
            assert!(check(own, 300).is_ok(), "{own}");
        }
        assert!(check("192.0.2.77", 1).unwrap_err().to_string().contains("no address 192.0.2.77"));
        assert!(check("2001:db8::77", 1).unwrap_err().to_string().contains("no address 2001:db8::77"));
        // The check covers the addresses of a prefix that sockets use, and no others.
        assert!(check("::/124", 1).is_ok());
        assert!(check("::/124", 3).unwrap_err().to_string().contains("no address ::2"));
    }
}
