//! The format of libpcap: a header, then packets, each after its time and lengths.

use std::io::BufRead as _;

use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use crate::error::CaptureError;
use crate::link::Link;
use crate::window::Window;

use super::Record;

const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;

/// The longest packet, bytes: the limit of libpcap for links of packets. The snap length in the header of a file is not
/// used, since it may say anything.
const PACKET_BYTES_MOST: usize = 256 << 10;

/// The bits of the last word of the header that are the type of the link. Others say whether frames end with checksums.
const LINK_BITS: u32 = 0x03ff_ffff;

pub(crate) struct Pcap {
    is_big_endian: bool,
    /// The unit of the times' fractions.
    fraction_ns: u64,
    link: Link,
}

impl Pcap {
    /// Reads the header of the file.
    pub(super) fn open(window: &mut Window) -> Result<Self, CaptureError> {
        if !window.have(FILE_HEADER_BYTES)? {
            return Err(window.damaged("the capture ends within its header"));
        }
        let Ok((_, header)) = parse_pcap_header(window.here()) else {
            return Err(window.damaged("the header of the capture cannot be read"));
        };
        if header.version_major != 2 {
            let (major, minor) = (header.version_major, header.version_minor);
            return Err(window.damaged(format!("version {major}.{minor} of the format; expected 2.4")));
        }
        window.consume(FILE_HEADER_BYTES);
        Ok(Self {
            is_big_endian: header.is_bigendian(),
            fraction_ns: if header.is_nanosecond_precision() { 1 } else { 1000 },
            link: Link::of(header.network.0 as u32 & LINK_BITS),
        })
    }

    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<Record>, CaptureError> {
        if !window.have(PACKET_HEADER_BYTES)? {
            if window.here().is_empty() {
                return Ok(None);
            }
            return Err(window.cut("the capture ends within the header of a packet"));
        }
        let captured = self.captured_bytes(window.here());
        if captured > PACKET_BYTES_MOST {
            return Err(
                window.damaged(format!("a packet of {captured} bytes; {PACKET_BYTES_MOST} are the most"))
            );
        }
        if !window.have(PACKET_HEADER_BYTES + captured)? {
            return Err(window.cut(&format!("the capture ends within a packet of {captured} bytes")));
        }
        let here = window.here();
        let parsed = if self.is_big_endian { parse_pcap_frame_be(here) } else { parse_pcap_frame(here) };
        let Ok((_, block)) = parsed else {
            return Err(window.damaged("the header of a packet cannot be read"));
        };
        let bytes = PACKET_HEADER_BYTES + captured;
        Ok(Some(Record {
            at_ns: u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec) * self.fraction_ns,
            link: self.link,
            packet: PACKET_HEADER_BYTES..bytes,
            is_cut: block.caplen < block.origlen,
            bytes,
        }))
    }

    /// The number of bytes that were captured of the packet whose header begins `here`.
    fn captured_bytes(&self, here: &[u8]) -> usize {
        let word = [here[8], here[9], here[10], here[11]];
        let bytes = if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) };
        bytes as usize
    }
}
