//! The choice of source addresses.

use std::net::IpAddr;

/// The source addresses of the player's sockets or connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// All have the same address.
    One,
    /// They use several addresses in turn, which the player chooses.
    Spread,
    /// They use the addresses of this prefix in turn: one of its addresses, and its length in bits.
    Prefix(IpAddr, u8),
}

impl SourceChoice {
    /// The words of its values that are no prefix, in their order.
    pub const WORDS: &'static [&'static str] = &["one", "spread"];

    /// The choice of a word; `None` if it is none of [`Self::WORDS`], no address and no prefix.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "one" => Some(Self::One),
            "spread" => Some(Self::Spread),
            prefix => Self::from_prefix(prefix),
        }
    }

    /// The addresses of a prefix, or a single one; `None` if the word is neither.
    pub fn from_prefix(word: &str) -> Option<Self> {
        let (address, bits) = word.split_once('/').map_or((word, None), |(one, bits)| (one, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &&str| bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.map_or(Some(most), |bits| Some(bits).filter(is_number)?.parse().ok())?;
        (bits <= most).then_some(Self::Prefix(address, bits))
    }

    /// Whether all of its addresses are those of loopback (RFC 1122, section 3.2.1.3). The player chooses such ones, if
    /// it has the choice.
    pub fn is_loopback(self) -> bool {
        match self {
            Self::One | Self::Spread => true,
            Self::Prefix(IpAddr::V4(address), bits) => address.is_loopback() && bits >= 8,
            Self::Prefix(IpAddr::V6(address), bits) => address.is_loopback() && bits == 128,
        }
    }

    /// Whether it names addresses of IPv6.
    pub fn is_ipv6(self) -> bool {
        matches!(self, Self::Prefix(address, _) if address.is_ipv6())
    }

    /// Its word.
    pub fn word(self) -> String {
        match self {
            Self::One => Self::WORDS[0].to_owned(),
            Self::Spread => Self::WORDS[1].to_owned(),
            Self::Prefix(address, bits) => format!("{address}/{bits}"),
        }
    }
}
