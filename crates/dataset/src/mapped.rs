//! An encoded file in memory, with what its header and its facts say.

use std::io;
use std::path::Path;

use kqps_kernel::map::MappedFile;

use crate::encoded::Header;
use crate::facts::CaptureFacts;

/// The encoded form of a dataset, mapped.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) file: MappedFile,
    pub(crate) header: Header,
    /// What is known of the capture, if the source is one.
    pub(crate) capture: Option<CaptureFacts>,
}

impl Mapped {
    /// Maps a file that was written with this header.
    pub(crate) fn written(path: &Path, header: Header) -> io::Result<Self> {
        Self::of(MappedFile::open(path)?, header)
    }

    /// Maps a file of the cache, if it is there, whole and undamaged.
    pub(crate) fn kept(path: &Path, source_hash: &[u8; 32]) -> Option<Self> {
        let file = MappedFile::open(path).ok()?;
        let header = Header::read(&file)?;
        if header.source_hash != *source_hash || !header.matches_body(&file) {
            return None;
        }
        Self::of(file, header).ok()
    }

    fn of(file: MappedFile, header: Header) -> io::Result<Self> {
        let capture = match header.facts(&file) {
            [] => None,
            facts => Some(serde_json::from_slice(facts)?),
        };
        Ok(Self { file, header, capture })
    }
}
