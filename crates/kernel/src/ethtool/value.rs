//! Commands with one value.

use std::io;

use super::request::ask_driver;

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_STXCSUM: u32 = 0x17;

/// Switches generic receive offload of a device on or off.
pub(crate) fn set_gro(device: &str, on: bool) -> io::Result<()> {
    ethtool(device, ETHTOOL_SGRO, u32::from(on)).map(drop)
}

/// Switches on or off that a device computes the checksums of the packets that it sends. If it is off, the kernel
/// computes them.
pub(crate) fn set_checksum_offload(device: &str, on: bool) -> io::Result<()> {
    ethtool(device, ETHTOOL_STXCSUM, u32::from(on)).map(drop)
}

/// Whether a device has its carrier and can send. The request also makes the kernel process pending carrier changes
/// (`net/core/link_watch.c`, `linkwatch_sync_dev`). Otherwise it would do that up to 1 s later, and drop all packets
/// until then.
pub fn is_linked(device: &str) -> io::Result<bool> {
    ethtool(device, ETHTOOL_GLINK, 0).map(|value| value != 0)
}

pub(crate) fn ethtool(device: &str, command: u32, value: u32) -> io::Result<u32> {
    let mut asked = [command, value];
    // SAFETY: commands with one value take `struct ethtool_value`, which consists of these two words.
    unsafe { ask_driver(device, &mut asked)? };
    Ok(asked[1])
}
