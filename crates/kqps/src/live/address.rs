//! Where a measurement is shown: an address with a port, or a port of this host alone.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Parses an address to show something at. A port alone means 127.0.0.1.
pub(super) fn parse_shown_at(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected ADDR:PORT or a port alone, such as 127.0.0.1:9153, [::1]:9153 or 9153";
    match text.parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.parse().map_err(|_| expected.into()),
    }
}

/// The error of an address at which nothing can listen.
pub(super) fn why_not(flag: &str, address: SocketAddr, error: &io::Error) -> anyhow::Error {
    let why = match error.kind() {
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
        for bad in ["", "localhost:80", "127.0.0.1", "65536", "-1", "::1:80"] {
            assert!(parse_shown_at(bad).unwrap_err().starts_with("expected ADDR:PORT"), "{bad}");
        }
    }
}
