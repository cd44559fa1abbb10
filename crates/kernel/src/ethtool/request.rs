//! The ioctl that sends a command to a device's driver.

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd as _;

use crate::sys::check;

/// Sends a command of linux/ethtool.h to a device's driver. The driver writes its answer over `words`.
///
/// # Safety
///
/// `words` must be the struct of the command in its first field. It must have room for all that the kernel writes:
/// as much as its length fields say or, for commands without them, as much as the driver has.
pub(super) unsafe fn ask_driver<Word>(device: &str, words: &mut [Word]) -> io::Result<()> {
    let mut request = request_of(device);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request is live, and so are the words that it points to; the caller guarantees their layout.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) }).map(drop)
}

/// An interface request that contains only the device's name.
fn request_of(device: &str) -> libc::ifreq {
    // SAFETY: an interface request is plain old data.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays 0, which ends the name.
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}
