//! Removes from a captured query what is worth nothing when it is sent again: its TSIG record, whose signature covers
//! time and ID (RFC 8945), and COOKIE options, which belong to a client's address (RFC 7873).

use std::ops::Range;

use kqps_message::{Header, question, record, rtype};

/// The option code of COOKIE (RFC 7873, section 4).
const COOKIE: u16 = 10;
/// The bytes of an option's code and length.
const OPTION_BYTES: usize = 4;

/// What a query had and has no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stripped {
    pub(super) signature: bool,
    pub(super) cookie: bool,
}

/// Strips a query. One whose records cannot be read stays as it is.
pub(super) fn strip(message: &mut Vec<u8>) -> Stripped {
    if Header::of(message).is_none_or(|header| header.additionals() == 0) {
        return Stripped::default();
    }
    let signature = remove_signature(message);
    let cookie = remove_cookies(message);
    Stripped { signature, cookie }
}

fn remove_signature(message: &mut Vec<u8>) -> bool {
    let Some(found) = additional(message, rtype::TSIG) else { return false };
    let Some(count) = Header::of(message).map(Header::additionals) else { return false };
    message.drain(found.record);
    message[10..12].copy_from_slice(&(count - 1).to_be_bytes());
    true
}

/// Removes the COOKIE options of the OPT record, in one pass. The others stay as they are.
fn remove_cookies(message: &mut Vec<u8>) -> bool {
    let Some(Found { data, .. }) = additional(message, rtype::OPT) else { return false };
    let (mut at, mut kept) = (data.start, data.start);
    while at < data.end {
        let (code, bytes) = option_at(&message[at..data.end]);
        if code != Some(COOKIE) {
            message.copy_within(at..at + bytes, kept);
            kept += bytes;
        }
        at += bytes;
    }
    if kept == data.end {
        return false;
    }
    message.drain(kept..data.end);
    let data_bytes = (kept - data.start) as u16;
    message[data.start - 2..data.start].copy_from_slice(&data_bytes.to_be_bytes());
    true
}

/// The code and the length of the first option of some. What is no whole option is taken as one without a code.
fn option_at(options: &[u8]) -> (Option<u16>, usize) {
    let Some(&[c0, c1, l0, l1]) = options.first_chunk::<OPTION_BYTES>() else { return (None, options.len()) };
    let bytes = OPTION_BYTES + usize::from(u16::from_be_bytes([l0, l1]));
    if bytes > options.len() { (None, options.len()) } else { (Some(u16::from_be_bytes([c0, c1])), bytes) }
}

/// Where a record is in its message, and where its data are.
struct Found {
    record: Range<usize>,
    data: Range<usize>,
}

/// The first record of a type in the additional section.
fn additional(message: &[u8], wanted: u16) -> Option<Found> {
    let header = Header::of(message)?;
    let before = u32::from(header.answers()) + u32::from(header.authorities());
    let mut at = question::end(message)?;
    for _ in 0..before {
        at = record::read(message, at)?.end;
    }
    for _ in 0..header.additionals() {
        let record = record::read(message, at)?;
        if record.rtype == wanted {
            return Some(Found { record: at..record.end, data: record.end - record.data.len()..record.end });
        }
        at = record.end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x04test\0\x00\x01\x00\x01";
    const TSIG: &[u8] = b"\x03key\0\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x05stale";
    const COOKIE: &[u8] = b"\x00\x0a\x00\x08abcdefgh";
    const SUBNET: &[u8] = b"\x00\x08\x00\x07\x00\x01\x18\x00\xc0\x00\x02";
    const PADDING: &[u8] = b"\x00\x0c\x00\x03\0\0\0";

    fn opt(options: &[&[u8]]) -> Vec<u8> {
        let data = options.concat();
        [&b"\0\x00\x29\x04\xd0\x00\x00\x80\x00"[..], &(data.len() as u16).to_be_bytes()[..], &data].concat()
    }

    fn message(additionals: &[&[u8]]) -> Vec<u8> {
        let header = [1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, additionals.len() as u8];
        [&header[..], QUESTION, &additionals.concat()].concat()
    }

    fn stripped(message: &[u8]) -> (Vec<u8>, bool, bool) {
        let mut message = message.to_vec();
        let Stripped { signature, cookie } = strip(&mut message);
        (message, signature, cookie)
    }

    #[test]
    fn a_signature_goes_and_the_count_with_it() {
        let opt = opt(&[PADDING]);
        assert_eq!(stripped(&message(&[TSIG])), (message(&[]), true, false));
        assert_eq!(stripped(&message(&[&opt, TSIG])), (message(&[&opt]), true, false));
    }

    #[test]
    fn cookies_go_and_other_options_stay() {
        for (options, left) in [
            (vec![COOKIE], vec![]),
            (vec![COOKIE, SUBNET], vec![SUBNET]),
            (vec![SUBNET, COOKIE], vec![SUBNET]),
            (vec![SUBNET, COOKIE, PADDING, COOKIE], vec![SUBNET, PADDING]),
        ] {
            let (with, without) = (opt(&options), opt(&left));
            assert_eq!(stripped(&message(&[&with])), (message(&[&without]), false, true));
            assert_eq!(stripped(&message(&[&with, TSIG])), (message(&[&without]), true, true));
        }
    }

    #[test]
    fn what_has_neither_stays_as_it_is() {
        let opt = opt(&[SUBNET, PADDING]);
        for message in [message(&[]), message(&[&opt]), message(&[])[..13].to_vec(), b"\0\0".to_vec()] {
            assert_eq!(stripped(&message), (message, false, false));
        }
    }

    #[test]
    fn what_cannot_be_read_stays_as_it_is() {
        let whole = message(&[&opt(&[COOKIE]), TSIG]);
        for bytes in 0..whole.len() {
            let (left, signature, _) = stripped(&whole[..bytes]);
            assert!(!signature, "{bytes}");
            assert!(left.len() <= bytes);
        }
        // An option that is longer than the record, after a cookie.
        let short = b"\x00\x0a\x00\x09short";
        let (left, _, cookie) = stripped(&message(&[&opt(&[COOKIE, short])]));
        assert_eq!((left, cookie), (message(&[&opt(&[short])]), true));
    }
}
