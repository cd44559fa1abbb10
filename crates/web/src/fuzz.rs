//! Requests of arbitrary bytes, for the fuzz target. It panics if a property does not hold.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use crate::request::{HEAD_MOST, Refused, Request, read};

/// Gives its bytes in pieces of a size.
struct Pieces<'b>(&'b [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(self.0.len()).min(into.len());
        into[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn read_in(bytes: &[u8], piece: usize) -> Result<Request, Refused> {
    read(&mut Pieces(bytes, piece), Instant::now() + Duration::from_mins(1))
}

/// Takes any bytes as a request. In pieces, whose length is the first byte, it is the same request, or refused alike.
pub fn request(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let whole = read_in(bytes, usize::MAX);
    match &whole {
        Ok(request) => assert!(!request.path.contains('?')),
        Err(Refused::Gone) => {}
        Err(Refused::Status(status, words)) => {
            assert!((400..500).contains(status) && words.ends_with('\n'));
        }
    }
    // How much of a head that is too long is read depends on the pieces.
    if bytes.len() <= HEAD_MOST {
        assert_eq!(read_in(bytes, usize::from(piece).max(1)), whole);
    }
}
