//! The network of the servers and of the resolver: two namespaces, or loopback.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use anyhow::{Context as _, anyhow};
use kqps_kernel::namespace::{self, NetNs};
use kqps_kernel::probe::probe_one;
use kqps_testbed::box_network::{BoxNetwork, overlap};

/// Where the servers answer.
pub(super) enum Network {
    /// In a namespace of their own, joined to that of the resolver. `host` is the one that kqps started in.
    Namespaces { laid: Box<BoxNetwork>, host: NetNs },
    /// On loopback.
    Loopback,
}

/// Whether a server with this address can be reached: on loopback, or in a namespace of its own.
pub(super) fn can_have(address: IpAddr, on_loopback: bool) -> bool {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let is_of_a_host = !address.is_unspecified() && !address.is_multicast();
    is_of_a_host && check(&[(address, bits)], on_loopback).is_ok()
}

/// Checks whether servers with addresses of these prefixes can be reached: on loopback, or in a namespace of their own.
pub(super) fn check(prefixes: &[(IpAddr, u8)], on_loopback: bool) -> Result<(), String> {
    let is_loopback = |address: &IpAddr| matches!(address, IpAddr::V4(ip) if ip.is_loopback());
    if on_loopback {
        return match prefixes.iter().find(|(address, bits)| !is_loopback(address) || *bits < 8) {
            Some((address, _)) => Err(format!(
                "--loopback: a server has the address {address}, and only addresses of 127.0.0.0/8 reach this process \
                 there; give servers such addresses by --server, or by `--set addresses.ipv4=127.64.0.0/16 \
                 --set addresses.ipv6=`, or leave --loopback out"
            )),
            None => Ok(()),
        };
    }
    for (name, (network, bits)) in [
        ("loopback", (Ipv4Addr::new(127, 0, 0, 0).into(), 8)),
        ("loopback", (Ipv6Addr::LOCALHOST.into(), 128)),
        ("a link's own", (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0).into(), 10)),
    ] {
        if let Some((address, _)) = prefixes.iter().find(|prefix| overlap(**prefix, (network, bits))) {
            return Err(format!(
                "a server has the address {address}, which is {name}, so the resolver would ask itself and not the \
                 server; choose another address, or serve addresses of 127.0.0.0/8 with --loopback PORT"
            ));
        }
    }
    Ok(())
}

impl Network {
    /// Makes the namespaces, of which that of the servers takes packets to these prefixes.
    pub(super) fn lay(prefixes: &[(IpAddr, u8)]) -> anyhow::Result<Self> {
        if let Err(reason) = probe_one("veth") {
            return Err(anyhow!(
                "the servers and the resolver need network namespaces of their own, and this process may not make \
                 them: {reason}; run it as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN, or use --loopback PORT, \
                 which shows less (see --help)"
            ));
        }
        let host = NetNs::of_this_process()?;
        let laid = BoxNetwork::lay(prefixes).context("making the networks of servers and resolver")?;
        Ok(Self::Namespaces { laid: Box::new(laid), host })
    }

    /// The resolver's namespace; `None` on loopback.
    pub(super) fn home(&self) -> Option<&NetNs> {
        match self {
            Self::Namespaces { laid, .. } => Some(laid.home()),
            Self::Loopback => None,
        }
    }

    /// The namespaces; `None` on loopback.
    pub(super) fn laid(&self) -> Option<&BoxNetwork> {
        match self {
            Self::Namespaces { laid, .. } => Some(laid),
            Self::Loopback => None,
        }
    }

    /// Calls `act`, which opens sockets and starts threads, among the servers. The calling thread is back afterwards.
    pub(super) fn within<T>(&self, act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        match self {
            Self::Loopback => act(),
            Self::Namespaces { laid, host } => {
                namespace::move_into(laid.world())?;
                let done = act();
                namespace::move_into(host)?;
                done
            }
        }
    }

    /// Makes a command start at the resolver's place.
    pub(super) fn place(&self, command: &mut Command) -> io::Result<()> {
        self.home().map_or(Ok(()), |home| namespace::enter(command, home).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_addresses_of_its_own_alone() {
        let loopback = |all: &[(&str, u8)]| check(&prefixes(all), true);
        assert_eq!(loopback(&[("127.0.0.1", 32), ("127.53.0.0", 16)]), Ok(()));
        for other in [("192.0.2.1", 32), ("::1", 128), ("127.0.0.0", 7)] {
            assert!(loopback(&[other]).is_err_and(|why| why.contains("127.0.0.0/8")), "{other:?}");
        }
    }

    fn prefixes(all: &[(&str, u8)]) -> Vec<(IpAddr, u8)> {
        all.iter().map(|(ip, bits)| (ip.parse().unwrap(), *bits)).collect()
    }

    #[test]
    fn networks_have_no_addresses_of_the_resolver_itself() {
        let laid = |all: &[(&str, u8)]| check(&prefixes(all), false);
        assert_eq!(laid(&[("192.0.2.1", 32), ("2001:db8::", 32), ("169.254.1.1", 32)]), Ok(()));
        for odd in [("127.0.1.1", 32), ("64.0.0.0", 2), ("::1", 128), ("fe80::1", 128)] {
            assert!(laid(&[odd]).is_err_and(|why| why.contains("--loopback PORT")), "{odd:?}");
        }
    }
}
