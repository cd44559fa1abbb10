//! The format of libpcap: a header, then packets, each after its time and lengths (pcap-savefile(5)).

use std::io::BufRead as _;

use crate::error::CaptureError;
use crate::link::Link;
use crate::window::Window;

use super::Record;

const FILE_HEADER_BYTES: usize = 24;

/// The longest packet that is read, bytes: the limit of libpcap for links of packets. The snap length in the header of a
/// file is not used, since it may say anything. Longer packets are passed over.
const PACKET_BYTES_MOST: usize = 256 << 10;

/// The longest packet that any file has, bytes: the limit of libpcap for USB and D-Bus. A longer one shows that the file
/// is damaged.
const ANY_PACKET_BYTES_MOST: usize = 128 << 20;

/// The bits of the last word of the header that are the type of the link. Others say whether frames end with checksums.
const LINK_BITS: u32 = 0x03ff_ffff;

/// The numbers at the beginning of a file, in the byte order of its writer.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Each packet has 8 more bytes with its interface, protocol and direction (Kuznetsov's patch of libpcap 0.4).
const MODIFIED: u32 = 0xa1b2_cd34;

#[derive(Clone)]
pub(crate) struct Pcap {
    order: Order,
    /// The unit of the times' fractions.
    fraction_ns: u64,
    packet_header_bytes: usize,
    link: Link,
}

/// A byte order.
#[derive(Clone, Copy)]
struct Order {
    is_big_endian: bool,
}

impl Order {
    /// The four bytes at `at`.
    #[inline]
    fn word(self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    /// The two bytes at `at`.
    fn half(self, bytes: &[u8], at: usize) -> u16 {
        let half = [bytes[at], bytes[at + 1]];
        if self.is_big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) }
    }
}

/// The byte order and the number of a file that begins with these bytes; `None` if it is of another format.
fn magic(first: [u8; 4]) -> Option<(Order, u32)> {
    [(true, u32::from_be_bytes(first)), (false, u32::from_le_bytes(first))]
        .into_iter()
        .find(|(_, number)| matches!(*number, MICROSECONDS | NANOSECONDS | MODIFIED))
        .map(|(is_big_endian, number)| (Order { is_big_endian }, number))
}

impl Pcap {
    /// Whether a file that begins with these bytes has this format.
    pub(crate) fn is(first: [u8; 4]) -> bool {
        magic(first).is_some()
    }

    /// Reads the header of the file.
    pub(super) fn open(window: &mut Window) -> Result<Self, CaptureError> {
        if !window.have(FILE_HEADER_BYTES)? {
            return Err(window.damaged("the capture ends within its header"));
        }
        let here = window.here();
        let Some((order, number)) = here.first_chunk().and_then(|first| magic(*first)) else {
            return Err(window.damaged("the header of the capture cannot be read"));
        };
        let (major, minor) = (order.half(here, 4), order.half(here, 6));
        if major != 2 {
            return Err(window.damaged(format!("version {major}.{minor} of the format; expected 2.4")));
        }
        let link = Link::from_number(order.word(here, 20) & LINK_BITS);
        window.consume(FILE_HEADER_BYTES);
        Ok(Self {
            order,
            fraction_ns: if number == NANOSECONDS { 1 } else { 1000 },
            packet_header_bytes: if number == MODIFIED { 24 } else { 16 },
            link,
        })
    }

    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<Record>, CaptureError> {
        if !window.have(self.packet_header_bytes)? {
            if window.here().is_empty() {
                return Ok(None);
            }
            return Err(window.cut("the capture ends within the header of a packet"));
        }
        let [seconds, fraction, captured, original] =
            [0, 4, 8, 12].map(|at| self.order.word(window.here(), at));
        let at_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns;
        let (packet_bytes, offset) = (captured as usize, window.offset());
        if packet_bytes > ANY_PACKET_BYTES_MOST {
            return Err(window
                .damaged(format!("a packet of {packet_bytes} bytes; {ANY_PACKET_BYTES_MOST} are the most")));
        }
        let bytes = self.packet_header_bytes + packet_bytes;
        let is_oversized = packet_bytes > PACKET_BYTES_MOST;
        let is_whole = if is_oversized { window.pass(bytes as u64)? } else { window.have(bytes)? };
        if !is_whole {
            let what = format!("the capture ends within a packet of {packet_bytes} bytes");
            return Err(CaptureError::cut(offset, &what));
        }
        if is_oversized {
            return Ok(Some(Record::oversized(at_ns, self.link)));
        }
        Ok(Some(Record {
            at_ns,
            link: self.link,
            interface: 0,
            packet: self.packet_header_bytes..bytes,
            is_cut: captured < original,
            is_oversized: false,
            bytes,
        }))
    }
}
