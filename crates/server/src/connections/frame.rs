//! Messages on a stream, each after its length (RFC 1035, section 4.2.2).

/// The longest message in bytes.
pub const MESSAGE_BYTES: usize = u16::MAX as usize;

/// The number of bytes of the length field.
pub const LENGTH_BYTES: usize = 2;

/// The longest message with its length field, in bytes.
pub const FRAME_BYTES: usize = LENGTH_BYTES + MESSAGE_BYTES;

/// The first message in these bytes, without its length field. `None` if it is
/// incomplete.
#[inline]
pub fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Appends a message after its length.
#[inline]
pub fn append(output: &mut Vec<u8>, message: &[u8]) {
    let length = u16::try_from(message.len()).expect("a message has 65,535 bytes at most");
    output.extend_from_slice(&length.to_be_bytes());
    output.extend_from_slice(message);
}
