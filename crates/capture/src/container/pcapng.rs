//! pcapng: sections with a byte order each, interfaces with a link and a clock each, and packets of interfaces
//! (draft-ietf-opsawg-pcapng). Blocks of other types are passed over without being held.

use std::io::BufRead as _;

use pcap_parser::{
    EPB_MAGIC, IDB_MAGIC, InterfaceDescriptionBlock, SHB_MAGIC, SPB_MAGIC,
    parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le, parse_sectionheaderblock,
};

use crate::error::CaptureError;
use crate::link::Link;
use crate::window::{ROOM_BYTES, Window};

use super::Record;
use super::clock::Clock;

/// The type of packet blocks that enhanced packet blocks replaced.
const OLD_PACKET: u32 = 2;

/// The type and the two lengths around a block's content, bytes.
const FRAME_BYTES: u32 = 12;
/// Type and length, which precede the content.
const BEFORE_BYTES: usize = 8;
const SECTION_BYTES_LEAST: usize = 28;

/// The longest block with a packet, an interface or a section, bytes. Longer packets are passed over, and blocks of other
/// types may have any length.
const BLOCK_BYTES_MOST: usize = ROOM_BYTES;

/// The most interfaces of a section.
const INTERFACES_MOST: usize = 1 << 16;

const LENGTHS_DIFFER: &str = "a block whose two lengths differ";

/// The resolution of an interface that names none: microseconds.
const USUAL_RESOLUTION: u8 = 6;

/// Options of an interface.
const END_OF_OPTIONS: u16 = 0;
const TS_RESOLUTION: u16 = 9;
const TS_OFFSET: u16 = 14;

#[derive(Clone)]
pub(crate) struct Pcapng {
    is_big_endian: bool,
    /// The interfaces of the section.
    interfaces: Vec<Interface>,
    /// The time of the last packet that had one.
    last_ns: u64,
}

#[derive(Clone, Copy)]
struct Interface {
    link: Link,
    /// 0: without limit.
    snap_bytes: u32,
    clock: Clock,
}

impl Pcapng {
    pub(super) fn new() -> Self {
        Self { is_big_endian: false, interfaces: Vec::new(), last_ns: 0 }
    }

    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<Record>, CaptureError> {
        loop {
            if !window.have(FRAME_BYTES as usize)? {
                if window.here().is_empty() {
                    return Ok(None);
                }
                return Err(window.cut("the capture ends within the header of a block"));
            }
            let kind = self.word(window.here(), 0);
            match kind {
                // A number that is the same in both byte orders.
                SHB_MAGIC => self.section(window)?,
                IDB_MAGIC => self.interface(window)?,
                EPB_MAGIC | OLD_PACKET | SPB_MAGIC => return self.packet(window, kind).map(Some),
                _ => self.other(window)?,
            }
        }
    }

    /// Begins a section, with its byte order and without interfaces.
    fn section(&mut self, window: &mut Window) -> Result<(), CaptureError> {
        if !window.have(SECTION_BYTES_LEAST)? {
            return Err(window.damaged("the capture ends within the header of a section"));
        }
        self.is_big_endian = match &window.here()[8..12] {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return Err(window.damaged("the header of a section has no byte order")),
        };
        let bytes = self.whole(window)?;
        match parse_sectionheaderblock(&window.here()[..bytes]) {
            Ok((_, header)) if header.major_version == 1 => {}
            Ok((_, header)) => {
                let (major, minor) = (header.major_version, header.minor_version);
                return Err(window.damaged(format!("version {major}.{minor} of the format; expected 1.0")));
            }
            Err(_) => return Err(window.damaged("the header of a section cannot be read")),
        }
        self.interfaces.clear();
        window.consume(bytes);
        Ok(())
    }

    fn interface(&mut self, window: &mut Window) -> Result<(), CaptureError> {
        let bytes = self.whole(window)?;
        if self.interfaces.len() == INTERFACES_MOST {
            return Err(window.damaged(format!("a section of more than {INTERFACES_MOST} interfaces")));
        }
        let here = &window.here()[..bytes];
        let parsed = if self.is_big_endian {
            parse_interfacedescriptionblock_be(here)
        } else {
            parse_interfacedescriptionblock_le(here)
        };
        let Ok((_, block)) = parsed else {
            return Err(window.damaged("the description of an interface cannot be read"));
        };
        let interface = self.described(&block);
        self.interfaces.push(interface);
        window.consume(bytes);
        Ok(())
    }

    /// The interface of a description.
    fn described(&self, block: &InterfaceDescriptionBlock<'_>) -> Interface {
        let (mut resolution, mut offset_s) = (USUAL_RESOLUTION, 0);
        for option in block.options.iter().take_while(|option| option.code.0 != END_OF_OPTIONS) {
            let Ok(value) = option.as_bytes() else { continue };
            match (option.code.0, value) {
                (TS_RESOLUTION, [exponent]) => resolution = *exponent,
                (TS_OFFSET, value) => {
                    let Ok(seconds) = <[u8; 8]>::try_from(value) else { continue };
                    offset_s = if self.is_big_endian {
                        i64::from_be_bytes(seconds)
                    } else {
                        i64::from_le_bytes(seconds)
                    };
                }
                _ => {}
            }
        }
        let clock = Clock::new(resolution, offset_s);
        let link = Link::from_number(block.linktype.0.cast_unsigned());
        Interface { link, snap_bytes: block.snaplen, clock }
    }

    fn packet(&mut self, window: &mut Window, kind: u32) -> Result<Record, CaptureError> {
        if self.block_bytes(window)? as usize > BLOCK_BYTES_MOST {
            self.other(window)?;
            return Ok(Record::oversized(self.last_ns, Link::Raw));
        }
        let bytes = self.whole(window)?;
        let content = &window.here()[BEFORE_BYTES..bytes - 4];
        let read = if kind == SPB_MAGIC { self.simple(content) } else { self.timed(content, kind) };
        let mut record = read.map_err(|what| window.damaged(what))?;
        self.last_ns = record.at_ns;
        record.packet = record.packet.start + BEFORE_BYTES..record.packet.end + BEFORE_BYTES;
        record.bytes = bytes;
        Ok(record)
    }

    /// An enhanced packet block, or a packet block of old. The error is what is wrong with it.
    fn timed(&self, content: &[u8], kind: u32) -> Result<Record, String> {
        const HEADER_BYTES: usize = 20;
        if content.len() < HEADER_BYTES {
            return Err(format!("a block of {} bytes for a packet", content.len() + FRAME_BYTES as usize));
        }
        let number = match kind {
            OLD_PACKET if self.is_big_endian => u32::from(u16::from_be_bytes([content[0], content[1]])),
            OLD_PACKET => u32::from(u16::from_le_bytes([content[0], content[1]])),
            _ => self.word(content, 0),
        };
        let interface = self.interface_of(number)?;
        let ticks = (u64::from(self.word(content, 4)) << 32) | u64::from(self.word(content, 8));
        let (captured, original) = (self.word(content, 12), self.word(content, 16));
        let room = content.len() - HEADER_BYTES;
        if captured as usize > room {
            return Err(format!("a packet of {captured} bytes in a block with room for {room}"));
        }
        Ok(Record {
            at_ns: interface.clock.unix_ns(ticks),
            link: interface.link,
            interface: number,
            packet: HEADER_BYTES..HEADER_BYTES + captured as usize,
            is_cut: captured < original,
            is_oversized: false,
            bytes: 0,
        })
    }

    /// A simple packet block: of the first interface, and without a time.
    fn simple(&self, content: &[u8]) -> Result<Record, String> {
        const HEADER_BYTES: usize = 4;
        if content.len() < HEADER_BYTES {
            return Err(format!("a block of {} bytes for a packet", content.len() + FRAME_BYTES as usize));
        }
        let interface = self.interface_of(0)?;
        let original = self.word(content, 0);
        let most = if interface.snap_bytes == 0 { u32::MAX } else { interface.snap_bytes };
        let captured = (content.len() - HEADER_BYTES).min(original.min(most) as usize);
        Ok(Record {
            at_ns: self.last_ns,
            link: interface.link,
            interface: 0,
            packet: HEADER_BYTES..HEADER_BYTES + captured,
            is_cut: captured < original as usize,
            is_oversized: false,
            bytes: 0,
        })
    }

    fn interface_of(&self, number: u32) -> Result<Interface, String> {
        let interface = self.interfaces.get(number as usize);
        interface.copied().ok_or_else(|| format!("a packet of interface {number}, which has no description"))
    }

    /// Passes over a block of any length.
    fn other(&self, window: &mut Window) -> Result<(), CaptureError> {
        let bytes = self.block_bytes(window)?;
        let offset = window.offset();
        if !window.pass(u64::from(bytes - 4))? || !window.have(4)? {
            return Err(CaptureError::cut(
                offset,
                &format!("the capture ends within a block of {bytes} bytes"),
            ));
        }
        if self.word(window.here(), 0) != bytes {
            return Err(CaptureError::Damaged { offset, what: LENGTHS_DIFFER.to_owned() });
        }
        window.consume(4);
        Ok(())
    }

    /// Brings the whole block into the window, and returns its length.
    fn whole(&self, window: &mut Window) -> Result<usize, CaptureError> {
        let stated = self.block_bytes(window)?;
        let bytes = stated as usize;
        if bytes > BLOCK_BYTES_MOST {
            return Err(window.damaged(format!("a block of {bytes} bytes; {BLOCK_BYTES_MOST} are the most")));
        }
        if !window.have(bytes)? {
            return Err(window.cut(&format!("the capture ends within a block of {bytes} bytes")));
        }
        if self.word(window.here(), bytes - 4) != stated {
            return Err(window.damaged(LENGTHS_DIFFER));
        }
        Ok(bytes)
    }

    /// The length of the block at the window's place, of which the window holds the header.
    fn block_bytes(&self, window: &Window) -> Result<u32, CaptureError> {
        let bytes = self.word(window.here(), 4);
        if bytes < FRAME_BYTES || !bytes.is_multiple_of(4) {
            let what = format!("a block of {bytes} bytes; expected at least 12, a multiple of 4");
            return Err(window.damaged(what));
        }
        Ok(bytes)
    }

    /// The four bytes at `at`, in the section's order.
    #[inline]
    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }
}
