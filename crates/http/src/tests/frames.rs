//! Frames written by hand (RFC 9113, section 4.1; RFC 7541).

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(super) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// A block of fields, each literal and without an index (RFC 7541, section 6.2.2).
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// A response on a stream.
pub(super) fn response(stream: u32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut frames = frame(HEADERS, END_HEADERS, stream, &block(fields));
    let mut parts = body.chunks(16_000).peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_none() { END_STREAM } else { 0 };
        frames.extend(frame(DATA, flags, stream, part));
    }
    frames
}

/// A request without a body.
pub(super) fn request(stream: u32, method: &str, path: &str, content_type: &str) -> Vec<u8> {
    headers(END_HEADERS | END_STREAM, stream, method, path, content_type)
}

/// The beginning of a request whose body follows.
pub(super) fn request_with_body(stream: u32, method: &str, path: &str, content_type: &str) -> Vec<u8> {
    headers(END_HEADERS, stream, method, path, content_type)
}

fn headers(flags: u8, stream: u32, method: &str, path: &str, content_type: &str) -> Vec<u8> {
    let fields = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "dns.test"),
        (":path", path),
        ("content-type", content_type),
    ];
    frame(HEADERS, flags, stream, &block(&fields))
}

/// The kinds of the frames in these bytes.
pub(super) fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [l0, l1, l2, kind, ..] = *bytes {
        kinds.push(kind);
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        bytes = &bytes[9 + length..];
    }
    kinds
}
