//! Requests that are refused, or cancelled, before their body has arrived.

use super::frames::{
    DATA, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, frame, kinds, request_with_body, settings,
};
use super::{DNS, query};
use crate::{PATH, Peer, ServerEvent, ServerSession};

/// A server that was greeted, and the statuses of refused requests.
struct Refusing {
    server: ServerSession,
    refused: Vec<u16>,
}

impl Refusing {
    fn new() -> Self {
        let mut refusing = Self { server: ServerSession::default(), refused: Vec::new() };
        refusing.take(&[PREFACE, &settings(&[])].concat());
        refusing
    }

    /// Passes bytes to the server. Returns the kinds of the frames of streams that it sends.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let refused = &mut self.refused;
        let peer = self.server.receive(bytes, |taken| match taken {
            ServerEvent::Refused(status) => refused.push(status),
            ServerEvent::Query(query) => panic!("{query:?}"),
        });
        assert_eq!(peer, Ok(Peer::Open));
        self.server.flush();
        let mut kinds = self.server.take_outgoing(kinds);
        kinds.retain(|kind| matches!(*kind, DATA | HEADERS | RST_STREAM));
        kinds
    }
}

#[test]
fn a_request_is_refused_after_its_body_without_a_reset() {
    let body = query(0, 40);
    for (method, path, content_type, status) in [
        ("POST", "/other", DNS.1, 404),
        ("PUT", PATH, DNS.1, 405),
        ("POST", PATH, "text/plain", 415),
        ("GET", PATH, DNS.1, 400),
    ] {
        let mut refusing = Refusing::new();
        assert!(refusing.take(&request_with_body(1, method, path, content_type)).is_empty());
        assert!(refusing.take(&frame(DATA, 0, 1, &body)).is_empty());
        assert!(refusing.refused.is_empty() && refusing.server.is_busy());
        assert_eq!(refusing.take(&frame(DATA, END_STREAM, 1, &body)), [HEADERS], "{status}");
        assert_eq!(refusing.refused, [status]);
        assert!(!refusing.server.is_busy());
    }
}

#[test]
fn a_body_that_is_too_long_is_read_up_to_a_bound() {
    let part = vec![0; 16_000];
    for (path, most, status) in [(PATH, 65_535, 413), ("/other", 0, 404)] {
        // It ends just before the bound, with a status; or it does not, and the server resets the stream.
        let mut refusing = Refusing::new();
        refusing.take(&request_with_body(1, "POST", path, DNS.1));
        for _ in 0..=most / part.len() {
            assert!(refusing.take(&frame(DATA, 0, 1, &part)).is_empty());
        }
        assert_eq!(refusing.take(&frame(DATA, END_STREAM, 1, &[])), [HEADERS], "{status}");
        refusing.take(&request_with_body(3, "POST", path, DNS.1));
        let mut sent = Vec::new();
        let mut bytes = 0;
        while sent.is_empty() {
            assert!(bytes <= 1 << 20, "{bytes} bytes were read");
            sent = refusing.take(&frame(DATA, 0, 3, &part));
            bytes += part.len();
        }
        assert_eq!((sent, bytes > 1 << 20), (vec![HEADERS, RST_STREAM], true), "{status}");
        assert_eq!(refusing.refused, [status, status]);
    }
}

#[test]
fn a_request_without_room_is_refused_after_its_body_and_frees_what_it_held() {
    let mut refusing = Refusing::new();
    let part = vec![0; 16_000];
    // 17 bodies of 64,000 bytes are more than 1 MiB.
    for stream in (1..35).step_by(2) {
        refusing.take(&request_with_body(stream, "POST", PATH, DNS.1));
        for _ in 0..4 {
            assert!(refusing.take(&frame(DATA, 0, stream, &part)).is_empty());
        }
    }
    assert_eq!(refusing.take(&frame(DATA, END_STREAM, 33, &[])), [HEADERS]);
    assert_eq!(refusing.refused, [503]);
    // There is room again for one that is short.
    refusing.take(&request_with_body(35, "POST", PATH, DNS.1));
    assert_eq!(refusing.take(&frame(DATA, END_STREAM, 35, &part[..11])), [HEADERS]);
    assert_eq!(refusing.refused, [503, 400]);
}

#[test]
fn more_than_20_requests_that_are_cancelled_at_once_end_the_connection() {
    for (count, goes_on) in [(20, true), (21, false)] {
        let mut refusing = Refusing::new();
        let cancelled = |stream| {
            let begun = request_with_body(stream, "POST", PATH, DNS.1);
            [begun, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        };
        let bytes: Vec<u8> = (0..count).flat_map(|number| cancelled(2 * number + 1)).collect();
        let peer = refusing.server.receive(&bytes, |_| ());
        assert_eq!(peer.is_ok(), goes_on, "{count}: {peer:?}");
        refusing.server.flush();
        let sent = refusing.server.take_outgoing(kinds);
        assert_eq!(sent.contains(&GOAWAY), !goes_on, "{count}");
    }
}
