//! The counters of a device's driver.

use std::io;

use super::names::{NAMES_MOST, names, pair};
use super::request::ask_driver;

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETH_SS_STATS: u32 = 1;

/// The counters of a device's driver, as `ethtool -S` shows them. Empty if the driver has none.
pub(crate) fn driver_counters(device: &str) -> io::Result<Vec<(String, u64)>> {
    let names = names(device, ETH_SS_STATS)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // struct ethtool_stats: command, length, then the counters.
    let mut counts = vec![0_u64; 1 + NAMES_MOST];
    counts[0] = u64::from_ne_bytes(pair(ETHTOOL_GSTATS, names.len() as u32));
    // SAFETY: this is the command's struct. The kernel writes all counters of the driver; there is room for far more
    // than the names that the driver reported just now.
    unsafe { ask_driver(device, &mut counts)? };
    Ok(names.into_iter().zip(counts.into_iter().skip(1)).collect())
}
