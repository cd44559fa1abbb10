//! Arbitrary bytes on their way to a reader: cut into pieces, or as changes of other bytes.

use std::io::{self, Read};
use std::slice::Chunks;

/// The end of a connection that a target feeds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    Client,
    Server,
}

/// Cuts bytes into pieces of this length; 0 counts as 1.
pub(crate) fn pieces(bytes: &[u8], length: u8) -> Chunks<'_, u8> {
    bytes.chunks(usize::from(length).max(1))
}

/// A reader that returns its bytes in pieces.
pub(crate) struct Pieces<R> {
    from: R,
    length: usize,
}

impl<R> Pieces<R> {
    /// Pieces of this length; 0 counts as 1.
    pub(crate) fn new(from: R, length: u8) -> Self {
        Self { from, length: usize::from(length).max(1) }
    }
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.length);
        self.from.read(&mut into[..most])
    }
}

/// Changes a byte: `change` holds its place, modulo the number of bytes, and the bits that change there.
pub(crate) fn change(bytes: &mut [u8], change: [u8; 3]) {
    let [high, low, bits] = change;
    let place = usize::from(u16::from_be_bytes([high, low])) % bytes.len().max(1);
    if let Some(byte) = bytes.get_mut(place) {
        *byte ^= bits;
    }
}
