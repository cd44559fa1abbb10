//! Messages of a stream, each after its length (RFC 9250, section 4.2).

/// The number of bytes of a message's length.
pub(crate) const LENGTH_BYTES: usize = 2;

/// The messages of one stream, of which the last may be incomplete.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    partial: Vec<u8>,
}

impl Frames {
    /// Takes bytes, and calls `each` for every message that is whole now.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        if self.partial.is_empty() {
            let rest = messages(bytes, &mut each);
            self.partial.extend_from_slice(rest);
        } else {
            self.partial.extend_from_slice(bytes);
            let rest = messages(&self.partial, &mut each).len();
            self.partial.drain(..self.partial.len() - rest);
        }
    }

    /// Whether the last message is whole.
    pub(crate) fn is_whole(&self) -> bool {
        self.partial.is_empty()
    }
}

/// Calls `each` for every whole message. Returns the bytes after them.
fn messages<'a>(mut bytes: &'a [u8], each: &mut impl FnMut(&[u8])) -> &'a [u8] {
    while let Some(message) = first_message(bytes) {
        each(message);
        bytes = &bytes[LENGTH_BYTES + message.len()..];
    }
    bytes
}

/// The first message in these bytes, without its length; `None` if it is not whole.
#[inline]
pub(crate) fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Appends a message after its length.
#[inline]
pub(crate) fn append(output: &mut Vec<u8>, message: &[u8]) {
    let [.., high, low] = message.len().to_be_bytes();
    output.extend_from_slice(&[high, low]);
    output.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_however_they_arrive() {
        let mut stream = Vec::new();
        for message in [&b"one"[..], b"", b"three"] {
            append(&mut stream, message);
        }
        for piece in 1..=stream.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for bytes in stream.chunks(piece) {
                frames.take(bytes, |message| found.push(message.to_vec()));
            }
            assert_eq!(found, [&b"one"[..], b"", b"three"], "pieces of {piece}");
            assert!(frames.is_whole());
            frames.take(&[0], |_| panic!("half of a length"));
            assert!(!frames.is_whole());
        }
    }
}
