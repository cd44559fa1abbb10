//! An encoded file in memory, with what its header and its facts say.

use std::io;
use std::path::Path;

use kqps_kernel::map::MappedFile;

use crate::bad::Bad;
use crate::encoded::Header;
use crate::facts::CaptureFacts;
use crate::tail::Tail;

/// The encoded form of a dataset, mapped.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) file: MappedFile,
    pub(crate) header: Header,
    /// The facts of the capture, if the source is one.
    pub(crate) capture: Option<CaptureFacts>,
    /// The bad lines or messages that were skipped.
    pub(crate) bad: Bad,
}

impl Mapped {
    /// Maps a file that was written with this header.
    pub(crate) fn written(path: &Path, header: Header) -> io::Result<Self> {
        Self::new(MappedFile::open(path)?, header)
    }

    /// Maps a file of the cache, if it is there, whole and undamaged.
    pub(crate) fn kept(path: &Path, source_hash: &[u8; 32]) -> Option<Self> {
        let file = MappedFile::open(path).ok()?;
        let header = Header::read(&file)?;
        if header.source_hash != *source_hash || !header.matches_body(&file) {
            return None;
        }
        Self::new(file, header).ok()
    }

    fn new(file: MappedFile, header: Header) -> io::Result<Self> {
        let (capture, first) = match header.facts(&file) {
            [] => (None, Vec::new()),
            facts => match serde_json::from_slice(facts)? {
                Tail::Capture(facts) => (Some(*facts), Vec::new()),
                Tail::Bad(first) => (None, first),
            },
        };
        // Messages of a capture that cannot be read are counted and not named.
        let count = if capture.is_some() { 0 } else { header.skipped.bad() };
        if first.len() as u64 > count {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it names more bad lines than it counts"));
        }
        Ok(Self { file, header, capture, bad: Bad::known(first, count) })
    }
}
