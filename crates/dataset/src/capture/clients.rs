//! The clients of a capture: numbers for their addresses, and the networks that they share. Addresses are forgotten
//! when the capture is compiled.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::numbers::Numbers;
use crate::facts::ClientPlace;
use crate::options::Client;

/// The bytes by which a client is known: an address, of IPv4 in its form for IPv6, and a port or 0.
pub(super) type ClientKey = [u8; 18];

/// The bytes of /24 of IPv4 or /48 of IPv6, after a byte for the family.
type NetworkKey = [u8; 7];

/// The key of a client, by its address and port.
pub(super) fn key_of(client: SocketAddr, by: Client) -> ClientKey {
    let mut key = [0; 18];
    key[..16].copy_from_slice(&address_bytes(client.ip()));
    if by == Client::AddressAndPort {
        key[16..].copy_from_slice(&client.port().to_be_bytes());
    }
    key
}

/// An address as 16 bytes.
pub(super) fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Hands on the place of each client, in the order of their numbers, and returns the number of clients of each network.
pub(super) fn places(
    clients: Numbers<18>,
    mut each: impl FnMut(ClientPlace) -> io::Result<()>,
) -> io::Result<Vec<u32>> {
    let mut networks = Numbers::<7>::new();
    let mut sizes: Vec<u32> = Vec::new();
    for client in clients.into_keys() {
        let network = networks.number(&network_of(&client));
        if network as usize == sizes.len() {
            sizes.push(0);
        }
        let member = &mut sizes[network as usize];
        each(ClientPlace { network, member: *member })?;
        *member += 1;
    }
    Ok(sizes)
}

fn network_of(client: &ClientKey) -> NetworkKey {
    let mut network = [0; 7];
    match client {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, address @ ..] => {
            network[0] = 4;
            network[1..4].copy_from_slice(&address[..3]);
        }
        address => {
            network[0] = 6;
            network[1..].copy_from_slice(&address[..6]);
        }
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_network_are_numbered_in_it() {
        let mut clients = Numbers::new();
        for client in [
            "192.0.2.1:1",
            "192.0.3.1:1",
            "192.0.2.77:1",
            "[2001:db8:1:2::1]:1",
            "[2001:db8:2::1]:1",
            "[2001:db8:1:3::1]:1",
            "192.0.2.1:2",
        ] {
            clients.number(&key_of(client.parse().expect("an address"), Client::Address));
        }
        assert_eq!(clients.len(), 6);
        let mut all = Vec::new();
        let sizes = places(clients, |place| {
            all.push((place.network, place.member));
            Ok(())
        });
        assert_eq!(all, [(0, 0), (1, 0), (0, 1), (2, 0), (3, 0), (2, 1)]);
        assert_eq!(sizes.expect("no error"), [2, 1, 2, 1]);
    }

    #[test]
    fn a_port_makes_another_client_if_asked_for() {
        let [one, other] = ["192.0.2.1:1", "192.0.2.1:2"].map(|client| client.parse().expect("an address"));
        assert_eq!(key_of(one, Client::Address), key_of(other, Client::Address));
        assert_ne!(key_of(one, Client::AddressAndPort), key_of(other, Client::AddressAndPort));
    }
}
