//! Facts of a device's driver.

use std::io;

use super::request::ask_driver;

/// From linux/ethtool.h; the libc crate lacks it.
const ETHTOOL_GDRVINFO: u32 = 0x03;

/// The name of a device's driver. Virtual devices without a driver of their own return an error.
pub(crate) fn driver(device: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: the command, five texts of 32 bytes of which the first is the name, and 32 bytes more.
    let mut words = [0_u32; 49];
    words[0] = ETHTOOL_GDRVINFO;
    // SAFETY: this is the command's struct, which has no length fields.
    unsafe { ask_driver(device, &mut words)? };
    let bytes: Vec<u8> = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}
