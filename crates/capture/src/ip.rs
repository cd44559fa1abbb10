//! The headers of IPv4 and IPv6: between which addresses a packet goes, and what it carries.

use std::net::IpAddr;
use std::ops::Range;

use etherparse::err::ipv4::HeaderSliceError as Ipv4Error;
use etherparse::err::ipv6::HeaderSliceError as Ipv6Error;
use etherparse::ip_number::{
    AUTH, HIP, IPV6_DEST_OPTIONS, IPV6_FRAG, IPV6_HOP_BY_HOP, IPV6_ROUTE, MOBILITY, SHIM6, TCP, UDP,
};
use etherparse::{
    IpAuthHeaderSlice, IpFragOffset, IpNumber, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice,
    Ipv6RawExtHeaderSlice,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::counts::Why;

/// Where addresses begin in the headers. The bytes before change on the way, but for those of [`Ip::number`].
const IPV4_ADDRESSES: usize = 12;
const IPV6_ADDRESSES: usize = 8;

/// Where checksums are in the headers of UDP and TCP.
const UDP_CHECKSUM_AT: usize = 6;
const TCP_CHECKSUM_AT: usize = 16;
const CHECKSUM_BYTES: usize = 2;

const IPV6_HEADER_BYTES: usize = 40;
const IPV6_FRAGMENT_HEADER_BYTES: usize = 8;

/// A packet of IP.
pub(crate) struct Ip {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// The protocol of the payload, which follows the headers of IP.
    pub(crate) protocol: IpNumber,
    /// Its place in the packet, as far as it was captured.
    pub(crate) payload: Range<usize>,
    /// Whether the end of the payload was not captured.
    pub(crate) is_cut: bool,
    /// How many bytes of it were not; 0 if that is unknown as well.
    pub(crate) missing: usize,
    pub(crate) part: Option<Part>,
    /// The packet's number and place in its datagram over IPv4, and its flow over IPv6.
    number: u32,
    /// How many more routers the packet may pass.
    pub(crate) hop_limit: u8,
    addresses_at: usize,
}

/// The place of a fragment in its datagram.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) identification: u32,
    pub(crate) offset: IpFragOffset,
    pub(crate) is_last: bool,
}

impl Ip {
    /// `is_cut`: the capture does not hold the whole packet.
    #[inline]
    pub(crate) fn read(packet: &[u8], is_cut: bool) -> Result<Self, Why> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => v4(packet, is_cut),
            Some(6) => v6(packet, is_cut),
            Some(_) => Err(Why::BadHeader),
            None => Err(Why::too_short(is_cut)),
        }
    }

    /// Whether [`Self::identity`] has a number by which the sender distinguishes its packets. IPv6 has one in fragments
    /// alone, and the number 0 of IPv4 is none (RFC 6864, section 4.1).
    pub(crate) fn is_numbered(&self) -> bool {
        self.part.is_some() || (self.from.is_ipv4() && self.number >> 16 != 0)
    }

    /// A hash of what two captures of the same packet have in common. A sender may leave the checksum of UDP or TCP to
    /// the device, so a capture at its host may have another one than that of a mirrored port.
    #[inline]
    pub(crate) fn identity(&self, packet: &[u8]) -> u64 {
        let (bytes, seed) = (&packet[self.addresses_at..self.payload.end], u64::from(self.number));
        let is_first = self.part.is_none_or(|part| part.offset.value() == 0);
        let checksum_at = match self.protocol {
            UDP if is_first => UDP_CHECKSUM_AT,
            TCP if is_first => TCP_CHECKSUM_AT,
            _ => return xxh3_64_with_seed(bytes, seed),
        };
        let (before, rest) =
            bytes.split_at((self.payload.start - self.addresses_at + checksum_at).min(bytes.len()));
        let seed = xxh3_64_with_seed(before, seed);
        xxh3_64_with_seed(rest.get(CHECKSUM_BYTES..).unwrap_or_default(), seed)
    }
}

fn v4(packet: &[u8], is_cut: bool) -> Result<Ip, Why> {
    let header = Ipv4HeaderSlice::from_slice(packet).map_err(|error| match error {
        Ipv4Error::Len(_) => Why::too_short(is_cut),
        Ipv4Error::Content(_) => Why::BadHeader,
    })?;
    let header_bytes = header.slice().len();
    let stated = usize::from(header.total_len());
    let (end, is_cut) = end(stated, header_bytes, packet.len(), is_cut)?;
    let (offset, is_last) = (header.fragments_offset(), !header.more_fragments());
    let part = (offset.value() != 0 || !is_last).then(|| Part {
        identification: u32::from(header.identification()),
        offset,
        is_last,
    });
    let (mut protocol, mut start) = (header.protocol(), header_bytes);
    if protocol == AUTH && part.is_none() {
        let (next, at, inner) = pass_extensions(&packet[..end], start, protocol, is_cut)?;
        if inner.is_some() {
            return Err(Why::BadHeader);
        }
        (protocol, start) = (next, at);
    }
    Ok(Ip {
        from: header.source().into(),
        to: header.destination().into(),
        protocol,
        payload: start..end,
        is_cut,
        missing: stated.saturating_sub(end),
        part,
        number: u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]),
        hop_limit: header.ttl(),
        addresses_at: IPV4_ADDRESSES,
    })
}

fn v6(packet: &[u8], is_cut: bool) -> Result<Ip, Why> {
    let header = Ipv6HeaderSlice::from_slice(packet).map_err(|error| match error {
        Ipv6Error::Len(_) => Why::too_short(is_cut),
        Ipv6Error::Content(_) => Why::BadHeader,
    })?;
    let stated = match usize::from(header.payload_length()) {
        0 => 0,
        payload => IPV6_HEADER_BYTES + payload,
    };
    let (end, is_cut) = end(stated, IPV6_HEADER_BYTES, packet.len(), is_cut)?;
    let (protocol, start, part) =
        pass_extensions(&packet[..end], IPV6_HEADER_BYTES, header.next_header(), is_cut)?;
    Ok(Ip {
        from: header.source().into(),
        to: header.destination().into(),
        protocol,
        payload: start..end,
        is_cut,
        missing: stated.saturating_sub(end),
        part,
        number: u32::from_be_bytes([0, packet[1] & 0x0f, packet[2], packet[3]]),
        hop_limit: header.hop_limit(),
        addresses_at: IPV6_ADDRESSES,
    })
}

/// The end of a packet of the `stated` length, and whether the capture lacks some of it. If a sender leaves it to the
/// device to cut a packet into segments, it may be captured with a length of 0, which stands for all that was captured.
fn end(stated: usize, header: usize, captured: usize, is_cut: bool) -> Result<(usize, bool), Why> {
    match stated {
        0 => Ok((captured, is_cut)),
        _ if stated < header => Err(Why::BadHeader),
        _ if stated <= captured => Ok((stated, false)),
        _ if is_cut => Ok((captured, true)),
        _ => Err(Why::BadHeader),
    }
}

/// Passes over extension headers from `at` on, up to a fragment's payload or to another protocol. Returns the protocol,
/// where it begins, and the fragment. Every header takes bytes, so that no loop is endless.
pub(crate) fn pass_extensions(
    packet: &[u8],
    mut at: usize,
    mut next: IpNumber,
    is_cut: bool,
) -> Result<(IpNumber, usize, Option<Part>), Why> {
    let short = Why::too_short(is_cut);
    loop {
        let rest = &packet[at..];
        match next {
            IPV6_HOP_BY_HOP | IPV6_DEST_OPTIONS | IPV6_ROUTE | MOBILITY | HIP | SHIM6 => {
                let header = Ipv6RawExtHeaderSlice::from_slice(rest).map_err(|_| short)?;
                at += header.slice().len();
                next = header.next_header();
            }
            AUTH => {
                let header = IpAuthHeaderSlice::from_slice(rest).map_err(|_| short)?;
                at += header.slice().len();
                next = header.next_header();
            }
            IPV6_FRAG => {
                let header = Ipv6FragmentHeaderSlice::from_slice(rest).map_err(|_| short)?;
                at += IPV6_FRAGMENT_HEADER_BYTES;
                next = header.next_header();
                // An atomic fragment (RFC 6946) is a whole datagram.
                if header.is_fragmenting_payload() {
                    let part = Part {
                        identification: header.identification(),
                        offset: header.fragment_offset(),
                        is_last: !header.more_fragments(),
                    };
                    return Ok((next, at, Some(part)));
                }
            }
            _ => return Ok((next, at, None)),
        }
    }
}
