//! A window over a stream of bytes: what is in it can be read without a copy, and it knows its place in the stream.

use std::io::{self, BufRead, Read};

use crate::error::{CaptureError, Unpacking};

/// The size of a window, and so the most bytes that can be seen at once.
pub(crate) const ROOM_BYTES: usize = 512 << 10;

pub(crate) struct Window {
    source: Box<dyn Read + Send>,
    /// The compression of the source, if it is a decompressor.
    packing: Option<&'static str>,
    room: Vec<u8>,
    start: usize,
    end: usize,
    /// The place of `start` in the stream.
    offset: u64,
    is_ended: bool,
    /// The error that the next read reports, since it came when bytes ahead were looked at.
    failure: Option<io::Error>,
}

impl Window {
    pub(crate) fn new(source: Box<dyn Read + Send>, packing: Option<&'static str>) -> Self {
        Self {
            source,
            packing,
            room: vec![0; ROOM_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            is_ended: false,
            failure: None,
        }
    }

    /// The bytes that are in the window.
    #[inline]
    pub(crate) fn here(&self) -> &[u8] {
        &self.room[self.start..self.end]
    }

    /// The compression of the source, if it is a decompressor.
    pub(crate) fn packing(&self) -> Option<&'static str> {
        self.packing
    }

    /// The place of the window in the stream, in bytes from its beginning.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until `bytes` bytes, at most [`ROOM_BYTES`], are in the window. Returns false if the stream ends before.
    #[inline]
    pub(crate) fn have(&mut self, bytes: usize) -> io::Result<bool> {
        debug_assert!(bytes <= ROOM_BYTES, "more than a window holds");
        while self.end - self.start < bytes {
            if self.is_ended {
                return Ok(false);
            }
            self.fill()?;
        }
        Ok(true)
    }

    /// Another window over a copy of the bytes from here on, as many as a window holds. This one stays where it is.
    pub(crate) fn ahead(&mut self) -> Self {
        while !self.is_ended && self.failure.is_none() && self.end - self.start < ROOM_BYTES {
            self.failure = self.fill().err();
        }
        Self::new(Box::new(io::Cursor::new(self.here().to_vec())), None)
    }

    /// Moves the window on by any number of bytes. Returns false if the stream ends before.
    pub(crate) fn pass(&mut self, bytes: u64) -> io::Result<bool> {
        let mut left = bytes;
        loop {
            let here = left.min(self.here().len() as u64);
            self.consume(here as usize);
            left -= here;
            if left == 0 {
                return Ok(true);
            }
            if !self.have(1)? {
                return Ok(false);
            }
        }
    }

    /// An error at the window's place.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> CaptureError {
        CaptureError::Damaged { offset: self.offset, what: what.into() }
    }

    /// An error at the window's place: the stream ends within what begins there.
    pub(crate) fn cut(&self, what: &str) -> CaptureError {
        CaptureError::cut(self.offset, what)
    }

    /// Reads once, after what is in the window.
    fn fill(&mut self) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.start > 0 {
            self.room.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.source.read(&mut self.room[self.end..]) {
                Ok(0) => self.is_ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.explained(error)),
            }
            return Ok(());
        }
    }

    /// An error of a decompressor, with its place. Errors of the system stay as they are.
    fn explained(&self, error: io::Error) -> io::Error {
        match self.packing {
            Some(packing) if error.raw_os_error().is_none() => {
                let offset = self.offset + (self.end - self.start) as u64;
                io::Error::new(error.kind(), Unpacking { packing, offset, error })
            }
            _ => error,
        }
    }
}

impl Read for Window {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let here = self.fill_buf()?;
        let bytes = here.len().min(into.len());
        into[..bytes].copy_from_slice(&here[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}

impl BufRead for Window {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.have(1)?;
        Ok(self.here())
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.end - self.start);
        self.start += bytes;
        self.offset += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_moves_over_more_bytes_than_it_holds() {
        let stream: Vec<u8> = (0..3 * ROOM_BYTES).map(|place| (place / 7) as u8).collect();
        let mut window = Window::new(Box::new(io::Cursor::new(stream.clone())), None);
        let mut place = 0;
        while window.have(1000).expect("no error") {
            assert_eq!(window.here()[..1000], stream[place..place + 1000]);
            window.consume(1000);
            place += 1000;
            assert_eq!(window.offset(), place as u64);
        }
        assert_eq!(window.here(), &stream[place..]);
        assert!(!window.pass(ROOM_BYTES as u64).expect("no error"));
        assert_eq!(window.offset(), stream.len() as u64);
    }
}
