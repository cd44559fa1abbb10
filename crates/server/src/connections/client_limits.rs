//! The number of connections of each client.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// The number of connections of each client that has any, and how many it may have.
pub(super) struct ClientLimits {
    most: usize,
    connections: HashMap<IpAddr, usize>,
}

impl ClientLimits {
    /// No connections so far; each client may have at most `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { most, connections: HashMap::new() }
    }

    /// Counts a connection of this address. Returns false if the client has too many.
    pub(super) fn enter(&mut self, address: IpAddr) -> bool {
        let connections = self.connections.entry(client(address)).or_default();
        let may = *connections < self.most;
        *connections += usize::from(may);
        may
    }

    /// Counts one connection of this address less.
    pub(super) fn leave(&mut self, address: IpAddr) {
        let client = client(address);
        if let Some(connections) = self.connections.get_mut(&client) {
            *connections -= 1;
            if *connections == 0 {
                self.connections.remove(&client);
            }
        }
    }
}

/// The client behind an address: a host with one IPv6 address usually has the 2⁶⁴ addresses
/// of its network.
fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_share() {
        let mut clients = ClientLimits::new(2);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(clients.enter(address("192.0.2.1")));
        assert!(clients.enter(address("192.0.2.1")));
        assert!(!clients.enter(address("192.0.2.1")));
        assert!(clients.enter(address("192.0.2.2")));
        clients.leave(address("192.0.2.1"));
        assert!(clients.enter(address("192.0.2.1")));
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let mut clients = ClientLimits::new(1);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(clients.enter(address("2001:db8::1")));
        assert!(!clients.enter(address("2001:db8::2")));
        assert!(clients.enter(address("2001:db8:0:1::1")));
        clients.leave(address("2001:db8::1"));
        assert!(clients.enter(address("2001:db8::2")));
        assert_eq!(clients.connections.len(), 2);
    }
}
