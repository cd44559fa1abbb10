//! The bytes between controller and agent, for the fuzz target. It panics if a property does not hold.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::lines::Lines;
use crate::message::{FromAgent, FromController, line, shown};

/// The most bytes of a line here.
const LINE_MOST: usize = 1000;

/// Takes any bytes as what controller and agent send each other. `pieces` reads them in pieces. The lines are those of
/// the whole, up to the first that is too long, and a message is the same when it is written again.
pub fn messages(bytes: &[u8], pieces: impl Read) {
    let mut lines = Lines::new(pieces, Arc::new(AtomicU64::new(0)));
    let whole = memchr::memchr_iter(b'\n', bytes).count();
    for wanted in bytes.split(|byte| *byte == b'\n').take(whole) {
        let found = lines.next(LINE_MOST);
        if wanted.len() > LINE_MOST {
            assert!(found.is_err(), "a line of {} bytes", wanted.len());
            return;
        }
        let found = found.expect("no line is too long").expect("a line is missing");
        assert_eq!(found, wanted);
        assert!(!shown(found).is_empty());
        if let Ok(message) = serde_json::from_slice::<FromController>(found) {
            let written = line(&message).expect("it is JSON");
            let again: FromController = serde_json::from_slice(&written).expect("it was read before");
            assert_eq!(line(&again).expect("it is JSON"), written);
        }
        if let Ok(message) = serde_json::from_slice::<FromAgent>(found) {
            let written = line(&message).expect("it is JSON");
            let again: FromAgent = serde_json::from_slice(&written).expect("it was read before");
            assert_eq!(line(&again).expect("it is JSON"), written);
        }
    }
    let rest = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    match lines.next(LINE_MOST) {
        Ok(found) => assert_eq!(found, None, "a line without its end is no line"),
        Err(_) => assert!(rest.len() > LINE_MOST),
    }
}
