//! The fields of a packet from which a device computes the hash that selects a receive queue.

use std::fmt;
use std::io;
use std::str::FromStr;

use super::names::pair;
use super::request::{ask_driver, if_offered};

/// From linux/ethtool.h; the libc crate lacks them.
const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_SRXFH: u32 = 0x2a;

/// The words of 64 bits of `struct ethtool_rxnfc`. These commands use the first two: the command with the kind of
/// packet, and the fields.
const WORDS: usize = 24;

/// The letter of each field in ethtool(8), and its bit (`RXH_*`): hardware address, VLAN, layer 3 protocol, source
/// address, destination address, source port, destination port, endpoint of a GTP tunnel, flow label of IPv6, and
/// discarding the packet.
const LETTERS: [(char, u32); 10] =
    [('m', 1), ('v', 2), ('t', 3), ('s', 4), ('d', 5), ('f', 6), ('n', 7), ('e', 8), ('l', 9), ('r', 31)];

/// The sign before the bits of fields that have no letter here, which are a hexadecimal number: `sdfn+0x400`.
const OTHERS: char = '+';

/// A kind of packet whose hash can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// UDP over IPv4 (`UDP_V4_FLOW`).
    Udp4,
    /// UDP over IPv6 (`UDP_V6_FLOW`).
    Udp6,
}

impl Flow {
    fn number(self) -> u32 {
        match self {
            Self::Udp4 => 2,
            Self::Udp6 => 6,
        }
    }
}

/// A set of fields. It is written as the letters of ethtool(8): `sd` are both addresses, `sdfn` both addresses and both
/// ports. Fields of later kernels, which have no letter here, follow as a number: `sdfn+0x400`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashFields(u64);

impl fmt::Display for HashFields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |bit: u32| self.0 & (1 << bit) != 0;
        let letters: String =
            LETTERS.iter().filter(|(_, bit)| has(*bit)).map(|(letter, _)| *letter).collect();
        formatter.write_str(&letters)?;
        let known = LETTERS.iter().fold(0, |bits, (_, bit)| bits | 1_u64 << bit);
        match self.0 & !known {
            0 => Ok(()),
            others => write!(formatter, "{OTHERS}{others:#x}"),
        }
    }
}

/// A letter that stands for no field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownField(pub char);

impl fmt::Display for UnknownField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = "expected letters such as sdfn (ethtool -N DEVICE rx-flow-hash)";
        write!(formatter, "{expected}, found `{}`", self.0)
    }
}

impl std::error::Error for UnknownField {}

impl FromStr for HashFields {
    type Err = UnknownField;

    fn from_str(text: &str) -> Result<Self, UnknownField> {
        let (letters, others) = text.split_once(OTHERS).unwrap_or((text, "0x0"));
        let others = others.strip_prefix("0x").and_then(|bits| u64::from_str_radix(bits, 16).ok());
        let others = others.ok_or(UnknownField(OTHERS))?;
        letters.chars().try_fold(Self(others), |Self(fields), letter| {
            let (_, bit) = LETTERS.iter().find(|(known, _)| *known == letter).ok_or(UnknownField(letter))?;
            Ok(Self(fields | 1 << bit))
        })
    }
}

/// Asks a device for the fields in the hash of a kind of packet.
pub fn hash_fields(device: &str, flow: Flow) -> io::Result<Option<HashFields>> {
    if_offered(ask(device, ETHTOOL_GRXFH, flow, 0).map(HashFields))
}

/// Sets the fields in the hash of a kind of packet. Drivers refuse sets that their device does not have.
pub fn set_hash_fields(device: &str, flow: Flow, fields: HashFields) -> io::Result<()> {
    ask(device, ETHTOOL_SRXFH, flow, fields.0).map(drop)
}

fn ask(device: &str, command: u32, flow: Flow, fields: u64) -> io::Result<u64> {
    let mut words = [0_u64; WORDS];
    (words[0], words[1]) = (u64::from_ne_bytes(pair(command, flow.number())), fields);
    // SAFETY: this is the command's struct in full. Its length field concerns other commands.
    unsafe { ask_driver(device, &mut words)? };
    Ok(words[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_ethtool() {
        let fields = |text: &str| text.parse::<HashFields>();
        assert_eq!(fields("sdfn"), Ok(HashFields(0xf0)));
        assert_eq!(fields("nsfd").unwrap().to_string(), "sdfn");
        assert_eq!(fields(""), Ok(HashFields(0)));
        assert_eq!(fields("sdx"), Err(UnknownField('x')));
        assert_eq!(HashFields(0x8000_0000).to_string(), "r");
    }

    #[test]
    fn no_bit_is_lost_on_the_way_through_text() {
        for bits in [0, 0xf0, 0x3f0, 0x4f0, 0x8000_0400, 1 << 40, u64::MAX] {
            let text = HashFields(bits).to_string();
            assert_eq!(text.parse(), Ok(HashFields(bits)), "{text}");
        }
        assert_eq!(HashFields(0x4f0).to_string(), "sdfn+0x400");
        assert_eq!("sdfn+400".parse::<HashFields>(), Err(UnknownField('+')));
    }
}
