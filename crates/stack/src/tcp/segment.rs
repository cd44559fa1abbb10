//! Segments: reading and writing headers with their options.

use crate::ends::Ends;
use crate::headers::{self, Protocol, TCP_BYTES};
use crate::parsed::Parsed;

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const TIMESTAMPS: u8 = 8;

/// Two paddings before the option, so that its numbers are aligned (RFC 7323, appendix A). Most segments have these
/// options and no others.
const ALIGNED_TIMESTAMPS: [u8; 4] = [NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10];

/// Bytes of timestamps with their padding.
pub(super) const TIMESTAMPS_BYTES: usize = 12;

/// The largest shift of a window (RFC 7323, section 2.3).
pub(super) const SHIFT_MOST: u8 = 14;

/// Control bits of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(1 << 1);
    /// Reset the connection.
    pub const RST: Self = Self(1 << 2);
    /// Push data to the receiving program.
    pub const PSH: Self = Self(1 << 3);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(1 << 4);

    /// Whether all of these bits are set.
    #[inline]
    pub fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// These bits and others.
    #[inline]
    #[must_use]
    pub const fn with(self, bits: Self) -> Self {
        Self(self.0 | bits.0)
    }
}

/// The options that are used. All others are passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The longest segment that the sender takes, bytes.
    pub mss: Option<u16>,
    /// How far the sender's windows are shifted, 0 to 14.
    pub window_scale: Option<u8>,
    /// The sender's time, and the echo of the receiver's.
    pub timestamps: Option<(u32, u32)>,
}

impl Options {
    /// Bytes that they take, with padding.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let timestamps = if self.timestamps.is_some() { TIMESTAMPS_BYTES } else { 0 };
        timestamps + (usize::from(self.mss.is_some()) + usize::from(self.window_scale.is_some())) * 4
    }

    /// Reads options up to the first that is malformed.
    #[inline]
    fn read(mut bytes: &[u8]) -> Self {
        if let Some((&ALIGNED_TIMESTAMPS, numbers)) = bytes.split_first_chunk::<4>()
            && let Some(numbers) = numbers.first_chunk::<8>()
            && bytes.len() == TIMESTAMPS_BYTES
        {
            return Self { timestamps: Some(pair(*numbers)), ..Self::default() };
        }
        let mut found = Self::default();
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                END_OF_OPTIONS => break,
                NO_OPERATION => bytes = rest,
                _ => {
                    let Some((&length, _)) = rest.split_first() else { break };
                    let length = usize::from(length);
                    let Some(value) = bytes.get(2..length) else { break };
                    found.take(kind, value);
                    bytes = &bytes[length..];
                }
            }
        }
        found
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(SHIFT_MOST)),
            (TIMESTAMPS, value) => {
                self.timestamps = <[u8; 8]>::try_from(value).ok().map(pair).or(self.timestamps);
            }
            _ => {}
        }
    }

    /// Writes them into exactly their bytes.
    #[inline]
    fn write(&self, mut bytes: &mut [u8]) {
        let mut put = |option: &[u8]| {
            let (place, rest) = std::mem::take(&mut bytes).split_at_mut(option.len());
            place.copy_from_slice(option);
            bytes = rest;
        };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            put(&[MSS, 4, high, low]);
        }
        if let Some(shift) = self.window_scale {
            put(&[NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        if let Some((value, echo)) = self.timestamps {
            put(&ALIGNED_TIMESTAMPS);
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        }
    }
}

/// Two numbers.
#[inline]
fn pair(bytes: [u8; 8]) -> (u32, u32) {
    let both = u64::from_be_bytes(bytes);
    ((both >> 32) as u32, both as u32)
}

/// The header of a segment without its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The next sequence number that the sender expects, if [`Flags::ACK`] is set.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window, before it is shifted.
    pub window: u16,
    /// Options.
    pub options: Options,
}

/// A segment that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'f> {
    /// Its header.
    pub header: Header,
    /// Its data.
    pub payload: &'f [u8],
}

impl<'f> Segment<'f> {
    /// The segment in a frame; `None` if it has a datagram.
    #[inline]
    pub fn from_parsed(parsed: &Parsed<'f>) -> Option<Self> {
        if parsed.protocol() != Protocol::Tcp {
            return None;
        }
        let (fixed, options) = parsed.transport_header().split_first_chunk::<TCP_BYTES>()?;
        let (sequence, acknowledgment) = pair(*fixed[4..].first_chunk()?);
        let header = Header {
            sequence,
            acknowledgment,
            flags: Flags(fixed[13]),
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            options: Options::read(options),
        };
        Some(Self { header, payload: parsed.payload() })
    }

    /// Sequence numbers that it takes: its bytes, and one each for SYN and FIN.
    #[inline]
    pub fn length(&self) -> u32 {
        let bits =
            u32::from(self.header.flags.has(Flags::SYN)) + u32::from(self.header.flags.has(Flags::FIN));
        self.payload.len() as u32 + bits
    }
}

/// Bytes before the payload of a segment between these ends with these options.
#[inline]
pub fn header_bytes(ends: &Ends, options: &Options) -> usize {
    headers::transport_starts(ends) + TCP_BYTES + options.bytes()
}

/// Writes all headers before a payload that stands at [`header_bytes`]. Returns the length of the frame.
///
/// # Panics
///
/// If the frame has less room than that.
#[inline]
pub fn write(frame: &mut [u8], ends: &Ends, header: &Header, payload_bytes: usize) -> usize {
    let header_bytes = TCP_BYTES + header.options.bytes();
    let tcp_bytes = header_bytes + payload_bytes;
    let (at, sum) = headers::write(frame, ends, Protocol::Tcp, tcp_bytes);
    let segment = &mut frame[at..at + tcp_bytes];
    segment[..2].copy_from_slice(&ends.from.port().to_be_bytes());
    segment[2..4].copy_from_slice(&ends.to.port().to_be_bytes());
    segment[4..8].copy_from_slice(&header.sequence.to_be_bytes());
    segment[8..12].copy_from_slice(&header.acknowledgment.to_be_bytes());
    segment[12] = (header_bytes as u8 / 4) << 4;
    segment[13] = header.flags.0;
    segment[14..16].copy_from_slice(&header.window.to_be_bytes());
    // The checksum, and the urgent pointer.
    segment[16..20].fill(0);
    header.options.write(&mut segment[TCP_BYTES..header_bytes]);
    let checksum = sum.and(segment).checksum();
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    at + tcp_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_up_to_the_first_malformed_one() {
        let mss = [MSS, 4, 5, 180];
        let expected = Options { mss: Some(1460), ..Options::default() };
        let malformed = [
            &[][..],
            &[WINDOW_SCALE],
            &[WINDOW_SCALE, 0],
            &[WINDOW_SCALE, 1, 7],
            &[TIMESTAMPS, 10, 0, 0],
            &[END_OF_OPTIONS, WINDOW_SCALE, 3, 7],
        ];
        for rest in malformed {
            assert_eq!(Options::read(&[&mss[..], rest].concat()), expected, "{rest:?}");
        }
        // An unknown option, selective ACKs, and one of a wrong length are passed over.
        let others = [&[254, 4, 1, 2, 4, 2, 3, 4, 9, 9][..], &mss].concat();
        assert_eq!(Options::read(&others), expected);
        assert_eq!(Options::read(&[WINDOW_SCALE, 3, 200]).window_scale, Some(14));
    }

    #[test]
    fn options_read_back_as_they_were_written() {
        for bits in 0..8 {
            let options = Options {
                mss: (bits & 1 != 0).then_some(1440),
                window_scale: (bits & 2 != 0).then_some(7),
                timestamps: (bits & 4 != 0).then_some((0x0102_0304, 0xfffe_fdfc)),
            };
            let mut bytes = vec![0xaa; options.bytes()];
            options.write(&mut bytes);
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(Options::read(&bytes), options);
        }
    }
}
