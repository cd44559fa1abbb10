//! The front's own addresses. A query that the front sent there would come back to it, again and again, until its
//! table is full.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kqps_kernel::local_address::is_local;
use kqps_server::sockets::WorkerSockets;

use super::Policy;
use super::policy::Target;

pub(super) struct OwnAddresses {
    /// The addresses to which its sockets are bound, with the port that the kernel chose, if it did.
    addresses: Vec<SocketAddr>,
    /// Whether it accepts TCP connections there.
    tcp: bool,
}

impl OwnAddresses {
    /// The addresses of these workers.
    pub(super) fn from_workers(workers: &[WorkerSockets], tcp: bool) -> io::Result<Self> {
        let endpoints = workers.iter().flat_map(|worker| &worker.endpoints);
        let addresses =
            endpoints.map(|endpoint| endpoint.receiver.local_addr()).collect::<io::Result<_>>()?;
        Ok(Self { addresses, tcp })
    }

    /// Refuses a policy with a back end that is this front.
    pub(super) fn check(&self, policy: &Policy) -> Result<(), String> {
        match policy.back_ends.iter().find(|back_end| self.is_at(&back_end.target)) {
            Some(loops) => Err(format!("the back end {} is an address of this front", loops.target)),
            None => Ok(()),
        }
    }

    /// Whether queries to this target come back.
    pub(super) fn is_at(&self, target: &Target) -> bool {
        let address = match target {
            Target::Udp(address) => *address,
            Target::Tcp(address) if self.tcp => *address,
            Target::Tcp(_) | Target::Unix(_) => return false,
        };
        let reached = reached(address);
        self.addresses.iter().any(|&here| comes_in(reached, here))
    }
}

/// The address to which the kernel sends: an IPv4 address may be written as an IPv6 one (RFC 4291, section 2.5.5.2),
/// and the unspecified address means this host.
fn reached(mut address: SocketAddr) -> SocketAddr {
    address.set_ip(match address.ip().to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    });
    address
}

/// Whether packets to `reached` arrive at `here`, which may be the unspecified address of its family.
fn comes_in(reached: SocketAddr, here: SocketAddr) -> bool {
    let is_any = || {
        let is_one_family = reached.is_ipv4() == here.is_ipv4();
        here.ip().is_unspecified() && is_one_family && reached.port() == here.port() && is_local(reached)
    };
    reached == here || is_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_is_at_whatever_leads_to_it() {
        let front = |addresses: &[&str], tcp| OwnAddresses {
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            tcp,
        };
        let is_at = |own: &OwnAddresses, url: &str| own.is_at(&url.parse().unwrap());
        let one = front(&["127.0.0.1:53", "127.0.0.1:54", "[::1]:53"], true);
        for url in ["udp://127.0.0.1", "tcp://127.0.0.1:54", "udp://[::ffff:127.0.0.1]:54", "udp://[::1]"] {
            assert!(is_at(&one, url), "{url}");
        }
        for url in ["udp://127.0.0.1:55", "udp://127.0.0.2", "tcp://[::1]:54", "udp://192.0.2.1", "unix:x"] {
            assert!(!is_at(&one, url), "{url}");
        }
        // Packets to the unspecified address go to loopback.
        assert!(is_at(&one, "udp://0.0.0.0") && is_at(&one, "tcp://[::]"));
        let any = front(&["0.0.0.0:53"], true);
        for url in ["udp://127.0.0.1", "tcp://127.3.2.1", "udp://0.0.0.0", "udp://[::ffff:127.0.0.1]"] {
            assert!(is_at(&any, url), "{url}");
        }
        for url in ["udp://127.0.0.1:54", "udp://192.0.2.1", "udp://[::1]"] {
            assert!(!is_at(&any, url), "{url}");
        }
        assert!(is_at(&front(&["[::]:53"], true), "udp://[::1]"));
        // Another program may accept connections where this front accepts none.
        let by_udp = front(&["127.0.0.1:53"], false);
        assert!(is_at(&by_udp, "udp://127.0.0.1") && !is_at(&by_udp, "tcp://127.0.0.1"));
    }
}
