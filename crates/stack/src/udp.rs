//! Datagrams of UDP (RFC 768), written around a payload that is in its place already.

mod flow;

use crate::checksum::Sum;
use crate::ends::Ends;
use crate::headers::{self, Layout, Protocol, UDP_BYTES};
use crate::turn::turn;

pub use flow::{Flow, destination};

/// Bytes before the payload of a frame between these ends: 42 to 66.
#[inline]
pub fn header_bytes(ends: &Ends) -> usize {
    headers::transport_starts(ends) + UDP_BYTES
}

/// Writes all headers before a payload that stands at [`header_bytes`] and has at most 65,507 bytes. Returns the length
/// of the frame.
///
/// # Panics
///
/// If the frame has less room than that.
#[inline]
pub fn write(frame: &mut [u8], ends: &Ends, payload_bytes: usize) -> usize {
    let udp_bytes = UDP_BYTES + payload_bytes;
    let (at, sum) = headers::write(frame, ends, Protocol::Udp, udp_bytes);
    let datagram = &mut frame[at..at + udp_bytes];
    datagram[..2].copy_from_slice(&ends.from.port().to_be_bytes());
    datagram[2..4].copy_from_slice(&ends.to.port().to_be_bytes());
    datagram[4..6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
    datagram[6..8].fill(0);
    let checksum = sum.and(datagram).checksum();
    datagram[6..8].copy_from_slice(&never_none(checksum).to_be_bytes());
    at + udp_bytes
}

/// Makes a received datagram the reply to it, in place: the payload of the reply stands where that of the query did,
/// and has so many bytes. Turns the ends round, and writes lengths and whole checksums. `frame` is all the room, of
/// which the first `frame_bytes` were received. Returns the length of the frame; `None` if it has no whole datagram, or
/// no room for the reply.
#[inline]
pub fn reply(frame: &mut [u8], frame_bytes: usize, payload_bytes: usize) -> Option<usize> {
    let layout = Layout::from_frame(frame.get(..frame_bytes)?)?;
    let end = layout.payload + payload_bytes;
    let ip_bytes = u16::try_from(end - layout.ip).ok()?;
    if layout.protocol != Protocol::Udp || end > frame.len() {
        return None;
    }
    let layout = Layout { end, ..layout };
    turn(frame, &layout);
    if layout.is_ipv4 {
        frame[layout.ip + 2..layout.ip + 4].copy_from_slice(&ip_bytes.to_be_bytes());
        frame[layout.ip + 10..layout.ip + 12].fill(0);
        let header_bytes = usize::from(frame[layout.ip] & 0x0f) * 4;
        let checksum = Sum::from_bytes(&frame[layout.ip..layout.ip + header_bytes]).checksum();
        frame[layout.ip + 10..layout.ip + 12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        let payload_bytes = ip_bytes - headers::IPV6_BYTES as u16;
        frame[layout.ip + 4..layout.ip + 6].copy_from_slice(&payload_bytes.to_be_bytes());
    }
    let sum = layout.pseudo_header(frame);
    let datagram = &mut frame[layout.transport..end];
    let udp_bytes = datagram.len() as u16;
    datagram[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
    datagram[6..8].fill(0);
    let checksum = sum.and(datagram).checksum();
    datagram[6..8].copy_from_slice(&never_none(checksum).to_be_bytes());
    Some(end)
}

/// A checksum of 0 is sent as its complement, since 0 says that there is none.
#[inline]
fn never_none(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}
