//! The formats of captures, by their first bytes.

use crate::compression::Packing;
use crate::container::pcap::Pcap;

/// The bytes by which a format is recognised.
pub(crate) const MAGIC_BYTES: usize = 4;

/// The format of a capture that is not compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The format of libpcap, with microseconds or nanoseconds, or modified, in either byte order.
    Pcap,
    Pcapng,
    /// Frame Streams of dnstap. They begin with an escape sequence, before a control frame.
    Taps,
}

impl Format {
    pub(crate) fn from_first_bytes(first: &[u8]) -> Option<Self> {
        match first.first_chunk::<MAGIC_BYTES>()? {
            first if Pcap::is(*first) => Some(Self::Pcap),
            [0x0a, 0x0d, 0x0d, 0x0a] => Some(Self::Pcapng),
            [0, 0, 0, 0] => Some(Self::Taps),
            _ => None,
        }
    }
}

/// Whether a file with these first bytes is a capture, or compressed by gzip or zstd and so perhaps one. Four bytes are
/// enough.
pub fn is_capture(first_bytes: &[u8]) -> bool {
    Format::from_first_bytes(first_bytes).is_some() || Packing::from_first_bytes(first_bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_are_enough_and_text_is_no_capture() {
        let captures: [&[u8; 4]; 12] = [
            b"\xa1\xb2\xc3\xd4",
            b"\xd4\xc3\xb2\xa1",
            b"\xa1\xb2\x3c\x4d",
            b"\x4d\x3c\xb2\xa1",
            b"\xa1\xb2\xcd\x34",
            b"\x34\xcd\xb2\xa1",
            b"\x0a\x0d\x0d\x0a",
            b"\0\0\0\0",
            b"\x1f\x8b\x08\0",
            b"\x28\xb5\x2f\xfd",
            b"\x50\x2a\x4d\x18",
            b"\x5f\x2a\x4d\x18",
        ];
        assert!(captures.iter().all(|first| is_capture(*first)));
        let others: [&[u8]; 6] = [b"", b"\xa1\xb2\xc3", b"a.example. A", b"\0\x1d\0\0", b"\n\n\n\n", b"\x1f"];
        assert!(!others.iter().any(|first| is_capture(first)));
    }
}
