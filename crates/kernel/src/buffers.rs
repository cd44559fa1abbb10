//! The sizes of sockets' buffers.

use std::io;
use std::os::fd::{AsFd, RawFd};

use socket2::SockRef;

use crate::sys::set_option;

/// The largest buffer that Linux grants: it doubles what is asked for.
const BYTES_MOST: usize = libc::c_int::MAX as usize / 2;

/// Sets the size of a receive buffer beyond the system's limit if permitted, else up to the limit.
pub(crate) fn set_receive(fd: RawFd, bytes: usize) -> io::Result<()> {
    set(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
}

/// Sets the size of a send buffer, by the same rule.
pub(crate) fn set_send(fd: RawFd, bytes: usize) -> io::Result<()> {
    set(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
}

fn set(fd: RawFd, force: libc::c_int, plain: libc::c_int, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(fd, libc::SOL_SOCKET, force, bytes).or_else(|_| set_option(fd, libc::SOL_SOCKET, plain, bytes))
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
