//! Read-only memory maps of files.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A file's bytes, which the kernel reads into the page cache when they are first used; they take no private
/// memory.
///
/// The file must not change while it is mapped: kqps maps only files that it wrote itself, under a name made
/// from their content. If a mapped file is truncated, access beyond its new end kills the process with
/// SIGBUS.
#[derive(Debug)]
pub struct MappedFile(Option<memmap2::Mmap>);

impl MappedFile {
    /// Maps a whole file. The map of an empty file has no bytes.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the bytes are only read, and by the type's contract nothing changes the file while it is
        // mapped.
        unsafe { memmap2::Mmap::map(&file) }.map(|map| Self(Some(map)))
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"").unwrap();
        assert_eq!(&*MappedFile::open(&path).unwrap(), b"");
        std::fs::write(&path, b"bytes").unwrap();
        assert_eq!(&*MappedFile::open(&path).unwrap(), b"bytes");
        assert!(MappedFile::open(&directory.path().join("none")).is_err());
    }
}
