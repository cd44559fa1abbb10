//! Frames of links, and where the packet of IP begins in them (<https://www.tcpdump.org/linktypes.html>).

use crate::counts::Why;

const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
/// Tags of VLANs: IEEE 802.1Q, 802.1ad, and the two that came before the latter.
const ETHER_TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];

/// The numbers of IPv4 and IPv6 as families of addresses: of all systems, then of Linux, NetBSD and OpenBSD, FreeBSD,
/// and macOS.
const FAMILIES: [u32; 5] = [2, 10, 24, 28, 30];

/// The type of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    /// The device `any` of Linux.
    Sll,
    /// The device `any` of Linux, in the second version of its frame.
    Sll2,
    /// A packet without a frame.
    Raw,
    /// A family of addresses in four bytes, in the byte order of the host that captured or in that of the network.
    Null,
    Unknown,
}

impl Link {
    /// The type with this number in a capture.
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Ethernet,
            113 => Self::Sll,
            276 => Self::Sll2,
            // RAW as it is on several systems, and links of one version of IP.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            0 | 108 => Self::Null,
            _ => Self::Unknown,
        }
    }

    /// Why a packet that is too long to be held is skipped: a packet of IP with DNS has 65,575 bytes at most.
    pub(crate) fn why_oversized(self) -> Why {
        if self == Self::Unknown { Why::Link } else { Why::BadHeader }
    }

    /// The place of the packet of IP in a frame.
    #[inline]
    pub(crate) fn pass(self, frame: &[u8], is_cut: bool) -> Result<usize, Why> {
        match self {
            Self::Ethernet => network(frame, 12, 14, is_cut),
            Self::Sll => network(frame, 14, 16, is_cut),
            Self::Sll2 => network(frame, 0, 20, is_cut),
            Self::Raw => version(frame, 0, is_cut),
            Self::Null => {
                let Some(family) = frame.first_chunk() else { return Err(Why::too_short(is_cut)) };
                let either = [u32::from_be_bytes(*family), u32::from_le_bytes(*family)];
                if !either.iter().any(|family| FAMILIES.contains(family)) {
                    return Err(Why::NotIp);
                }
                version(frame, 4, is_cut)
            }
            Self::Unknown => Err(Why::Link),
        }
    }
}

/// Reads the type of what a frame holds at `type_at`, which begins at `at`, and passes over tags of VLANs.
#[inline]
fn network(frame: &[u8], type_at: usize, mut at: usize, is_cut: bool) -> Result<usize, Why> {
    let mut kind = word(frame, type_at).ok_or(Why::too_short(is_cut))?;
    loop {
        match kind {
            ETHER_IPV4 | ETHER_IPV6 if at <= frame.len() => return Ok(at),
            ETHER_IPV4 | ETHER_IPV6 => return Err(Why::too_short(is_cut)),
            tag if ETHER_TAGS.contains(&tag) => {
                kind = word(frame, at + 2).ok_or(Why::too_short(is_cut))?;
                at += 4;
            }
            _ => return Err(Why::NotIp),
        }
    }
}

/// Checks that a packet of IP begins at `at`.
fn version(frame: &[u8], at: usize, is_cut: bool) -> Result<usize, Why> {
    match frame.get(at).map(|first| first >> 4) {
        Some(4 | 6) => Ok(at),
        Some(_) => Err(Why::NotIp),
        None => Err(Why::too_short(is_cut)),
    }
}

#[inline]
fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]))
}
