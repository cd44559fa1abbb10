//! The servers that were asked in a capture. A resolver's capture has its own queries as well, which it asks of others.

use std::net::IpAddr;

use super::clients::{ClientKey, address_bytes};

/// The most servers that are counted one by one.
pub(super) const SERVERS_MOST: usize = 64;

/// The addresses of servers, the one that was asked last in the first place.
#[derive(Default)]
pub(super) struct Servers {
    known: Vec<IpAddr>,
}

impl Servers {
    /// Takes note of a server that was asked.
    #[inline]
    pub(super) fn see(&mut self, server: IpAddr) {
        if self.known.first() != Some(&server) && self.known.len() < SERVERS_MOST {
            self.find(server);
        }
    }

    fn find(&mut self, server: IpAddr) {
        let known = self.known.iter().position(|known| *known == server);
        let place = known.unwrap_or_else(|| {
            self.known.push(server);
            self.known.len() - 1
        });
        self.known.swap(0, place);
    }

    /// How many there are, at most [`SERVERS_MOST`].
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// How many of them are clients, too.
    pub(super) fn asking(&self, clients: &[ClientKey]) -> u32 {
        let mut servers: Vec<[u8; 16]> = self.known.iter().map(|server| address_bytes(*server)).collect();
        servers.sort_unstable();
        let mut asking = vec![false; servers.len()];
        for [address @ .., _, _] in clients {
            if let Ok(place) = servers.binary_search(address) {
                asking[place] = true;
            }
        }
        asking.into_iter().map(u32::from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::clients::key_of;
    use crate::options::Client;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn servers_are_counted_once_and_those_that_ask_are_known() {
        let mut servers = Servers::default();
        for server in ["192.0.2.1", "192.0.2.2", "192.0.2.1", "2001:db8::1", "192.0.2.2"] {
            servers.see(address(server));
        }
        assert_eq!(servers.len(), 3);
        let clients = ["192.0.2.2:53", "192.0.2.2:1000", "192.0.2.9:1", "[2001:db8::2]:1"];
        let clients = clients.map(|client| key_of(client.parse().expect("an end"), Client::AddressAndPort));
        assert_eq!((servers.asking(&clients), servers.asking(&[])), (1, 0));
    }

    #[test]
    fn the_number_of_servers_is_bounded() {
        let mut servers = Servers::default();
        for number in 0..1000 {
            servers.see(IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
        }
        assert_eq!(servers.len(), SERVERS_MOST);
    }
}
