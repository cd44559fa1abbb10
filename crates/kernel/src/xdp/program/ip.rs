//! The part of the program that reads IP headers: protocol, destination and source.

use std::net::IpAddr;

use super::{Filter, Prefix, Protocols, network_order, within};
use crate::bpf::assembler::Register::{R2, R7};
use crate::bpf::assembler::{Assembler, Is, Label, Width};

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// The bytes of a UDP header (RFC 768), and those of a TCP header that have its ports (RFC 9293, section 3.1).
const TRANSPORT_BYTES: i32 = 8;

// IP protocol numbers (RFC 5237).
const TCP: u16 = 6;
const UDP: u16 = 17;

impl Family {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    fn from_address(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Whether a packet of this family can match.
    pub(super) fn can_match(self, filter: &Filter) -> bool {
        let is_own = filter.own.iter().any(|prefix| Self::from_address(prefix.address) == self);
        let is_peer = filter.peers.iter().any(|peer| Self::from_address(peer.ip()) == self);
        is_own && (is_peer || filter.peers.is_empty())
    }

    pub(super) fn ethernet_type(self) -> u16 {
        match self {
            Self::V4 => 0x0800,
            Self::V6 => 0x86dd,
        }
    }

    /// The length of the header in bytes, without options or extensions.
    fn header_bytes(self) -> i16 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// The offsets of protocol, source and destination in the header (RFC 791, section 3.1; RFC 8200, section 3).
    fn fields(self) -> (i16, i16, i16) {
        match self {
            Self::V4 => (9, 12, 16),
            Self::V6 => (6, 8, 24),
        }
    }

    /// Checks the header at R7, and moves R7 behind it. At least eight bytes follow there.
    pub(super) fn write(self, code: &mut Assembler, filter: &Filter, pass: Label) {
        within(code, i32::from(self.header_bytes()) + TRANSPORT_BYTES, pass);
        self.version(code, pass);
        let (protocol_at, source_at, destination_at) = self.fields();
        protocol(code, protocol_at, filter.protocols, pass);
        self.destination(code, destination_at, filter, pass);
        if !filter.peers.is_empty() {
            self.source(code, source_at, filter, pass);
        }
        code.add(R7, i32::from(self.header_bytes()));
    }

    fn version(self, code: &mut Assembler, pass: Label) {
        code.load(Width::Byte, R2, R7, 0);
        match self {
            Self::V4 => {
                // Version 4, and a header of five words, which has no options.
                code.jump_if(R2, Is::NotEqual, 0x45, pass);
                // More fragments follow, or this one is not the first.
                code.load(Width::Half, R2, R7, 6);
                code.and(R2, u32::from(network_order(0x3fff)));
                code.jump_if(R2, Is::NotEqual, 0, pass);
            }
            Self::V6 => {
                code.and(R2, 0xf0);
                code.jump_if(R2, Is::NotEqual, 0x60, pass);
            }
        }
    }

    fn destination(self, code: &mut Assembler, at: i16, filter: &Filter, pass: Label) {
        let found = code.label();
        for prefix in filter.own.iter().filter(|prefix| Self::from_address(prefix.address) == self) {
            let other = code.label();
            unless_in(code, at, prefix, other);
            code.jump(found);
            code.place(other);
        }
        code.jump(pass);
        code.place(found);
    }

    fn source(self, code: &mut Assembler, at: i16, filter: &Filter, pass: Label) {
        let found = code.label();
        for peer in filter.peers.iter().filter(|peer| Self::from_address(peer.ip()) == self) {
            let other = code.label();
            unless_in(code, at, &Prefix::of_one(peer.ip()), other);
            code.load(Width::Half, R2, R7, self.header_bytes());
            code.jump_if(R2, Is::NotEqual, network_order(peer.port()), other);
            code.jump(found);
            code.place(other);
        }
        code.jump(pass);
        code.place(found);
    }
}

fn protocol(code: &mut Assembler, at: i16, protocols: Protocols, pass: Label) {
    code.load(Width::Byte, R2, R7, at);
    match protocols {
        Protocols::Udp => code.jump_if(R2, Is::NotEqual, UDP, pass),
        Protocols::Tcp => code.jump_if(R2, Is::NotEqual, TCP, pass),
        Protocols::Both => {
            let found = code.label();
            code.jump_if(R2, Is::Equal, UDP, found);
            code.jump_if(R2, Is::NotEqual, TCP, pass);
            code.place(found);
        }
    }
}

/// Jumps if the address at R7 + `at` is not in a network.
fn unless_in(code: &mut Assembler, at: i16, prefix: &Prefix, other: Label) {
    for ((word, mask), at) in words(prefix).into_iter().zip((at..).step_by(4)) {
        code.load(Width::Word, R2, R7, at);
        if mask != u32::MAX {
            code.and(R2, mask);
        }
        code.jump_if_word(R2, Is::NotEqual, word, other);
    }
}

/// The words of an address that count, each with its mask, as loads from a frame give them: in network order. The
/// first word always counts, so that every network is compared with something.
fn words(prefix: &Prefix) -> Vec<(u32, u32)> {
    let mask = |bits: u32| u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    let octets = match prefix.address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let words = octets.as_chunks::<4>().0.iter().zip(0_u32..).filter_map(|(word, index)| {
        let bits = u32::from(prefix.bits).saturating_sub(32 * index).min(32);
        let mask = mask(bits);
        (index == 0 || bits > 0).then(|| ((u32::from_be_bytes(*word) & mask).to_be(), mask.to_be()))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_that_count_are_compared() {
        let words = |address: &str, bits| {
            let words = words(&Prefix { address: address.parse().unwrap(), bits });
            words.into_iter().map(|(word, mask)| (u32::from_be(word), u32::from_be(mask))).collect::<Vec<_>>()
        };
        assert_eq!(words("198.18.7.9", 15), [(0xc612_0000, 0xfffe_0000)]);
        assert_eq!(words("198.18.7.9", 32), [(0xc612_0709, u32::MAX)]);
        assert_eq!(words("198.18.7.9", 0), [(0, 0)]);
        assert_eq!(words("2001:db8::1", 32), [(0x2001_0db8, u32::MAX)]);
        assert_eq!(words("2001:db8:1234::", 48), [(0x2001_0db8, u32::MAX), (0x1234_0000, 0xffff_0000)]);
        assert_eq!(words("2001:db8::1", 128)[3], (1, u32::MAX));
        assert_eq!(words("2001:db8::1", 128).len(), 4);
        assert_eq!(words("::", 0), [(0, 0)]);
    }
}
