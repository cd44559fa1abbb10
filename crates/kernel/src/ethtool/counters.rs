//! The counters of a device's driver.

use std::io;

use super::request::ask_driver;

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;

/// The bytes of a counter's name (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;

/// More counters than any driver has: some drivers have a dozen for each of a hundred queues.
const COUNTERS_MOST: usize = 1 << 15;

/// The counters of a device's driver, as `ethtool -S` shows them. Empty if the driver has none.
pub(crate) fn driver_counters(device: &str) -> io::Result<Vec<(String, u64)>> {
    // SAFETY: the three buffers below are the structs of their commands, with room for more counters than any driver
    // has.
    let ask = |buffer: &mut [u64]| unsafe { ask_driver(device, buffer) };
    let word = |low: u32, high: u32| u64::from_ne_bytes(pair(low, high));
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, and a length for each bit set.
    let mut lengths = [word(ETHTOOL_GSSET_INFO, 0), 1 << ETH_SS_STATS, 0];
    ask(&mut lengths)?;
    let count = (lengths[2] as u32 as usize).min(COUNTERS_MOST);
    if lengths[1] == 0 || count == 0 {
        return Ok(Vec::new());
    }
    // struct ethtool_gstrings: command, set, length, then the names.
    let mut names = vec![0_u64; 2 + COUNTERS_MOST * NAME_BYTES / 8];
    names[0] = word(ETHTOOL_GSTRINGS, ETH_SS_STATS);
    names[1] = word(count as u32, 0);
    ask(&mut names)?;
    // struct ethtool_stats: command, length, then the counters.
    let mut counts = vec![0_u64; 1 + COUNTERS_MOST];
    counts[0] = word(ETHTOOL_GSTATS, count as u32);
    ask(&mut counts)?;
    let bytes: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).skip(12).collect();
    let name = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).trim().to_owned()
    };
    Ok(bytes.chunks(NAME_BYTES).map(name).zip(counts[1..].iter().copied()).take(count).collect())
}

/// Two words of 32 bits, one after the other as in a C struct.
fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    bytes
}
