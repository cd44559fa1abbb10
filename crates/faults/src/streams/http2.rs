//! HTTP/2 at the server's end, in frames written by hand (RFC 9113, section 4.1; RFC 7541), so that it can break every
//! rule. It takes queries by POST, and reads no headers: the tests of the player look at those.

use std::collections::{HashMap, VecDeque};

use super::reply::Query;

/// The media type of DNS messages (RFC 8484, section 6).
pub(super) const DNS: &str = "application/dns-message";

/// Error codes (RFC 9113, section 7).
pub(super) const NO_ERROR: u32 = 0;
pub(super) const INTERNAL_ERROR: u32 = 2;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// The first bytes of every client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes of a frame before its payload.
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const MAX_CONCURRENT_STREAMS: u16 = 3;

/// The bytes that a client may send on the connection beside those of its first window: more than it ever does.
const WINDOW: u32 = 1 << 30;

/// A connection of HTTP/2.
#[derive(Default)]
pub(super) struct Http {
    /// The server's first frames, until they are sent.
    pub(super) opening: Vec<u8>,
    has_preface: bool,
    /// Bodies that have not arrived in full, by their streams.
    bodies: HashMap<u32, Vec<u8>>,
    pub(super) queries: VecDeque<Query>,
}

impl Http {
    /// `streams_most` is how many streams a client may have open, if there is a limit.
    pub(super) fn new(streams_most: Option<u32>) -> Self {
        Self { opening: opening(streams_most), ..Self::default() }
    }

    /// Takes the whole frames among these bytes. Appends what must be sent at once to `outgoing`. Returns how many
    /// bytes it took; an error if they are not HTTP/2.
    pub(super) fn take(&mut self, bytes: &[u8], outgoing: &mut Vec<u8>) -> Result<usize, ()> {
        let mut used = 0;
        if !self.has_preface {
            if bytes.len() < PREFACE.len() {
                return Ok(0);
            }
            if !bytes.starts_with(PREFACE) {
                return Err(());
            }
            self.has_preface = true;
            used = PREFACE.len();
        }
        while let Some((&[l0, l1, l2, kind, flags, s0, s1, s2, s3], rest)) =
            bytes[used..].split_first_chunk::<HEAD>()
        {
            let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
            let Some(payload) = rest.get(..length) else { break };
            used += HEAD + length;
            let stream = u32::from_be_bytes([s0, s1, s2, s3]);
            match kind {
                DATA => self.data(stream, payload, flags & END_STREAM != 0),
                SETTINGS if flags & ACK == 0 => outgoing.extend(frame(SETTINGS, ACK, 0, &[])),
                RST_STREAM => drop(self.bodies.remove(&stream)),
                _ => {}
            }
        }
        Ok(used)
    }

    fn data(&mut self, stream: u32, payload: &[u8], is_last: bool) {
        let body = self.bodies.entry(stream).or_default();
        body.extend_from_slice(payload);
        if is_last && let Some(message) = self.bodies.remove(&stream) {
            self.queries.push_back(Query { message, stream });
        }
    }
}

/// The server's first frames, with its limit of streams.
fn opening(streams_most: Option<u32>) -> Vec<u8> {
    let limit = streams_most.map_or_else(Vec::new, |most| {
        [&MAX_CONCURRENT_STREAMS.to_be_bytes()[..], &most.to_be_bytes()].concat()
    });
    [frame(SETTINGS, 0, 0, &limit), frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes())].concat()
}

/// A response.
pub(super) fn response(stream: u32, status: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    [head(stream, status, content_type), frame(DATA, END_STREAM, stream, body)].concat()
}

/// The right response, in two pieces: the header and the first `at` bytes of the body, and a frame with the others.
pub(super) fn response_in_two(stream: u32, body: &[u8], at: usize) -> (Vec<u8>, Vec<u8>) {
    let (first, second) = body.split_at(at);
    let first = [head(stream, "200", DNS), frame(DATA, 0, stream, first)].concat();
    (first, frame(DATA, END_STREAM, stream, second))
}

/// The end of a stream without a response.
pub(super) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// The server goes away, and processes no stream after `last`.
pub(super) fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// A frame that HTTP/2 forbids: data of no stream (RFC 9113, section 6.1).
pub(super) fn forbidden() -> Vec<u8> {
    frame(DATA, 0, 0, b"of no stream")
}

/// The name of an error code in the player's counts.
pub(super) fn name(code: u32) -> &'static str {
    match code {
        NO_ERROR => "NO_ERROR",
        INTERNAL_ERROR => "INTERNAL_ERROR",
        REFUSED_STREAM => "REFUSED_STREAM",
        CANCEL => "CANCEL",
        _ => "ENHANCE_YOUR_CALM",
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [.., l0, l1, l2] = payload.len().to_be_bytes();
    [&[l0, l1, l2][..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The header of a response: fields that are literal and without an index (RFC 7541, section 6.2.2).
fn head(stream: u32, status: &str, content_type: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":status", status), ("content-type", content_type)] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("the text of a field is short"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(HEADERS, END_HEADERS, stream, &block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_whole_however_its_frames_arrive() {
        let query = b"a message of 30 bytes or so, 0";
        let frames = [
            PREFACE.to_vec(),
            frame(SETTINGS, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, b"\x83"),
            frame(DATA, 0, 1, &query[..7]),
            frame(DATA, END_STREAM, 1, &query[7..]),
        ]
        .concat();
        for piece in 1..=frames.len() {
            let (mut http, mut input, mut outgoing) = (Http::default(), Vec::new(), Vec::new());
            for bytes in frames.chunks(piece) {
                input.extend_from_slice(bytes);
                let used = http.take(&input, &mut outgoing).unwrap();
                input.drain(..used);
            }
            assert_eq!(outgoing, frame(SETTINGS, ACK, 0, &[]), "pieces of {piece}");
            let queries: Vec<_> = http.queries.drain(..).map(|query| (query.stream, query.message)).collect();
            assert_eq!(queries, [(1, query.to_vec())]);
        }
        assert!(Http::default().take(b"GET /dns-query HTTP/1.1\r\nhost: a", &mut Vec::new()).is_err());
    }

    #[test]
    fn a_response_in_two_pieces_has_all_of_its_bytes() {
        let body = b"a message";
        let whole = response(3, "200", DNS, body);
        for at in 1..body.len() {
            let (first, second) = response_in_two(3, body, at);
            assert_eq!(first.len() + second.len(), whole.len() + HEAD);
            assert!(first.ends_with(&body[..at]) && second.ends_with(&body[at..]));
        }
    }
}
