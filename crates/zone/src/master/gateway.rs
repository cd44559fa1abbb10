//! Data in which one field determines the form of another: IPSECKEY (RFC 4025), AMTRELAY (RFC 8777), HIP (RFC
//! 8005) and APL (RFC 3123).

use super::error::{Parsed, Trouble};
use super::fields::{self, Field};
use super::lexer::Lexer;
use super::{binary, number, wire};

/// Reads precedence, kind of gateway, algorithm, gateway, and a public key unless the algorithm is 0.
pub(super) fn read_ipseckey(lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    let start = out.len();
    for _ in 0..3 {
        fields::read(Field::U8, lexer, origin, out)?;
    }
    let (kind, algorithm) = (out[start + 1], out[start + 2]);
    gateway(kind, lexer, origin, out)?;
    // With algorithm 0 there is no key (section 2.4).
    if algorithm == 0 { Ok(()) } else { binary::base64_rest(lexer, out) }
}

/// Reads precedence, discovery bit, kind of relay, and relay.
pub(super) fn read_amtrelay(lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    fields::read(Field::U8, lexer, origin, out)?;
    let discovery = number::decimal(&lexer.need("0 or 1")?, 1_u8, "0 or 1")?;
    let kind = number::decimal(&lexer.need(KIND_EXPECTED)?, 3_u8, KIND_EXPECTED)?;
    out.push(discovery << 7 | kind);
    gateway(kind, lexer, origin, out)
}

const KIND_EXPECTED: &str = "a kind of gateway: 0 for none, 1 for IPv4, 2 for IPv6, 3 for a name";

fn gateway(kind: u8, lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    match kind {
        0 => {
            let token = lexer.plain("a dot, for no gateway")?;
            if token.text != b"." {
                return Err(Trouble::expected("a dot, for no gateway", token.text, token.at));
            }
            Ok(())
        }
        1 => fields::read(Field::Ipv4, lexer, origin, out),
        2 => fields::read(Field::Ipv6, lexer, origin, out),
        3 => fields::read(Field::Name, lexer, origin, out),
        _ => Err(Trouble::rule(lexer.at(), "the kind of gateway is 0, 1, 2 or 3")),
    }
}

/// Reads an algorithm, a host identity tag, a public key, and the names of rendezvous servers.
pub(super) fn read_hip(lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    let algorithm = number::decimal(&lexer.need("an algorithm")?, u8::MAX, "a number from 0 to 255")?;
    let (mut tag, mut key) = (Vec::new(), Vec::new());
    let token = lexer.plain("a host identity tag in hexadecimal digits")?;
    binary::hex(&token, &mut tag)?;
    let tag_bytes = u8::try_from(tag.len()).ok().filter(|&bytes| bytes > 0);
    let rule = "a host identity tag has 1 to 255 bytes";
    let tag_bytes = tag_bytes.ok_or_else(|| Trouble::rule(token.at, rule))?;
    let token = lexer.plain("a public key in base 64")?;
    binary::base64(&token, &mut key)?;
    let key_bytes = u16::try_from(key.len()).ok().filter(|&bytes| bytes > 0);
    let key_bytes = key_bytes.ok_or_else(|| Trouble::rule(token.at, "a public key has 1 to 65535 bytes"))?;
    out.extend_from_slice(&[tag_bytes, algorithm]);
    out.extend_from_slice(&key_bytes.to_be_bytes());
    out.extend_from_slice(&tag);
    out.extend_from_slice(&key);
    while lexer.peek()?.is_some() {
        fields::read(Field::Name, lexer, origin, out)?;
    }
    Ok(())
}

/// Reads prefixes `[!]FAMILY:ADDRESS/BITS`; there may be none.
pub(super) fn read_apl(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    while let Some(token) = lexer.next()? {
        let item = prefix(token.text).filter(|_| !token.quoted());
        let (family, bits, not, address) = item.ok_or_else(|| {
            Trouble::expected("a prefix as in 1:192.0.2.0/24 or !2:2001:db8::/32", token.text, token.at)
        })?;
        // Zeros at the end are not sent (section 4).
        let bytes = address.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&family.to_be_bytes());
        let length = u8::try_from(bytes).expect("an address has 16 bytes at most");
        out.extend_from_slice(&[bits, u8::from(not) << 7 | length]);
        out.extend_from_slice(&address[..bytes]);
    }
    Ok(())
}

fn prefix(text: &[u8]) -> Option<(u16, u8, bool, Vec<u8>)> {
    let (not, text) = text.strip_prefix(b"!").map_or((false, text), |rest| (true, rest));
    let (family, rest) = text.split_at_checked(2)?;
    let slash = memchr::memrchr(b'/', rest)?;
    let (address, bits) = (&rest[..slash], &rest[slash + 1..]);
    let (family, address) = match family {
        b"1:" => (1, fields::ipv4(address)?.to_vec()),
        b"2:" => (2, fields::ipv6(address)?.to_vec()),
        _ => return None,
    };
    let digits = bits.iter().all(u8::is_ascii_digit).then_some(bits)?;
    let bits: u8 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (usize::from(bits) <= address.len() * 8).then_some((family, bits, not, address))
}

/// Whether these bytes are data of IPSECKEY.
pub(super) fn is_ipseckey(data: &[u8]) -> bool {
    let [_, kind, algorithm, rest @ ..] = data else { return false };
    gateway_bytes(*kind, rest).and_then(|bytes| rest.get(bytes..)).is_some_and(|key| {
        // With an algorithm there must be a key, without one there must be none.
        key.is_empty() == (*algorithm == 0)
    })
}

/// Whether these bytes are data of AMTRELAY.
pub(super) fn is_amtrelay(data: &[u8]) -> bool {
    let [_, kind, rest @ ..] = data else { return false };
    gateway_bytes(kind & 0x7f, rest) == Some(rest.len())
}

fn gateway_bytes(kind: u8, data: &[u8]) -> Option<usize> {
    match kind {
        0 => Some(0),
        1 => Some(4),
        2 => Some(16),
        3 => wire::name_bytes(data),
        _ => None,
    }
}

/// Whether these bytes are data of HIP.
pub(super) fn is_hip(data: &[u8]) -> bool {
    let [tag_bytes, _, k0, k1, rest @ ..] = data else { return false };
    let keys = usize::from(*tag_bytes) + usize::from(u16::from_be_bytes([*k0, *k1]));
    let Some(mut servers) = rest.get(keys..) else { return false };
    while !servers.is_empty() {
        let Some(bytes) = wire::name_bytes(servers) else { return false };
        servers = &servers[bytes..];
    }
    *tag_bytes > 0 && (*k0, *k1) != (0, 0)
}

/// Whether these bytes are data of APL.
pub(super) fn is_apl(mut data: &[u8]) -> bool {
    while let [_, _, _, length, rest @ ..] = data {
        let Some(after) = rest.get(usize::from(length & 0x7f)..) else { return false };
        data = after;
    }
    data.is_empty()
}
