//! The common part of the I/O models with sockets of the kernel: how a connection begins, and what the kernel knows of
//! it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use kqps_kernel::tcp_client::TcpClient;

/// The kernel sends a SYN again after a second (RFC 6298, section 2.1). A connection that was made sooner lost none.
const SYN_AGAIN_NS: u64 = 900_000_000;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// This address, or any; the kernel chooses the port.
    Address(Option<IpAddr>),
    /// This address and port; the address may be the unspecified one.
    Pair(SocketAddr),
}

/// A socket that comes from there, and begins to connect by `begin`. `None` if its pair is in use. `buffer_bytes` is
/// the size of its buffers, unless the kernel sizes them.
pub(super) fn open(
    from: Origin,
    to: SocketAddr,
    buffer_bytes: Option<usize>,
    begin: impl Fn(&TcpClient, SocketAddr) -> io::Result<()>,
) -> io::Result<Option<TcpClient>> {
    let pair = match from {
        Origin::Address(address) => {
            let socket = TcpClient::bound(to, address)?;
            buffer_bytes.map_or(Ok(()), |bytes| socket.set_buffers(bytes))?;
            return begin(&socket, to).map(|()| Some(socket));
        }
        Origin::Pair(pair) => pair,
    };
    let Some(socket) = TcpClient::bound_at(to, pair)? else { return Ok(None) };
    buffer_bytes.map_or(Ok(()), |bytes| socket.set_buffers(bytes))?;
    match begin(&socket, to) {
        Ok(()) => Ok(Some(socket)),
        // Another connection to this target has the pair.
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(None),
        Err(error) => Err(error),
    }
}

/// A sentence for each buffer that the kernel gives fewer bytes than asked for.
pub(super) fn short_buffers(to: SocketAddr, bytes: usize) -> io::Result<Vec<String>> {
    let socket = TcpClient::bound(to, None)?;
    socket.set_buffers(bytes)?;
    Ok(socket.short_buffers(bytes))
}

/// Whether the kernel sent the SYN of an attempt again that took this long.
pub(super) fn has_lost_syn(socket: &TcpClient, took_ns: u64) -> bool {
    took_ns >= SYN_AGAIN_NS && retransmitted(socket) > 0
}

/// Segments that the kernel sent again so far.
pub(super) fn retransmitted(socket: &TcpClient) -> u64 {
    socket.info().map_or(0, |info| info.retransmitted.into())
}

/// Bytes that the peer acknowledged, with one for the SYN; all there can be if the kernel does not say.
pub(super) fn acknowledged_bytes(socket: &TcpClient) -> u64 {
    socket.info().map_or(u64::MAX, |info| info.acknowledged_bytes)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn buffers_have_the_size_that_is_asked_for() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        for from in [Origin::Address(None), Origin::Pair(([127, 0, 54, 2], 0).into())] {
            let sizes = |bytes| {
                let socket = open(from, to, bytes, TcpClient::begin).unwrap().unwrap();
                let socket = socket2::SockRef::from(&socket);
                [socket.recv_buffer_size().unwrap(), socket.send_buffer_size().unwrap()]
            };
            // The kernel doubles what is asked for.
            assert_eq!(sizes(Some(64 << 10)), [128 << 10; 2]);
            assert_ne!(sizes(None), [128 << 10; 2]);
        }
        assert_eq!(short_buffers(to, 64 << 10).unwrap(), [""; 0]);
        assert_eq!(short_buffers(to, 1 << 31).unwrap().len(), 2);
    }
}
