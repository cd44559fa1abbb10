//! Captures of any container and compression.

use std::io::{Cursor, Read};
use std::net::IpAddr;

use kqps_capture::{CaptureError, Counts, Event, Kind, Reader, Settings};
use kqps_message::HEADER_BYTES;

use crate::feeding::Pieces;

/// Takes any bytes as a capture. Its account adds up, and a pipe that gives a byte at a time holds the same. If the
/// bytes are compressed and damaged, how much is read before the error depends on the pieces.
pub fn capture(bytes: &[u8]) {
    let every = Settings { ports: vec![53, 443, 853], ..Settings::default() };
    let one =
        Settings { servers: vec![IpAddr::from([192, 0, 2, 53])], is_upstream: true, ..Settings::default() };
    for settings in [every, one] {
        let whole = read(Cursor::new(bytes.to_vec()), &settings);
        let piped = read(Pieces::new(Cursor::new(bytes.to_vec()), 1), &settings);
        if is_compressed(bytes) && whole.1.is_some() {
            assert!(piped.1.is_some(), "only in one piece: {whole:?}");
        } else {
            assert_eq!(whole, piped);
        }
    }
}

fn is_compressed(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Reads all, and returns the account and the error.
fn read(source: impl Read + Send + 'static, settings: &Settings) -> (Counts, Option<String>) {
    let mut reader = match Reader::new(source, settings) {
        Ok(reader) => reader,
        Err(error) => return (Counts::default(), Some(said(&error))),
    };
    let (mut queries, mut responses) = (0, 0);
    let error = loop {
        match reader.next() {
            Ok(Some(Event::Message(message))) => {
                assert!(message.bytes.len() >= HEADER_BYTES);
                match message.kind {
                    Kind::Query => queries += 1,
                    Kind::Response => responses += 1,
                }
            }
            Ok(Some(Event::Closed { .. })) => {}
            Ok(None) => break None,
            Err(error) => break Some(said(&error)),
        }
    };
    assert!(matches!(reader.next(), Ok(None)));
    let counts = reader.counts().clone();
    assert_eq!(counts.check(), Ok(()));
    assert_eq!((counts.queries, counts.responses), (queries, responses));
    (counts, error)
}

/// An error as it is printed.
fn said(error: &CaptureError) -> String {
    let said = error.to_string();
    assert!(!said.contains(char::is_control), "{said}");
    said
}
