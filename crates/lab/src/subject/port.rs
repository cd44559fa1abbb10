//! A free port on the loopback address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

const TRIES: u32 = 50;

/// A port on 127.0.0.1 that was free for UDP and TCP a moment ago. Nothing holds it for the subject, which opens
/// it itself; a subject that loses the race does not become ready.
pub fn free() -> io::Result<SocketAddr> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = udp.local_addr()?;
        match TcpListener::bind(address) {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}
