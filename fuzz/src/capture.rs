//! Captures of any container and compression.

use std::io::Cursor;
use std::net::IpAddr;

use kqps_capture::{Counts, Event, Kind, Reader, Settings};

/// Takes any bytes as a capture. Its account adds up, and a pipe that gives a byte at a time holds the same.
pub fn capture(bytes: &[u8]) {
    let every = Settings { ports: vec![53, 443, 853], servers: Vec::new() };
    let one = Settings { servers: vec![IpAddr::from([192, 0, 2, 53])], ..Settings::default() };
    for settings in [every, one] {
        let whole = Reader::new(Cursor::new(bytes.to_vec()), &settings).map(read);
        let piped = Reader::new(Pipe(Cursor::new(bytes.to_vec())), &settings).map(read);
        match (whole, piped) {
            (Ok(whole), Ok(piped)) => assert_eq!(whole, piped),
            (Err(whole), Err(piped)) => assert_eq!(said(&whole), said(&piped)),
            (whole, piped) => panic!("{whole:?} in one piece, {piped:?} by a pipe"),
        }
    }
}

/// Reads all, and returns the account and the error.
fn read(mut reader: Reader) -> (Counts, Option<String>) {
    let (mut queries, mut responses) = (0, 0);
    let error = loop {
        match reader.next() {
            Ok(Some(Event::Message(message))) => {
                assert!(message.bytes.len() >= kqps_message::HEADER_BYTES);
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
fn said(error: &kqps_capture::CaptureError) -> String {
    let said = error.to_string();
    assert!(!said.contains(char::is_control), "{said}");
    said
}

/// Gives a byte at a time.
struct Pipe(Cursor<Vec<u8>>);

impl std::io::Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(1);
        self.0.read(&mut into[..most])
    }
}
