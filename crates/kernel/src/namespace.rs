//! Network namespaces: an empty network of one's own, with nobody else's traffic in its counters.

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use crate::sys::check;

/// Moves the calling thread, and what it starts from now on, into a new network namespace whose only
/// interface is loopback, up. Needs the right to administer the system (`CAP_SYS_ADMIN`). The namespace ends
/// with its last thread and socket.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: the call touches no memory, and changes the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    // SAFETY: an interface request is plain old data.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request is live and of the kind that this call reads.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }).map(drop)
}
