//! The source of a dataset, hashed while it is read.

use std::io::{self, Read};

/// A reader that hashes the bytes that it reads.
pub(crate) struct Hashing<R> {
    pub(crate) source: R,
    pub(crate) hasher: blake3::Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let taken = self.source.read(into)?;
        self.hasher.update(&into[..taken]);
        Ok(taken)
    }
}
