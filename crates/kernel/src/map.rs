//! Files mapped into memory, read only.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A file's bytes, read from the page cache as they are touched; they cost no memory of the process's own.
///
/// The file is to be left alone while it is mapped: kqps maps only files that it wrote itself under a name
/// made from their content. A file that is cut short under the map ends the process with SIGBUS.
#[derive(Debug)]
pub struct MappedFile(Option<memmap2::Mmap>);

impl MappedFile {
    /// Maps a whole file. An empty file maps to no bytes.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the bytes are only read, and the type's contract leaves the file to us while it is mapped.
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
