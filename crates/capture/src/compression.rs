//! Decompression of captures: gzip with several members, and zstd with several frames.

use std::error::Error;
use std::io::{self, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::error::CaptureError;
use crate::window::Window;

/// The bytes by which a compression is recognised.
const MAGIC_BYTES: usize = 4;

/// The longest header of a zstd frame (RFC 8878, section 3.1.1), bytes.
const FRAME_HEADER_BYTES_MOST: usize = 18;

/// The largest window of a zstd frame, bytes: as much as `zstd -d` takes without `--long` or `--memory`. Decompressing takes
/// up to twice as much memory. Levels of `zstd` up to 19 make windows of at most 8 MiB, `--ultra` and `--long` of at most
/// 128 MiB.
const FRAME_WINDOW_BYTES_MOST: u64 = 128 << 20;

/// How a capture is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    /// The compression of a file with these first bytes; four are enough.
    pub(crate) fn from_first_bytes(first: &[u8]) -> Option<Self> {
        match first {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // A frame, or a frame that is skipped (RFC 8878, sections 3.1.1 and 3.1.2).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// A window over what `source` holds, decompressed if it is compressed.
pub(crate) fn open(source: Box<dyn Read + Send>) -> Result<Window, CaptureError> {
    let mut raw = Window::new(source, None);
    raw.have(MAGIC_BYTES)?;
    Ok(match Packing::from_first_bytes(raw.here()) {
        None => raw,
        Some(Packing::Gzip) => Window::new(Box::new(MultiGzDecoder::new(raw)), Some("gzip")),
        Some(Packing::Zstd) => Window::new(Box::new(Frames::new(raw)), Some("zstd")),
    })
}

/// The content of the zstd frames of a stream, one after the other.
struct Frames {
    source: Source,
    decoder: FrameDecoder,
}

/// The compressed stream. The decoder wraps its errors in others, so they are kept.
struct Source {
    window: Window,
    failure: Option<io::Error>,
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.window.read(into).map_err(|error| {
            let kind = error.kind();
            self.failure = Some(error);
            kind.into()
        })
    }
}

impl Source {
    /// The error of the stream if it has failed, and else the decoder's.
    fn explained(&mut self, error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
        self.failure.take().unwrap_or_else(|| io::Error::other(error))
    }
}

impl Frames {
    fn new(window: Window) -> Self {
        Self { source: Source { window, failure: None }, decoder: FrameDecoder::new() }
    }

    /// Begins the next frame. Returns false if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            self.source.window.have(FRAME_HEADER_BYTES_MOST)?;
            let header = self.source.window.here();
            if header.is_empty() {
                return Ok(false);
            }
            if let Some(bytes) = skipped_bytes(header) {
                if !self.source.window.pass(bytes)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            if let Some(bytes) = window_bytes(header)
                && bytes > FRAME_WINDOW_BYTES_MOST
            {
                return Err(io::Error::other(format!(
                    "a frame needs a window of {bytes} bytes, and {FRAME_WINDOW_BYTES_MOST} are the most; \
                     decompress it before, by `zstd -d --long=31`"
                )));
            }
            let begun = self.decoder.reset(&mut self.source);
            return begun.map(|()| true).map_err(|error| self.source.explained(error));
        }
    }

    /// Compares the checksum of the frame that was read, if it has one.
    fn check(&self) -> io::Result<()> {
        let Some(stored) = self.decoder.get_checksum_from_data() else { return Ok(()) };
        if self.decoder.get_calculated_checksum() == Some(stored) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum of a frame is wrong"))
    }
}

impl Read for Frames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if into.is_empty() || self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            if self.decoder.is_finished() {
                self.check()?;
                if !self.begin()? {
                    return Ok(0);
                }
            } else {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.source, blocks);
                decoded.map_err(|error| self.source.explained(error))?;
            }
        }
    }
}

/// The length of a skippable frame, with its header; `None` for other frames.
fn skipped_bytes(header: &[u8]) -> Option<u64> {
    match header {
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, ..] => {
            Some(8 + u64::from(u32::from_le_bytes([*a, *b, *c, *d])))
        }
        _ => None,
    }
}

/// The window that a frame needs (RFC 8878, section 3.1.1.1.2); `None` if the header is cut.
fn window_bytes(header: &[u8]) -> Option<u64> {
    let descriptor = *header.get(4)?;
    if descriptor & 0x20 == 0 {
        let window = *header.get(5)?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: its window is its content.
    let at = 5 + [0, 1, 2, 4][usize::from(descriptor & 3)];
    let bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let size = header.get(at..at + bytes)?;
    Some(size.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_a_frame_is_read_from_its_header() {
        // A window of 8 MiB, by `zstd -19`: exponent 13, mantissa 0.
        assert_eq!(window_bytes(&[0x28, 0xb5, 0x2f, 0xfd, 0x04, 13 << 3]), Some(8 << 20));
        assert_eq!(window_bytes(&[0x28, 0xb5, 0x2f, 0xfd, 0x04, (13 << 3) | 4]), Some(12 << 20));
        // Single segments with sizes of one and eight bytes.
        assert_eq!(window_bytes(&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 19]), Some(19));
        let huge = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 1, 0, 0, 0, 0, 0, 0, 0x10];
        assert_eq!(window_bytes(&huge), Some(1 | (0x10 << 56)));
        assert_eq!(window_bytes(&huge[..12]), None);
    }

    #[test]
    fn a_frame_with_a_huge_window_is_an_error_and_no_memory() {
        let huge = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0];
        let mut window = open(Box::new(io::Cursor::new(huge))).expect("known by its first bytes");
        let said = CaptureError::from(window.have(1).expect_err("a window beyond the limit")).to_string();
        assert!(said.starts_with("the capture is damaged at byte 0: the zstd data"), "{said}");
        assert!(said.contains("134217728 are the most"), "{said}");
    }
}
