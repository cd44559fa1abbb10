//! Where a measurement is shown: an address with a port, or a port of this host alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Parses an address to show something at. A port alone means 127.0.0.1.
pub(super) fn parse_shown_at(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected ADDR:PORT or a port alone, such as 127.0.0.1:9153, [::1]:9153 or 9153";
    match text.parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.parse().map(canonical).map_err(|_| expected.into()),
    }
}

/// Turns an IPv4-mapped address (RFC 4291, section 2.5.5.2) into IPv4, since a socket with `IPV6_V6ONLY` cannot be
/// bound to it. Others stay as they are.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => (ip, address.port()).into(),
        // An IPv6 address may have a scope, which stays.
        IpAddr::V6(_) => address,
    }
}

/// The error of an address at which nothing can listen. `other` is the flag and the address at which kqps itself listens
/// already.
pub(super) fn why_not(
    flag: &str,
    address: SocketAddr,
    error: &io::Error,
    other: Option<(&str, SocketAddr)>,
) -> anyhow::Error {
    // An address that stands for all of its family leaves the port to no other.
    let other = other.filter(|(_, at)| {
        (at.port(), at.is_ipv4()) == (address.port(), address.is_ipv4())
            && (at.ip().is_unspecified() || address.ip().is_unspecified())
    });
    let why = match error.kind() {
        io::ErrorKind::AddrInUse if let Some((other, at)) = other => {
            format!("{other} has this port, at {}; choose another port, or one address for both", at.ip())
        }
        io::ErrorKind::AddrInUse => "another program listens there; choose another port".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this host has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "this port needs root or CAP_NET_BIND_SERVICE; choose one from 1024 on".to_owned()
        }
        _ => error.to_string(),
    };
    anyhow::anyhow!("{flag} {address}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_host_alone() {
        assert_eq!(parse_shown_at("9153"), Ok("127.0.0.1:9153".parse().unwrap()));
        assert_eq!(parse_shown_at("0.0.0.0:80"), Ok("0.0.0.0:80".parse().unwrap()));
        assert_eq!(parse_shown_at("[::1]:0"), Ok("[::1]:0".parse().unwrap()));
        assert_eq!(parse_shown_at("[::ffff:127.0.0.1]:80"), Ok("127.0.0.1:80".parse().unwrap()));
        assert_eq!(parse_shown_at("[fe80::1%2]:80"), Ok("[fe80::1%2]:80".parse().unwrap()));
        for bad in ["", "localhost:80", "127.0.0.1", "65536", "-1", "::1:80"] {
            assert!(parse_shown_at(bad).unwrap_err().starts_with("expected ADDR:PORT"), "{bad}");
        }
    }

    #[test]
    fn a_port_that_kqps_took_itself_is_not_called_that_of_another_program() {
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        let why = |address: &str, other: Option<&str>| {
            let other = other.map(|at| ("--live", at.parse().unwrap()));
            why_not("--metrics", address.parse().unwrap(), &taken, other).to_string()
        };
        let own = "--metrics 0.0.0.0:80: --live has this port, at 127.0.0.1; choose another port, or one address for both";
        assert_eq!(why("0.0.0.0:80", Some("127.0.0.1:80")), own);
        for other in [None, Some("127.0.0.1:81"), Some("[::1]:80")] {
            assert!(why("0.0.0.0:80", other).contains("another program listens there"), "{other:?}");
        }
        assert!(why("127.0.0.2:80", Some("127.0.0.1:80")).contains("another program listens there"));
    }
}
