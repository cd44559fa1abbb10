//! Removes from a captured query what is worth nothing when it is sent again: its TSIG record, whose signature covers
//! time and ID (RFC 8945), COOKIE options, which belong to a client's address (RFC 7873), and edns-tcp-keepalive, which
//! belongs to its connection and is forbidden over UDP and QUIC (RFC 7828, section 3.2.1; RFC 9250, section 5.5.2). And
//! what names a client: options with addresses of its device, and the bits of its subnet behind /24 or /48.

use std::ops::Range;

use kqps_message::edns::{COOKIE, OPTION_BYTES, TCP_KEEPALIVE};
use kqps_message::{Header, question, record, rtype};

/// The option code of a client's subnet (RFC 7871).
const SUBNET: u16 = 8;
/// Option codes by which forwarders name the client's device: its MAC address (dnsmasq: 65001 and 65073), and device,
/// organisation and address for Cisco Umbrella.
const IDENTITIES: [u16; 3] = [65001, 65073, 20292];
/// The bytes of a subnet's family and two prefix lengths, before its address.
const SUBNET_BYTES: usize = 4;

/// The parts that a query had and has no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is counted on its own")]
pub(super) struct Stripped {
    pub(super) signature: bool,
    pub(super) cookie: bool,
    pub(super) keepalive: bool,
    /// A client subnet that was longer than /24 or /48.
    pub(super) subnet: bool,
    /// An option that names the client's device.
    pub(super) identity: bool,
}

/// Strips a query. One whose records cannot be read stays as it is.
pub(super) fn strip(message: &mut Vec<u8>) -> Stripped {
    if Header::from_bytes(message).is_none_or(|header| header.additionals() == 0) {
        return Stripped::default();
    }
    let signature = remove_signature(message);
    Stripped { signature, ..strip_options(message) }
}

fn remove_signature(message: &mut Vec<u8>) -> bool {
    let Some(found) = additional(message, rtype::TSIG) else { return false };
    let Some(count) = Header::from_bytes(message).map(Header::additionals) else { return false };
    message.drain(found.record);
    message[10..12].copy_from_slice(&(count - 1).to_be_bytes());
    true
}

/// Removes or shortens options of the OPT record, in one pass. The others stay as they are.
fn strip_options(message: &mut Vec<u8>) -> Stripped {
    let mut stripped = Stripped::default();
    let Some(RecordPlace { data, .. }) = additional(message, rtype::OPT) else { return stripped };
    let (mut at, mut kept) = (data.start, data.start);
    while at < data.end {
        let (code, bytes) = option_at(&message[at..data.end]);
        let kept_bytes = match code {
            Some(COOKIE) => {
                stripped.cookie = true;
                0
            }
            Some(TCP_KEEPALIVE) => {
                stripped.keepalive = true;
                0
            }
            Some(code) if IDENTITIES.contains(&code) => {
                stripped.identity = true;
                0
            }
            Some(SUBNET) => {
                let (is_shorter, kept_bytes) = shorten_subnet(&mut message[at..at + bytes]);
                stripped.subnet |= is_shorter;
                kept_bytes
            }
            _ => bytes,
        };
        message.copy_within(at..at + kept_bytes, kept);
        kept += kept_bytes;
        at += bytes;
    }
    if kept < data.end {
        message.drain(kept..data.end);
        let data_bytes = u16::try_from(kept - data.start).expect("a message has 65,535 bytes at most");
        message[data.start - 2..data.start].copy_from_slice(&data_bytes.to_be_bytes());
    }
    stripped
}

/// Shortens the option of a client subnet to the client's network: /24 of IPv4, /48 of IPv6. Returns whether it was
/// longer, and the bytes that it has then. Those behind are unused.
fn shorten_subnet(option: &mut [u8]) -> (bool, usize) {
    let bytes = option.len();
    let Some((head, subnet)) = option.split_first_chunk_mut::<OPTION_BYTES>() else { return (false, bytes) };
    let (longest, address_bytes) = match subnet {
        [0, 1, ..] => (24, 3),
        [0, 2, ..] => (48, 6),
        _ => return (false, bytes),
    };
    let subnet_bytes = subnet.len().min(SUBNET_BYTES + address_bytes);
    let is_longer = subnet.get(2).is_some_and(|prefix| *prefix > longest) || subnet_bytes < subnet.len();
    if let Some(prefix) = subnet.get_mut(2) {
        *prefix = longest.min(*prefix);
    }
    let length = u16::try_from(subnet_bytes).expect("a shortened subnet has 10 bytes at most");
    head[2..].copy_from_slice(&length.to_be_bytes());
    (is_longer, OPTION_BYTES + subnet_bytes)
}

/// The code and the length of the first option of some. What is no whole option is taken as one without a code.
fn option_at(options: &[u8]) -> (Option<u16>, usize) {
    let Some(&[c0, c1, l0, l1]) = options.first_chunk::<OPTION_BYTES>() else { return (None, options.len()) };
    let bytes = OPTION_BYTES + usize::from(u16::from_be_bytes([l0, l1]));
    if bytes > options.len() { (None, options.len()) } else { (Some(u16::from_be_bytes([c0, c1])), bytes) }
}

/// Where a record is in its message, and where its data are.
struct RecordPlace {
    record: Range<usize>,
    data: Range<usize>,
}

/// The first record of a type in the additional section.
fn additional(message: &[u8], wanted: u16) -> Option<RecordPlace> {
    let header = Header::from_bytes(message)?;
    let before = u32::from(header.answers()) + u32::from(header.authorities());
    let mut at = question::end(message)?;
    for _ in 0..before {
        at = record::read(message, at)?.end;
    }
    for _ in 0..header.additionals() {
        let record = record::read(message, at)?;
        if record.rtype == wanted {
            return Some(RecordPlace {
                record: at..record.end,
                data: record.end - record.data.len()..record.end,
            });
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
        let Stripped { signature, cookie, .. } = strip(&mut message);
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
    fn keepalives_of_connections_go() {
        for idle in [&b"\x00\x0b\x00\x00"[..], b"\x00\x0b\x00\x02\x00\x46"] {
            let mut with = message(&[&opt(&[PADDING, idle, SUBNET])]);
            let stripped = strip(&mut with);
            assert_eq!(with, message(&[&opt(&[PADDING, SUBNET])]));
            assert_eq!(stripped, Stripped { keepalive: true, ..Stripped::default() });
        }
    }

    #[test]
    fn what_names_a_client_is_shortened_or_goes() {
        let long = b"\x00\x08\x00\x08\x00\x01\x20\x00\xc0\x00\x02\x07";
        let long6 = b"\x00\x08\x00\x0b\x00\x02\x38\x00\x20\x01\x0d\xb8\x00\x01\x77";
        let short6 = b"\x00\x08\x00\x0a\x00\x02\x30\x00\x20\x01\x0d\xb8\x00\x01";
        let nothing = b"\x00\x08\x00\x04\x00\x01\x00\x00";
        let mac = b"\xfd\xe9\x00\x06\x02\x00\x00\x00\x00\x01";
        let device = b"\x4f\x44\x00\x04ODNS";
        let text = b"\xfe\x31\x00\x02ab";
        for (options, left, subnet, identity) in [
            (vec![&long[..]], vec![SUBNET], true, false),
            (vec![&long[..], PADDING], vec![SUBNET, PADDING], true, false),
            (vec![PADDING, &long6[..], COOKIE], vec![PADDING, &short6[..]], true, false),
            (vec![&mac[..], SUBNET, &device[..], &text[..]], vec![SUBNET], false, true),
            (vec![&nothing[..], &short6[..]], vec![&nothing[..], &short6[..]], false, false),
        ] {
            let mut with = message(&[&opt(&options)]);
            let stripped = strip(&mut with);
            assert_eq!(with, message(&[&opt(&left)]));
            assert_eq!((stripped.subnet, stripped.identity), (subnet, identity));
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
