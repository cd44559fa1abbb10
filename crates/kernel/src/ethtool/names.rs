//! The sets of names that a driver has: of its counters, of a device's features.

use std::io;

use super::request::{ask_driver, text};

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;

/// The words of 32 bits in a name (`ETH_GSTRING_LEN`).
const NAME_WORDS: usize = 32 / 4;

/// More names than any driver has: some drivers have a dozen counters for each of a hundred queues.
pub(super) const NAMES_MOST: usize = 1 << 15;

/// The names of a set (`ETH_SS_*`), in the driver's order. Empty if the driver has none.
pub(super) fn names(device: &str, set: u32) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, and a length of 32 bits for each bit set.
    let mut lengths = [u64::from_ne_bytes(pair(ETHTOOL_GSSET_INFO, 0)), 1 << set, 0];
    // SAFETY: this is the command's struct, with room for the one length that the mask asks for.
    unsafe { ask_driver(device, &mut lengths)? };
    let [count, ..] = halves(lengths[2]);
    if lengths[1] == 0 || count == 0 {
        return Ok(Vec::new());
    }
    let count = fitting(count)?;
    // struct ethtool_gstrings: command, set, length, then the names.
    let mut words = vec![0_u32; 3 + NAMES_MOST * NAME_WORDS];
    words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, set, count as u32]);
    // SAFETY: this is the command's struct. The kernel writes all names of the driver, whatever the request says; there
    // is room for far more than the driver reported just now.
    unsafe { ask_driver(device, &mut words)? };
    Ok(words[3..].chunks_exact(NAME_WORDS).take(count).map(text).collect())
}

/// The count of a driver's names; an error if there is no room for so many.
fn fitting(count: u32) -> io::Result<usize> {
    let count = count as usize;
    if count > NAMES_MOST {
        let what = format!("the driver has {count} names, and kqps reads {NAMES_MOST} at most");
        return Err(io::Error::other(what));
    }
    Ok(count)
}

/// Two words of 32 bits, one after the other as in a C struct.
pub(super) fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    bytes
}

/// The two words of 32 bits in the memory of one of 64.
fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    [half(0), half(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_names_than_there_is_room_for_are_an_error() {
        assert_eq!(fitting(NAMES_MOST as u32).unwrap(), NAMES_MOST);
        let error = fitting(NAMES_MOST as u32 + 1).unwrap_err().to_string();
        assert_eq!(error, "the driver has 32769 names, and kqps reads 32768 at most");
        assert!(fitting(u32::MAX).is_err());
    }
}
