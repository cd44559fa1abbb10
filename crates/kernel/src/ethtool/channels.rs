//! The numbers of a device's queues.

use std::io;

use super::request::ask_driver;

/// From linux/ethtool.h; the libc crate lacks it.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// The number of a device's queues that receive. Drivers with a fixed number may return an error.
pub(crate) fn receive_queues(device: &str) -> io::Result<u32> {
    // struct ethtool_channels: the command, and the numbers of queues that receive, send, do neither or do both: first
    // how many there can be, then how many there are.
    let mut words = [0_u32; 9];
    words[0] = ETHTOOL_GCHANNELS;
    // SAFETY: this is the command's struct, which has no length fields.
    unsafe { ask_driver(device, &mut words)? };
    Ok(words[5] + words[8])
}
