//! The sizes of sockets' buffers.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;
use socket2::SockRef;

/// The largest size that a call can ask for.
const ASKED_MOST: usize = i32::MAX as usize;

/// The largest buffer that Linux grants: it doubles what is asked for.
const BYTES_MOST: usize = ASKED_MOST / 2;

/// Sets the size of a receive buffer beyond the system's limit if permitted, else up to the limit.
pub(crate) fn set_receive(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = bytes.min(ASKED_MOST);
    let forced = sockopt::set_socket_recv_buffer_size_force(socket, bytes);
    Ok(forced.or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes))?)
}

/// Sets the size of a send buffer, by the same rule.
pub(crate) fn set_send(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = bytes.min(ASKED_MOST);
    let forced = sockopt::set_socket_send_buffer_size_force(socket, bytes);
    Ok(forced.or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes))?)
}

/// A sentence for each buffer of a socket that is smaller than `asked_bytes`, with the reason. Without `CAP_NET_ADMIN`
/// the kernel limits buffers to its sysctls.
pub(crate) fn short(socket: &impl AsFd, asked_bytes: usize) -> Vec<String> {
    let short = |size: io::Result<usize>, which: &str, sysctl: &str| {
        // The kernel returns twice the requested size, because it counts its own bookkeeping (socket(7)).
        let got_bytes = size.ok()? / 2;
        let more = if got_bytes < BYTES_MOST {
            format!("raise the sysctl {sysctl}, or give kqps CAP_NET_ADMIN")
        } else {
            "Linux grants no more".to_owned()
        };
        (got_bytes < asked_bytes)
            .then(|| format!("{which} buffers have {got_bytes} bytes instead of {asked_bytes}: {more}"))
    };
    let socket = SockRef::from(socket);
    let both = [
        short(socket.recv_buffer_size(), "receive", "net.core.rmem_max"),
        short(socket.send_buffer_size(), "send", "net.core.wmem_max"),
    ];
    both.into_iter().flatten().collect()
}
