//! Free ports on the address that a subject listens on.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;

/// Below the ports that Linux gives to sockets that ask for any (32768 and above, unless set otherwise), so that
/// no player takes one between our look and the subject's start.
const PORTS: RangeInclusive<u16> = 10_240..=32_767;

/// As many ports as one subject may have.
pub const MANY: u16 = 1024;

const TRIES: u32 = 50;

/// The first of `count` ports in a row, [`MANY`] at most, that were free for UDP and TCP a moment ago, chosen at
/// random. Nothing holds them for the subject, which opens them itself; a subject that loses the race does not
/// become ready.
pub fn free(address: IpAddr, count: u16) -> io::Result<SocketAddr> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let first = fastrand::u16(*PORTS.start()..=PORTS.end() - count.min(MANY));
        match (first..first + count).try_for_each(|port| look(SocketAddr::new(address, port))) {
            Ok(()) => return Ok(SocketAddr::new(address, first)),
            // An address of another host or namespace cannot be looked at from here.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                return Ok(SocketAddr::new(address, first));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn look(address: SocketAddr) -> io::Result<()> {
    UdpSocket::bind(address).and_then(|_| TcpListener::bind(address)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_a_row_are_free() {
        // On an address of the test's own: elsewhere another test may take one between the two looks.
        let address = IpAddr::from([127, 0, 53, 1]);
        let first = free(address, 8).unwrap();
        assert_eq!(first.ip(), address);
        for port in first.port()..first.port() + 8 {
            UdpSocket::bind((address, port)).unwrap();
        }
    }

    #[test]
    fn an_address_of_elsewhere_gets_ports_too() {
        // For documentation only (RFC 5737), so it is nobody's.
        assert!(free(IpAddr::from([192, 0, 2, 1]), 1).is_ok());
    }
}
