//! The errors of a capture, with the place in it.

use std::fmt;
use std::io;

use crate::foreign::Foreign;

/// The reason why a capture, or the rest of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The system refused to read.
    #[error("cannot read the capture: {0}")]
    Io(io::Error),
    /// The first bytes are of no known format.
    #[error(
        "not a capture: {first}; expected pcap, pcapng, or dnstap in Frame Streams, plain or compressed by \
         gzip or zstd{}",
        Unpack(*.packing)
    )]
    NotACapture {
        /// The first bytes, in words; after decompression if they are compressed.
        first: String,
        /// The compression, if there is one.
        packing: Option<&'static str>,
    },
    /// The first bytes are of a format that is not read.
    #[error("{}{format}", Inside(*.packing))]
    Foreign {
        /// The format; after decompression if the file is compressed by gzip or zstd.
        format: Foreign,
        /// The compression, if there is one.
        packing: Option<&'static str>,
    },
    /// The bytes contradict their format.
    #[error("the capture is damaged at byte {offset}: {what}")]
    Damaged {
        /// The place in the capture after decompression, in bytes from its beginning.
        offset: u64,
        /// The fault there.
        what: String,
    },
}

/// Where a format was found.
struct Inside(Option<&'static str>);

impl fmt::Display for Inside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |packing| write!(out, "after `{packing} -d`, "))
    }
}

/// The remedy for a compressed file of something else.
struct Unpack(Option<&'static str>);

impl fmt::Display for Unpack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |packing| {
            write!(out, ". Only captures may be compressed: unpack other files first, by `{packing} -d`")
        })
    }
}

impl CaptureError {
    /// The capture ends too soon, within what begins at this place, as if its writer was killed.
    pub(crate) fn cut(offset: u64, what: &str) -> Self {
        let remedy = format!("`head -c {offset}` of the uncompressed capture keeps what is whole");
        Self::Damaged { offset, what: format!("{what}; {remedy}") }
    }
}

/// The error of a decompressor, on its way through [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("the {packing} data cannot be decompressed after byte {offset}: {error}")]
pub(crate) struct Unpacking {
    pub(crate) packing: &'static str,
    /// How many bytes were decompressed before.
    pub(crate) offset: u64,
    pub(crate) error: io::Error,
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Unpacking>() {
            Ok(Unpacking { packing, offset, error }) => {
                Self::Damaged { offset, what: format!("the {packing} data cannot be decompressed: {error}") }
            }
            Err(error) => Self::Io(error),
        }
    }
}
