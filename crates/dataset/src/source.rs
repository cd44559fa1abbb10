//! The source of a dataset, hashed while it is read.

use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kqps_capture::FIRST_BYTES;

pub(crate) const BUFFER_BYTES: usize = 1 << 20;

/// A reader that hashes the bytes that it reads, unless their hash is known.
pub(crate) struct Hashing<R> {
    source: R,
    known: Option<[u8; 32]>,
    hasher: blake3::Hasher,
    /// Bytes that were looked at and not yet read.
    first: Vec<u8>,
}

impl<R: Read> Hashing<R> {
    /// `known` is the hash of the whole source, if the caller has computed it before.
    pub(crate) fn new(source: R, known: Option<[u8; 32]>) -> Self {
        Self { source, known, hasher: blake3::Hasher::new(), first: Vec::new() }
    }

    /// The bytes that show the format, before anything is read: the first [`FIRST_BYTES`], or all if the source has fewer.
    pub(crate) fn first(&mut self) -> io::Result<&[u8]> {
        let missing = FIRST_BYTES.saturating_sub(self.first.len());
        self.source.by_ref().take(missing as u64).read_to_end(&mut self.first)?;
        Ok(&self.first)
    }

    /// BLAKE3 of all bytes that were read, or the hash that is known.
    pub(crate) fn hash(&self) -> [u8; 32] {
        self.known.unwrap_or_else(|| *self.hasher.finalize().as_bytes())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let looked_at = self.first.len().min(into.len());
        into[..looked_at].copy_from_slice(&self.first[..looked_at]);
        self.first.drain(..looked_at);
        let taken = match self.source.read(&mut into[looked_at..]) {
            Ok(taken) => looked_at + taken,
            // The next read reports it, unless it was an interrupt.
            Err(_) if looked_at > 0 => looked_at,
            Err(error) => return Err(error),
        };
        if self.known.is_none() {
            self.hasher.update(&into[..taken]);
        }
        Ok(taken)
    }
}

/// A source for a reader that keeps what it reads from. Another handle to it yields the hash afterwards.
pub(crate) struct Shared<R>(Arc<Mutex<BufReader<Hashing<R>>>>);

impl<R: Read> Shared<R> {
    pub(crate) fn new(source: Hashing<R>) -> Self {
        Self(Arc::new(Mutex::new(BufReader::with_capacity(BUFFER_BYTES, source))))
    }

    /// BLAKE3 of the whole source. Reads what is left of it.
    pub(crate) fn hash_to_end(&self) -> io::Result<[u8; 32]> {
        let mut source = self.lock();
        io::copy(&mut *source, &mut io::sink())?;
        Ok(source.get_ref().hash())
    }
}

impl<R> Shared<R> {
    fn lock(&self) -> MutexGuard<'_, BufReader<Hashing<R>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Read> Read for Shared<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.lock().read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that hands out one byte at a time, as a slow pipe does.
    struct Slow(&'static [u8]);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = into.len().min(1);
            self.0.read(&mut into[..most])
        }
    }

    #[test]
    fn bytes_that_were_looked_at_are_read_and_hashed() {
        static LONG: [u8; FIRST_BYTES + 9] = [b'a'; FIRST_BYTES + 9];
        for content in [&b""[..], b"a", &LONG[..FIRST_BYTES], &LONG] {
            let mut source = Hashing::new(Slow(content), None);
            let first = &content[..content.len().min(FIRST_BYTES)];
            assert_eq!(source.first().expect("bytes"), first);
            assert_eq!(source.first().expect("the same bytes"), first);
            let mut all = Vec::new();
            source.read_to_end(&mut all).expect("bytes");
            assert_eq!(all, content);
            assert_eq!(source.hash(), *blake3::hash(content).as_bytes());
        }
    }

    #[test]
    fn the_hash_covers_what_the_reader_left() {
        let shared = Shared::new(Hashing::new(Slow(b"a capture and more"), None));
        let mut taken = [0; 9];
        shared.clone().read_exact(&mut taken).expect("nine bytes");
        assert_eq!(&taken, b"a capture");
        assert_eq!(shared.hash_to_end().expect("the rest"), *blake3::hash(b"a capture and more").as_bytes());
    }
}
