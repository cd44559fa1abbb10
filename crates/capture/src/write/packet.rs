//! The bytes of packets: Ethernet, IP, UDP and TCP, with their checksums (RFC 1071).

use std::io;
use std::net::{IpAddr, SocketAddr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_HEADER_BYTES: u16 = 20;
const UDP_HEADER_BYTES: usize = 8;
const TCP_HEADER_BYTES: usize = 20;
/// TTL of IPv4 and hop limit of IPv6.
const HOPS: u8 = 64;
/// The version and the flow of an IPv6 header.
const VERSION_6: u32 = 0x6000_0000;
const FLOW_BITS: u32 = 0x000f_ffff;

/// Addresses of Ethernet, destination first; they are of local use.
const STATIONS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// A segment of TCP.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// The sequence number of the first byte, or of SYN or FIN.
    pub sequence: u32,
    /// The acknowledgment number, which counts with [`Self::ACK`].
    pub acknowledgment: u32,
    /// The flags, such as `Segment::SYN | Segment::ACK`.
    pub flags: u8,
    /// The bytes.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// The sender has no more bytes.
    pub const FIN: u8 = 0x01;
    /// The first segment of a direction.
    pub const SYN: u8 = 0x02;
    /// The connection is broken off.
    pub const RST: u8 = 0x04;
    /// The receiver must not wait for more bytes.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number counts.
    pub const ACK: u8 = 0x10;

    pub(super) fn new(
        from: SocketAddr,
        to: SocketAddr,
        sequence: u32,
        acknowledgment: u32,
        flags: u8,
        payload: &'a [u8],
    ) -> Self {
        Self { from, to, sequence, acknowledgment, flags, payload }
    }
}

/// Appends a header of Ethernet.
pub(super) fn ethernet(out: &mut Vec<u8>, is_ipv4: bool) {
    out.extend_from_slice(&STATIONS);
    out.extend_from_slice(if is_ipv4 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
}

/// Appends a packet with a datagram of UDP.
pub(super) fn udp(
    out: &mut Vec<u8>,
    number: u32,
    from: SocketAddr,
    to: SocketAddr,
    payload: &[u8],
) -> io::Result<()> {
    let bytes = u16::try_from(UDP_HEADER_BYTES + payload.len()).map_err(|_| too_long())?;
    let pseudo = ip(out, number, (from.ip(), to.ip()), UDP, bytes)?;
    let start = out.len();
    for word in [from.port(), to.port(), bytes, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(payload);
    // 0 stands for no checksum (RFC 768).
    let checksum = match complement(sum(pseudo, &out[start..])) {
        0 => u16::MAX,
        checksum => checksum,
    };
    out[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Appends a packet with a segment of TCP.
pub(super) fn tcp(out: &mut Vec<u8>, number: u32, segment: &Segment<'_>) -> io::Result<()> {
    let Segment { from, to, sequence, acknowledgment, flags, payload } = *segment;
    let bytes = u16::try_from(TCP_HEADER_BYTES + payload.len()).map_err(|_| too_long())?;
    let pseudo = ip(out, number, (from.ip(), to.ip()), TCP, bytes)?;
    let start = out.len();
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
    out.extend_from_slice(&sequence.to_be_bytes());
    out.extend_from_slice(&acknowledgment.to_be_bytes());
    // Five words of header, a window of 64 KiB, then the checksum and the pointer to urgent bytes.
    out.extend_from_slice(&[5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend_from_slice(payload);
    let checksum = complement(sum(pseudo, &out[start..]));
    out[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Appends a header of IP before `content_bytes` bytes. Returns the sum of the pseudo header. `number` is the packet's
/// number over IPv4, and its flow over IPv6.
fn ip(
    out: &mut Vec<u8>,
    number: u32,
    ends: (IpAddr, IpAddr),
    protocol: u8,
    content_bytes: u16,
) -> io::Result<u32> {
    let start = out.len();
    let addresses = match ends {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let bytes = IPV4_HEADER_BYTES.checked_add(content_bytes).ok_or_else(too_long)?;
            out.extend_from_slice(&[0x45, 0]);
            out.extend_from_slice(&bytes.to_be_bytes());
            out.extend_from_slice(&number.to_be_bytes()[2..]);
            // The flag against fragments, and room for the checksum.
            out.extend_from_slice(&[0x40, 0, HOPS, protocol, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            let checksum = complement(sum(0, &out[start..]));
            out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
            &out[start + 12..]
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend_from_slice(&(VERSION_6 | (number & FLOW_BITS)).to_be_bytes());
            out.extend_from_slice(&content_bytes.to_be_bytes());
            out.extend_from_slice(&[protocol, HOPS]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            &out[start + 8..]
        }
        _ => {
            let what = "the addresses of a packet are of two versions of IP";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    };
    Ok(sum(u32::from(protocol) + u32::from(content_bytes), addresses))
}

/// The error of a message that no packet holds.
pub(super) fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a message too long for a packet")
}

/// Adds the words of at most 64 KiB to a sum; the last byte is followed by 0 if it stands alone.
fn sum(start: u32, bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |byte| u32::from(*byte) << 8);
    words.fold(start + last, |sum, word| sum + u32::from(u16::from_be_bytes([word[0], word[1]])))
}

/// The complement of a sum, with its carries added.
fn complement(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let [_, _, high, low] = ((once & 0xffff) + (once >> 16)).to_be_bytes();
    !u16::from_be_bytes([high, low])
}
