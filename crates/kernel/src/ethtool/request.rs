//! The ioctl that sends a command to a device's driver.

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd as _;

use crate::sys::check;

/// Sends a command of linux/ethtool.h to a device's driver. The driver writes its answer over `words`. Returns the
/// value of the ioctl, which most commands leave at 0.
///
/// # Safety
///
/// `words` must be the struct of the command in its first field. It must have room for all that the kernel writes:
/// as much as its length fields say or, for commands without them, as much as the driver has.
pub(super) unsafe fn ask_driver<Word>(device: &str, words: &mut [Word]) -> io::Result<libc::c_int> {
    let mut request = request_of(device)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request is live, and so are the words that it points to; the caller guarantees their layout.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) })
}

/// Sends a command whose struct is `N` words of 32 bits, the first of them the command, and returns the driver's
/// answer.
///
/// # Safety
///
/// The command must have a struct of this size, without length fields.
pub(super) unsafe fn ask_words<const N: usize>(device: &str, mut words: [u32; N]) -> io::Result<[u32; N]> {
    // SAFETY: the caller guarantees that the words are the command's struct.
    unsafe { ask_driver(device, &mut words)? };
    Ok(words)
}

/// `None` if the driver does not have the setting that was read.
pub(super) fn if_offered<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        answer => answer.map(Some),
    }
}

/// The text that begins in the first byte of some words and ends before a zero byte.
pub(super) fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

/// An interface request that contains only the device's name. The kernel would cut a longer name, and find another
/// device.
fn request_of(device: &str) -> io::Result<libc::ifreq> {
    if device.len() >= libc::IFNAMSIZ || device.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: an interface request is plain old data.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}
