//! Values of header fields, and bytes of bodies, that cost no or little memory of their own: the same few are needed
//! again and again.

use bytes::{Bytes, BytesMut};
use http::header::HeaderValue;

/// The media type of DNS messages (RFC 8484, section 6).
const DNS_MESSAGE: &str = "application/dns-message";

/// Lengths below this have their value made once.
const LENGTHS: usize = 4096;

/// The bytes from which bodies are cut.
const ROOM_BYTES: usize = 1 << 16;

/// Values of header fields that were made before, and room for bodies. The sessions of a thread share it.
#[derive(Default)]
pub struct Values {
    lengths: Vec<Option<HeaderValue>>,
    /// The last `max-age` in seconds, and its value.
    age: Option<(u32, HeaderValue)>,
    room: BytesMut,
}

impl Values {
    /// The value of a `content-length`.
    pub(crate) fn length(&mut self, bytes: usize) -> HeaderValue {
        if bytes >= LENGTHS {
            return HeaderValue::from(bytes as u64);
        }
        if self.lengths.len() <= bytes {
            self.lengths.resize(bytes + 1, None);
        }
        self.lengths[bytes].get_or_insert_with(|| HeaderValue::from(bytes as u64)).clone()
    }

    /// The value of a `cache-control` with this age in seconds.
    pub(crate) fn max_age(&mut self, age_s: u32) -> HeaderValue {
        if let Some((known_s, value)) = &self.age
            && *known_s == age_s
        {
            return value.clone();
        }
        let value =
            HeaderValue::try_from(format!("max-age={age_s}")).expect("letters and digits are a value");
        self.age = Some((age_s, value.clone()));
        value
    }

    /// A copy of these bytes, one after the other.
    pub(crate) fn bytes(&mut self, parts: &[&[u8]]) -> Bytes {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if self.room.capacity() < bytes {
            self.room = BytesMut::with_capacity(ROOM_BYTES.max(bytes));
        }
        for part in parts {
            self.room.extend_from_slice(part);
        }
        self.room.split().freeze()
    }
}

/// The value of a `content-type` of DNS messages.
pub(crate) fn dns_message() -> HeaderValue {
    HeaderValue::from_static(DNS_MESSAGE)
}

/// Whether a `content-type` is that of DNS messages, whatever its parameters are.
pub(crate) fn is_dns_message(value: Option<&HeaderValue>) -> bool {
    let text = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = text.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case(DNS_MESSAGE)
}
