//! Listening for TCP connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::reach;

/// The maximum number of connections that wait to be accepted. The system's limit (`net.core.somaxconn`) may be
/// lower.
const BACKLOG: libc::c_int = 4096;

/// Opens `count` listening sockets at one address, at least one. If there are several, the kernel distributes
/// connections over them (`SO_REUSEPORT`). An IPv6 socket accepts IPv6 only, as [`crate::UdpSocket`] does. Connections
/// that an earlier server left closing do not block the port (`SO_REUSEADDR`). A port at which another program listens
/// is an error, even if that program would share it. What is written on an accepted connection leaves at once
/// (`TCP_NODELAY`).
pub fn listen(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    listen_with(address, count, ListenOptions::default())
}

/// The connections that listening sockets of a wildcard address accept. By default those to addresses of this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// `IP_FREEBIND` or `IPV6_FREEBIND`: also those to addresses that no interface has and that are routed to this host.
    pub free_bind: bool,
    /// `SO_BINDTODEVICE` with the loopback interface: none of other hosts.
    pub loopback: bool,
}

/// Like [`listen`], with options.
pub fn listen_with(
    address: SocketAddr,
    count: usize,
    options: ListenOptions,
) -> io::Result<Vec<TcpListener>> {
    let first = socket(address, options)?;
    first.bind(&address.into())?;
    first.set_reuse_port(count > 1)?;
    first.listen(BACKLOG)?;
    let mut listeners = vec![TcpListener::from(first)];
    let address = listeners[0].local_addr()?;
    for _ in 1..count {
        let socket = socket(address, options)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        listeners.push(socket.into());
    }
    Ok(listeners)
}

/// Makes the end of a connection a reset instead of an orderly close (`SO_LINGER` with a time of 0, socket(7)): the peer
/// sees "connection reset", and the kernel drops what was not sent.
pub fn reset_at_close(connection: &impl AsFd) -> io::Result<()> {
    SockRef::from(connection).set_linger(Some(Duration::ZERO))
}

/// A TCP socket for an address, before it is bound.
fn socket(address: SocketAddr, options: ListenOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    reach::widen(&socket, address, options.free_bind, options.loopback)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    // On Linux accepted connections inherit it, so that none needs a call of its own.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_share_a_port_and_no_other_socket_does() {
        let four = listen("0.0.0.0:0".parse().unwrap(), 1).unwrap();
        let port = four[0].local_addr().unwrap().port();
        let six = listen(format!("[::]:{port}").parse().unwrap(), 1).unwrap();
        assert_eq!(six[0].local_addr().unwrap().port(), port);
        let error = listen(format!("127.0.0.1:{port}").parse().unwrap(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn what_is_written_on_accepted_connections_leaves_at_once() {
        let group = listen("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = group[0].local_addr().unwrap();
        let single = listen("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let _client = std::net::TcpStream::connect(single[0].local_addr().unwrap()).unwrap();
        assert!(single[0].accept().unwrap().0.nodelay().unwrap());
        let _client = std::net::TcpStream::connect(address).unwrap();
        let accepted = group.iter().find_map(|listener| {
            listener.set_nonblocking(true).unwrap();
            listener.accept().ok()
        });
        assert!(accepted.expect("one of them has the client").0.nodelay().unwrap());
    }

    #[test]
    fn a_connection_that_is_reset_breaks_at_its_peer() {
        use std::io::Read as _;
        let options = ListenOptions { loopback: true, ..ListenOptions::default() };
        let listener = listen_with("0.0.0.0:0".parse().unwrap(), 1, options).unwrap().remove(0);
        let port = listener.local_addr().unwrap().port();
        let mut client = std::net::TcpStream::connect(("127.9.8.7", port)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(accepted.local_addr().unwrap().ip().to_string(), "127.9.8.7");
        reset_at_close(&accepted).unwrap();
        drop(accepted);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_group_shares_a_port_and_its_connections() {
        let group = listen("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = group[0].local_addr().unwrap();
        assert!(group.iter().all(|listener| listener.local_addr().unwrap() == address));
        // Another group at the same port is an error: its first socket does not share.
        assert_eq!(listen(address, 3).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let clients: Vec<_> = (0..60).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let accepted = |listener: &TcpListener| {
            listener.set_nonblocking(true).unwrap();
            std::iter::from_fn(|| listener.accept().ok()).count()
        };
        let counts: Vec<usize> = group.iter().map(accepted).collect();
        assert_eq!(counts.iter().sum::<usize>(), clients.len(), "{counts:?}");
        assert!(counts.iter().filter(|count| **count > 0).count() > 1, "{counts:?}");
    }
}
