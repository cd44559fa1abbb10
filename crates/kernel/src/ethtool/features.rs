//! The features of a device that can be on or off, such as offloads.

use std::collections::BTreeMap;
use std::io;

use super::names::names;
use super::request::ask_driver;

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;

/// Bits of the value that setting returns: the driver cannot change the feature, and the device did not do as asked.
const ETHTOOL_F_UNSUPPORTED: libc::c_int = 1;
const ETHTOOL_F_WISH: libc::c_int = 2;

/// The words of `struct ethtool_get_features_block`: for 32 features those that can be changed, that were asked for,
/// that are on, and that never change.
const BLOCK_WORDS: usize = 4;

/// Short names of ethtool(8), and the kernel's names of these features. `tso` is that over IPv4.
const SHORT: [(&str, &str); 5] = [
    ("gro", "rx-gro"),
    ("gso", "tx-generic-segmentation"),
    ("lro", "rx-lro"),
    ("ntuple", "rx-ntuple-filter"),
    ("tso", "tx-tcp-segmentation"),
];

/// The state of a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feature {
    /// It is on.
    pub on: bool,
    /// The driver can switch it.
    pub changeable: bool,
}

/// The kernel's name of a feature that may have a short one: `gro` is `rx-gro`. Other names stay as they are.
pub fn kernel_name(name: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, full)| *full)
}

/// The short name of a feature that has one: `rx-gro` is `gro`. Other names stay as they are.
pub fn short_name(name: &str) -> &str {
    SHORT.iter().find(|(_, full)| *full == name).map_or(name, |(short, _)| *short)
}

/// The features of a device, by the kernel's names (`ethtool -k`).
pub fn features(device: &str) -> io::Result<BTreeMap<String, Feature>> {
    let names = names(device, ETH_SS_FEATURES)?;
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0_u32; 2 + blocks * BLOCK_WORDS];
    words[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    // SAFETY: struct ethtool_gfeatures: command, number of blocks, and room for so many blocks.
    unsafe { ask_driver(device, &mut words)? };
    Ok(parse(&names, &words[2..]))
}

fn parse(names: &[String], words: &[u32]) -> BTreeMap<String, Feature> {
    let blocks = words.chunks_exact(BLOCK_WORDS);
    let of_block = |(names, block): (&[String], &[u32])| {
        let has = |word: usize, bit: usize| block[word] & (1_u32 << bit) != 0;
        let state = |bit| Feature { on: has(2, bit), changeable: has(0, bit) && !has(3, bit) };
        let named = names.iter().enumerate().filter(|(_, name)| !name.is_empty());
        named.map(|(bit, name)| (name.clone(), state(bit))).collect::<Vec<_>>()
    };
    names.chunks(32).zip(blocks).flat_map(of_block).collect()
}

/// Switches a feature, by its short or the kernel's name, on or off. An error if the device is not as asked
/// afterwards.
pub fn set_feature(device: &str, name: &str, on: bool) -> io::Result<()> {
    let names = names(device, ETH_SS_FEATURES)?;
    let number = names.iter().position(|known| known == kernel_name(name)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("this kernel knows no feature `{name}`"))
    })?;
    let blocks = names.len().div_ceil(32);
    let mut words = vec![0_u32; 2 + 2 * blocks];
    words[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
    let at = 2 + 2 * (number / 32);
    words[at] = 1 << (number % 32);
    words[at + 1] = u32::from(on) << (number % 32);
    // SAFETY: struct ethtool_sfeatures: command, number of blocks, and for each block the features to change and their
    // states.
    let outcome = unsafe { ask_driver(device, &mut words)? };
    if outcome & ETHTOOL_F_UNSUPPORTED != 0 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    if outcome & ETHTOOL_F_WISH != 0 {
        let state = if on { "on" } else { "off" };
        let what = format!("other features of the device keep `{name}` from being {state}");
        return Err(io::Error::other(what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_32_features() {
        let mut names = vec![String::new(); 34];
        names[1] = "rx-gro".into();
        names[31] = "vlan-challenged".into();
        names[33] = "rx-lro".into();
        let words = [0b10, 0, 1 << 31, 1 << 31, 0b10, 0b10, 0b10, 0];
        let wanted = BTreeMap::from([
            ("rx-gro".to_owned(), Feature { on: false, changeable: true }),
            ("rx-lro".to_owned(), Feature { on: true, changeable: true }),
            ("vlan-challenged".to_owned(), Feature { on: true, changeable: false }),
        ]);
        assert_eq!(parse(&names, &words), wanted);
        assert_eq!((kernel_name("gro"), kernel_name("rx-checksum")), ("rx-gro", "rx-checksum"));
        assert_eq!((short_name("rx-gro"), short_name("rx-checksum")), ("gro", "rx-checksum"));
    }
}
