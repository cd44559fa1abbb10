//! The packets that a wildcard socket takes and the addresses that it may send from, for UDP and TCP alike.

use std::io;
use std::net::SocketAddr;

use socket2::Socket;

/// The name of the loopback interface.
const LOOPBACK: &[u8] = b"lo";

/// Sets these options of a socket for `address`, before it is bound. With `free` it may use addresses that no interface
/// has (`IP_FREEBIND`, ip(7)). With `loopback` it gets packets of the loopback interface alone (`SO_BINDTODEVICE`,
/// socket(7)); needs Linux 5.7 without `CAP_NET_RAW`.
pub(crate) fn widen(socket: &Socket, address: SocketAddr, free: bool, loopback: bool) -> io::Result<()> {
    if free {
        let (set, words) = match address {
            SocketAddr::V4(_) => (socket.set_freebind_v4(true), "IP_FREEBIND"),
            SocketAddr::V6(_) => (socket.set_freebind_v6(true), "IPV6_FREEBIND"),
        };
        set.map_err(|error| io::Error::new(error.kind(), format!("{words}: {error}")))?;
    }
    if loopback {
        let set = socket.bind_device(Some(LOOPBACK));
        set.map_err(|error| io::Error::new(error.kind(), format!("SO_BINDTODEVICE lo: {error}")))?;
    }
    Ok(())
}
