//! The addresses of `--listen`: what a server takes at each of them, and whether two of them take one port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use kqps_catalogue::choice::Transport;
use kqps_server::setup::Listen;

use crate::load::usual_port;
use crate::value::parse_listen;

/// An address to listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `None` for datagrams, and for connections by TCP if the server accepts any.
    pub(super) transport: Option<Transport>,
    pub(super) address: SocketAddr,
}

impl Place {
    /// Whether its scheme is that of a transport.
    pub(super) fn is_over(self, transport: Transport) -> bool {
        self.transport == Some(transport)
    }

    /// The address if it is for datagrams.
    pub(super) fn of_datagrams(self) -> Option<Listen> {
        let Self { transport, address } = self;
        let with_tcp = transport.is_none();
        (with_tcp || self.is_over(Transport::Udp)).then_some(Listen { address, with_tcp })
    }

    /// The protocols whose ports it takes, each with the number of ports. `with_tcp` says whether a plain address
    /// accepts connections too.
    fn takes(self, with_tcp: bool, workers: Ports) -> Vec<(Protocol, u32)> {
        let Ports { datagrams, connections } = workers;
        match self.transport {
            None if with_tcp => vec![(Protocol::Udp, datagrams), (Protocol::Tcp, datagrams)],
            None | Some(Transport::Udp) => vec![(Protocol::Udp, datagrams)],
            Some(Transport::Tcp | Transport::Tls | Transport::Https) => vec![(Protocol::Tcp, connections)],
            Some(Transport::Quic) => vec![(Protocol::Udp, connections)],
        }
    }
}

/// As the user types it.
impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transport.map_or(Ok(()), |transport| write!(out, "{}://", transport.word()))?;
        write!(out, "{}", self.address)
    }
}

/// Parses an address of `--listen`.
pub(super) fn parse_place(text: &str) -> Result<Place, String> {
    let Some((scheme, address)) = text.split_once("://") else {
        return parse_listen(text).map(|address| Place { transport: None, address });
    };
    let expected = "expected ADDR:PORT, or ADDR[:PORT] after udp://, tcp://, tls://, https:// or quic://";
    let transport = Transport::from_word(scheme).ok_or(expected)?;
    let address = parse_with_port(address, usual_port(transport))?;
    Ok(Place { transport: Some(transport), address })
}

/// Parses an address, which has the usual port unless it has another one.
fn parse_with_port(text: &str, usual: u16) -> Result<SocketAddr, String> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ip = bracketed.map_or_else(|| text.parse().ok(), |v6| v6.parse().ok().map(IpAddr::V6));
    match ip {
        Some(ip) => Ok(SocketAddr::new(ip, usual)),
        None => parse_listen(text),
    }
}

/// The number of consecutive ports that an address takes, from its own on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// For datagrams, and for connections by TCP beside them.
    pub(super) datagrams: u32,
    /// For connections alone.
    pub(super) connections: u32,
}

/// Protocols do not share ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Udp,
    Tcp,
}

/// Checks the ports of all addresses: none is above 65535, and no two addresses share one. `with_tcp` says whether
/// addresses without a scheme accept connections too. Addresses with port 0 cannot collide: the kernel chooses free
/// ports.
pub(super) fn check_ports(places: &[Place], with_tcp: bool, workers: Ports) -> Result<(), String> {
    let named: Vec<Place> = places.iter().copied().filter(|place| place.address.port() > 0).collect();
    for (at, &place) in named.iter().enumerate() {
        let taken = place.takes(with_tcp, workers);
        for &(_, ports) in &taken {
            let last = u32::from(place.address.port()) + ports - 1;
            if last > u32::from(u16::MAX) {
                return Err(format!(
                    "--listen {place}: {ports} workers with a port each would need ports up to {last}, and there \
                     are none above 65535"
                ));
            }
        }
        if named[..at].contains(&place) {
            return Err(format!("--listen {place} is given twice"));
        }
        for &other in &named[..at] {
            let of_other = other.takes(with_tcp, workers);
            let both = |&(protocol, ports): &(Protocol, u32)| {
                let (_, of_other) = of_other.iter().find(|(other, _)| *other == protocol)?;
                meet((other.address, *of_other), (place.address, ports))
            };
            if let Some(port) = taken.iter().find_map(both) {
                return Err(format!("--listen {other} and --listen {place} would both take port {port}"));
            }
        }
    }
    Ok(())
}

/// The first port that two addresses have in common, each with a number of consecutive ports.
fn meet((one, ports_of_one): (SocketAddr, u32), (other, ports_of_other): (SocketAddr, u32)) -> Option<u16> {
    let is_same_family = one.is_ipv4() == other.is_ipv4();
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let mut moved = one;
    moved.set_port(other.port());
    let is_same_place = is_same_family && is_any || moved == other;
    let first = one.port().max(other.port());
    let reaches = |address: SocketAddr, ports| u32::from(first) < u32::from(address.port()) + ports;
    (is_same_place && reaches(one, ports_of_one) && reaches(other, ports_of_other)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_scheme_or_is_plain() {
        let ports = [("udp", 53), ("tcp", 53), ("tls", 853), ("https", 443), ("quic", 853)];
        for ((scheme, usual), transport) in ports.into_iter().zip(Transport::ALL) {
            let of = |address| Place { transport: Some(transport), address };
            for ip in ["127.0.0.1", "[::1]"] {
                let address = |port: u16| format!("{ip}:{port}").parse::<SocketAddr>().unwrap();
                let place = of(address(5300));
                assert_eq!(parse_place(&format!("{scheme}://{ip}:5300")), Ok(place));
                assert_eq!(parse_place(&format!("{scheme}://{ip}")), Ok(of(address(usual))));
                assert_eq!(place.to_string(), format!("{scheme}://{ip}:5300"));
            }
        }
        let plain = Place { transport: None, address: "127.0.0.1:853".parse().unwrap() };
        assert_eq!(parse_place("127.0.0.1:853"), Ok(plain));
        for wrong in
            ["127.0.0.1", "https://127.0.0.1:443/dns-query", "tls://localhost", "gopher://127.0.0.1:70"]
        {
            assert!(parse_place(wrong).unwrap_err().contains("ADDR:PORT"), "{wrong}");
        }
    }

    #[test]
    fn addresses_meet_if_their_protocol_is_the_same() {
        let check = |places: [&str; 2], with_tcp: bool, connections: u32| {
            let places = places.map(|place| parse_place(place).unwrap());
            check_ports(&places, with_tcp, Ports { datagrams: 1, connections })
        };
        let both = |[one, other]: [&str; 2], port: u16| {
            Err(format!("--listen {one} and --listen {other} would both take port {port}"))
        };
        for places in
            [["tcp://127.0.0.1:853", "tls://127.0.0.1:853"], ["tls://127.0.0.1:853", "https://0.0.0.0:853"]]
        {
            assert_eq!(check(places, false, 1), both(places, 853));
        }
        let quic = ["udp://127.0.0.1:853", "quic://127.0.0.1:853"];
        assert_eq!(check(quic, false, 1), both(quic, 853));
        let twice = check(["tls://[::1]:853", "tls://[::1]:853"], false, 1);
        assert_eq!(twice, Err("--listen tls://[::1]:853 is given twice".to_owned()));
        // A plain address takes connections only if the server accepts some there.
        let beside = ["127.0.0.1:53", "tcp://127.0.0.1:53"];
        assert_eq!((check(beside, false, 1), check(beside, true, 1)), (Ok(()), both(beside, 53)));
        for apart in
            [["tls://127.0.0.1:853", "quic://127.0.0.1:853"], ["udp://127.0.0.1:53", "tcp://127.0.0.1:53"]]
        {
            assert_eq!(check(apart, true, 1), Ok(()));
        }
        let near = ["tls://127.0.0.1:853", "tcp://127.0.0.1:855"];
        assert_eq!((check(near, true, 2), check(near, true, 3)), (Ok(()), both(near, 855)));
        let high = check(["127.0.0.1:65535", "tls://127.0.0.1:65535"], false, 2).unwrap_err();
        assert!(high.starts_with("--listen tls://127.0.0.1:65535: 2 workers with a port each"), "{high}");
    }
}
