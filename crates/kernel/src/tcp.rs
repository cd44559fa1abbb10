//! Listening for TCP connections.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// The maximum number of connections that wait to be accepted. The system's limit (`net.core.somaxconn`) may be
/// lower.
const BACKLOG: libc::c_int = 4096;

/// Opens a listening socket. An IPv6 socket accepts IPv6 only, as [`crate::UdpSocket`] does. Connections that an
/// earlier server left closing do not block the port (`SO_REUSEADDR`).
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_share_a_port_and_nobody_else_does() {
        let four = listen("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = four.local_addr().unwrap().port();
        let six = listen(format!("[::]:{port}").parse().unwrap()).unwrap();
        assert_eq!(six.local_addr().unwrap().port(), port);
        let error = listen(format!("127.0.0.1:{port}").parse().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
