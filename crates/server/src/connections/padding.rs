//! Padding of replies (RFC 7830), so that their lengths say little about their contents. Only replies in TLS and
//! over QUIC are padded, and only if the query has the option: to a multiple of 468 bytes (RFC 8467, section 4.1).

use kqps_message::edns::{self, OPTION_BYTES, has_option};

use super::frame::MESSAGE_BYTES;

/// The code of the option (RFC 7830, section 3).
const PADDING: u16 = 12;

/// The length of a padded reply is a multiple of this, in bytes.
const BLOCK_BYTES: usize = 468;

/// Whether a message has the option.
pub(super) fn has_padding(message: &[u8]) -> bool {
    edns::find(message).ok().flatten().is_some_and(|opt| has_option(opt.data, PADDING))
}

/// Pads the reply in the first `bytes` bytes of a buffer. Returns its new length. A reply stays as it is if it has the
/// option already, has no OPT record at its end, or would not fit.
pub(super) fn pad(buffer: &mut [u8], bytes: usize) -> usize {
    let Some(opt) = edns::find(&buffer[..bytes]).ok().flatten() else { return bytes };
    let padded = (bytes + OPTION_BYTES).next_multiple_of(BLOCK_BYTES).min(MESSAGE_BYTES);
    let data_bytes = opt.data.len();
    let Some(padding) = padded.checked_sub(bytes + OPTION_BYTES) else { return bytes };
    let Ok(new_data_bytes) = u16::try_from(data_bytes + OPTION_BYTES + padding) else { return bytes };
    let Ok(padding_bytes) = u16::try_from(padding) else { return bytes };
    if opt.end != bytes || has_option(opt.data, PADDING) || padded > buffer.len() {
        return bytes;
    }
    let at = bytes - data_bytes - 2;
    buffer[at..at + 2].copy_from_slice(&new_data_bytes.to_be_bytes());
    buffer[bytes..bytes + 2].copy_from_slice(&PADDING.to_be_bytes());
    buffer[bytes + 2..bytes + OPTION_BYTES].copy_from_slice(&padding_bytes.to_be_bytes());
    buffer[bytes + OPTION_BYTES..padded].fill(0);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply to `test. A` with these EDNS options in its OPT record.
    fn reply(options: &[u8]) -> Vec<u8> {
        let mut message = vec![0, 7, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        message.extend(b"\x04test\x00\x00\x01\x00\x01");
        message.extend(b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00");
        message.extend((options.len() as u16).to_be_bytes());
        message.extend(options);
        message
    }

    fn padded(message: &[u8]) -> Vec<u8> {
        let mut buffer = message.to_vec();
        buffer.resize(MESSAGE_BYTES, 0xff);
        let bytes = pad(&mut buffer, message.len());
        buffer.truncate(bytes);
        buffer
    }

    #[test]
    fn a_padded_reply_fills_a_block_and_can_be_read() {
        let cookie = b"\x00\x0a\x00\x03abc";
        for options in [&[][..], cookie] {
            let plain = reply(options);
            let padded = padded(&plain);
            assert_eq!(padded.len(), BLOCK_BYTES);
            let opt = edns::find(&padded).unwrap().unwrap();
            assert!(opt.data.starts_with(options) && opt.end == padded.len());
            assert!(has_padding(&padded) && !has_padding(&plain));
            assert!(opt.data[options.len() + OPTION_BYTES..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn what_is_padded_or_has_no_options_stays() {
        let has = reply(b"\x00\x0c\x00\x02\x00\x00");
        assert_eq!(padded(&has), has);
        let without = b"\0\x07\x80\0\0\0\0\0\0\0\0\0";
        assert_eq!(padded(without), without);
        assert!(!has_padding(without) && !has_padding(&[1, 2, 3]));
        assert!(!has_padding(&reply(b"\x00\x0a\x00\xff")));
    }
}
