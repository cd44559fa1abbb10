//! Requests of arbitrary bytes, for the fuzz target. It panics if a property does not hold.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::request::{HEAD_MOST, Refused, Request, read};

fn read_in_time(mut from: impl Read) -> Result<Request, Refused> {
    read(&mut from, Instant::now() + Duration::from_mins(1))
}

/// Takes any bytes as a request. `pieces` reads them in pieces: it is the same request, or refused alike.
pub fn request(bytes: &[u8], pieces: impl Read) {
    let whole = read_in_time(bytes);
    match &whole {
        Ok(request) => assert!(!request.path.contains('?')),
        Err(Refused::Gone) => {}
        Err(Refused::Status(status, words)) => {
            assert!((400..500).contains(status) && words.ends_with('\n'));
        }
    }
    // How much of a head that is too long is read depends on the pieces.
    if bytes.len() <= HEAD_MOST {
        assert_eq!(read_in_time(pieces), whole);
    }
}
