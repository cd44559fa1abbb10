//! Lines from a stream that may bring anything: no line is longer than a limit, and a stream without line feeds is an
//! error instead of all memory.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kqps_kernel::clock;

/// The bytes of one read while lines are short.
const CHUNK: usize = 8 << 10;

/// The bytes of one read within a long line: what a pipe holds (pipe(7)).
const LONG_CHUNK: usize = 64 << 10;

/// The memory that is kept when no line is in it.
const KEPT: usize = 1 << 20;

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// A line has more bytes than its limit.
    #[error("a line of more than {0} bytes")]
    TooLong(usize),
    /// Reading failed.
    #[error("reading failed: {0}")]
    Unreadable(#[from] io::Error),
}

/// A stream that is read line by line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// The first byte that was not lent yet.
    start: usize,
    /// All bytes before this one and after `start` are no line feeds.
    scanned: usize,
    /// When bytes came last, on this host's monotonic clock.
    heard_ns: Arc<AtomicU64>,
}

impl<R: Read> Lines<R> {
    /// Reads from a stream. Every read that brings bytes puts its time (`CLOCK_MONOTONIC`, nanoseconds) into
    /// `heard_ns`.
    pub(crate) fn new(from: R, heard_ns: Arc<AtomicU64>) -> Self {
        Self { from, buffer: Vec::new(), start: 0, scanned: 0, heard_ns }
    }

    /// The next line without its line feed, of at most `most` bytes; `None` at the end of the stream. A last line
    /// without a line feed was cut off, and does not count.
    pub(crate) fn next(&mut self, most: usize) -> Result<Option<&[u8]>, LineError> {
        loop {
            if let Some(place) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
                let line = self.start..self.scanned + place;
                if line.len() > most {
                    return Err(LineError::TooLong(most));
                }
                self.start = line.end + 1;
                self.scanned = self.start;
                return Ok(Some(&self.buffer[line]));
            }
            self.scanned = self.buffer.len();
            if self.scanned - self.start > most {
                return Err(LineError::TooLong(most));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads once. Returns whether any bytes came.
    fn read(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        let old = self.buffer.len();
        self.buffer.resize(old + if old < CHUNK { CHUNK } else { LONG_CHUNK }, 0);
        let count = loop {
            match self.from.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(old + *count.as_ref().unwrap_or(&0));
        if count? == 0 {
            return Ok(false);
        }
        self.heard_ns.store(clock::now_ns(), Relaxed);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its bytes in pieces of a length.
    struct Pieces<'b>(&'b [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = into.len().min(self.1);
            self.0.read(&mut into[..most])
        }
    }

    fn all(bytes: &[u8], piece: usize, most: usize) -> Result<Vec<Vec<u8>>, String> {
        let heard_ns = Arc::new(AtomicU64::new(0));
        let mut lines = Lines::new(Pieces(bytes, piece), Arc::clone(&heard_ns));
        let mut found = Vec::new();
        while let Some(line) = lines.next(most).map_err(|error| error.to_string())? {
            found.push(line.to_vec());
        }
        assert!(bytes.is_empty() || heard_ns.load(Relaxed) > 0);
        Ok(found)
    }

    #[test]
    fn lines_are_the_same_in_pieces_of_any_size() {
        // Each read clears as much memory as a long read may bring, so that small pieces have a shorter line.
        let small = [1, 2, 3, 7].map(|piece| (piece, 10_000));
        let large = [4096, 8192, 65_536, 1 << 20].map(|piece| (piece, 100_000));
        for (piece, length) in small.into_iter().chain(large) {
            let long = [vec![b'x'; length], vec![b'\n']].concat();
            let bytes = [b"one\n\ntwo\r\n".to_vec(), long, b"three\ncut off".to_vec()].concat();
            let found = all(&bytes, piece, length).unwrap();
            let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
            assert_eq!(lengths, [3, 0, 4, length, 5], "pieces of {piece}");
            assert_eq!((found[0].as_slice(), found[4].as_slice()), (&b"one"[..], &b"three"[..]));
        }
        assert_eq!(all(b"", 1, 10), Ok(vec![]));
    }

    #[test]
    fn a_line_without_an_end_is_an_error_and_not_all_memory() {
        let error = Err("a line of more than 1000 bytes".to_owned());
        for piece in [1, 999, 1 << 16] {
            assert_eq!(all(&b"x".repeat(200_000), piece, 1000), error);
        }
        assert_eq!(all(&[&[b'x'; 1001][..], b"\n"].concat(), 5000, 1000), error);
        assert!(all(&[&[b'x'; 1000][..], b"\n"].concat(), 5000, 1000).is_ok());
        let heard_ns = Arc::new(AtomicU64::new(0));
        let mut endless = Lines::new(io::repeat(b'x'), heard_ns);
        assert!(matches!(endless.next(1 << 20), Err(LineError::TooLong(_))));
        assert!(endless.buffer.len() < (1 << 20) + 2 * LONG_CHUNK);
    }

    #[test]
    fn the_memory_of_a_long_line_is_given_back() {
        let bytes = [vec![b'x'; 3 << 20], b"\nshort\n".to_vec()].concat();
        let mut lines = Lines::new(Pieces(&bytes, 1 << 16), Arc::default());
        assert_eq!(lines.next(4 << 20).unwrap().map(<[u8]>::len), Some(3 << 20));
        while lines.next(4 << 20).unwrap().is_some() {}
        assert!(lines.buffer.capacity() <= KEPT);
    }

    #[test]
    fn an_interrupted_read_is_repeated_and_another_error_is_returned() {
        struct Failing(Vec<ErrorKind>);
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(self.0.remove(0).into())
            }
        }
        let kinds = vec![ErrorKind::Interrupted, ErrorKind::BrokenPipe];
        let mut lines = Lines::new(Failing(kinds), Arc::default());
        match lines.next(10).unwrap_err() {
            LineError::Unreadable(error) => assert_eq!(error.kind(), ErrorKind::BrokenPipe),
            other @ LineError::TooLong(_) => panic!("{other}"),
        }
    }
}
