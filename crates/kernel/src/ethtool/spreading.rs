//! How a network card distributes packets over its receive queues (receive-side scaling), as its driver reports
//! it. <https://docs.kernel.org/networking/scaling.html>

use std::io;

use super::request;

/// From linux/ethtool.h; the libc crate lacks it.
const ETHTOOL_GRSSH: u32 = 0x46;

/// The words of `struct ethtool_rxfh` before the table: command, context, length of the table, length of the
/// key, functions, and a reserved word.
const HEAD_WORDS: usize = 6;

/// More table entries than any card has.
const SLOTS_MOST: usize = 1 << 14;

/// More key bytes than any card has.
const KEY_BYTES_MOST: usize = 1 << 10;

/// The hash function, key and indirection table of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spreading {
    /// The hash functions as bits: bit 0 Toeplitz, bit 1 exclusive or, bit 2 CRC-32 (`ETH_RSS_HASH_*`). 0 if the
    /// driver does not report them.
    pub function: u8,
    /// The receive queue of every table entry. A packet's hash selects the entry.
    pub queues: Vec<u32>,
    /// The bytes of the hash key.
    pub key: Vec<u8>,
}

/// Asks a device of the calling thread's network namespace. Most virtual devices have no such table and return
/// `EOPNOTSUPP`.
pub fn of_device(device: &str) -> io::Result<Spreading> {
    let mut asked = [0_u32; HEAD_WORDS];
    asked[0] = ETHTOOL_GRSSH;
    // If both lengths are 0, the kernel returns the lengths only.
    // SAFETY: this is the head of the command's struct; for lengths of 0 the kernel writes no more.
    unsafe { request::ask_driver(device, &mut asked)? };
    let (slots, key_bytes) = (asked[2] as usize, asked[3] as usize);
    if slots > SLOTS_MOST || key_bytes > KEY_BYTES_MOST {
        return Err(io::Error::other(format!("the driver reports {slots} slots and {key_bytes} key bytes")));
    }
    let mut table = vec![0_u32; HEAD_WORDS + slots + key_bytes.div_ceil(4)];
    table[..HEAD_WORDS].copy_from_slice(&[ETHTOOL_GRSSH, 0, slots as u32, key_bytes as u32, 0, 0]);
    // SAFETY: this is the head, with room for the lengths in it; the kernel refuses lengths that have changed.
    unsafe { request::ask_driver(device, &mut table)? };
    Ok(parse(&table, slots, key_bytes))
}

fn parse(table: &[u32], slots: usize, key_bytes: usize) -> Spreading {
    let (head, rest) = table.split_at(HEAD_WORDS);
    let (queues, key) = rest.split_at(slots);
    let key = key.iter().flat_map(|word| word.to_ne_bytes()).take(key_bytes);
    Spreading { function: head[4].to_ne_bytes()[0], queues: queues.to_vec(), key: key.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_comes_before_the_key() {
        let functions = u32::from_ne_bytes([1, 0, 0, 0]);
        let key = [u32::from_ne_bytes(*b"\x6d\x5a\x56\xda"), u32::from_ne_bytes(*b"\x25\x5b\x00\x00")];
        let table = [ETHTOOL_GRSSH, 0, 4, 6, functions, 0, 0, 1, 0, 1, key[0], key[1]];
        let wanted =
            Spreading { function: 1, queues: vec![0, 1, 0, 1], key: b"\x6d\x5a\x56\xda\x25\x5b".to_vec() };
        assert_eq!(parse(&table, 4, 6), wanted);
    }

    #[test]
    fn a_device_without_a_card_has_none() {
        assert!(of_device("lo").is_err());
        assert!(of_device("none").is_err());
    }
}
