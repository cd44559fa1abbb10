//! The two ends of a connection in little memory, as the key of a table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Segment;

/// Client and server of a connection: 38 bytes instead of the 64 of two `SocketAddr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    client: [u8; 16],
    server: [u8; 16],
    client_port: u16,
    server_port: u16,
    is_v6: bool,
}

impl Ends {
    pub(super) fn from_segment(segment: &Segment<'_>) -> Self {
        if segment.to_server {
            Self::between(segment.from, segment.to)
        } else {
            Self::between(segment.to, segment.from)
        }
    }

    pub(super) fn between(client: SocketAddr, server: SocketAddr) -> Self {
        let is_v6 = client.is_ipv6() || server.is_ipv6();
        Self {
            client: octets(client.ip(), is_v6),
            server: octets(server.ip(), is_v6),
            client_port: client.port(),
            server_port: server.port(),
            is_v6,
        }
    }

    pub(super) fn client(&self) -> SocketAddr {
        SocketAddr::new(address(self.client, self.is_v6), self.client_port)
    }

    pub(super) fn server(&self) -> SocketAddr {
        SocketAddr::new(address(self.server, self.is_v6), self.server_port)
    }
}

/// The bytes of an address. An IPv4 address takes the first four.
fn octets(address: IpAddr, is_v6: bool) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) if is_v6 => address.to_ipv6_mapped().octets(),
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}

fn address(octets: [u8; 16], is_v6: bool) -> IpAddr {
    if is_v6 {
        IpAddr::V6(Ipv6Addr::from(octets))
    } else {
        let [a, b, c, d, ..] = octets;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_the_same_in_both_directions() {
        let pairs = [("192.0.2.1:4000", "198.51.100.7:53"), ("[2001:db8::1]:4000", "[::ffff:192.0.2.1]:53")];
        for (client, server) in pairs {
            let (from, to): (SocketAddr, SocketAddr) =
                (client.parse().expect("an address"), server.parse().expect("an address"));
            let there = Segment {
                at_ns: 0,
                from,
                to,
                to_server: true,
                sequence: 0,
                syn: false,
                fin: false,
                rst: false,
                payload: &[],
                missing: 0,
            };
            let back = Segment { from: to, to: from, to_server: false, ..there };
            assert_eq!(Ends::from_segment(&there), Ends::from_segment(&back));
            assert_eq!((Ends::from_segment(&back).client(), Ends::from_segment(&back).server()), (from, to));
        }
    }
}
