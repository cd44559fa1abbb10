//! A free port on the loopback address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;

/// Below the ports that Linux gives to sockets that ask for any (32768 and above, unless set otherwise), so that
/// no player takes one between our look and the subject's start.
const PORTS: RangeInclusive<u16> = 10_240..=32_767;

const TRIES: u32 = 50;

/// A port on 127.0.0.1 that was free for UDP and TCP a moment ago, chosen at random. Nothing holds it for the
/// subject, which opens it itself; a subject that loses the race does not become ready.
pub fn free() -> io::Result<SocketAddr> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS)));
        let taken = UdpSocket::bind(address).and_then(|_| TcpListener::bind(address)).err();
        match taken {
            None => return Ok(address),
            Some(error) => last = error,
        }
    }
    Err(last)
}
