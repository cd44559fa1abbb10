//! Data of types that are hardly used any more, in the form that BIND reads: WKS (RFC 1035, section 3.4.2), NXT (RFC
//! 2535), NSAP (RFC 1706), ATMA (ATM Forum, af-saa-0069), SINK and DOA (two drafts).

use super::error::{Parsed, Trouble};
use super::lexer::{Lexer, Token};
use super::mnemonic::{PROTOCOLS, SERVICES, TCP, UDP, mnemonic};
use super::{binary, types};

/// Reads a protocol and its ports up to the entry's end. Appends the protocol's number and a bit for each port.
pub(super) fn services(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let expected = "a protocol: tcp, udp, another one's name, or a number from 0 to 255";
    let token = lexer.plain(expected)?;
    let protocol = mnemonic(token.text, PROTOCOLS).and_then(|number| u8::try_from(number).ok());
    let protocol = protocol.ok_or_else(|| Trouble::expected(expected, token.text, token.at))?;
    out.push(protocol);
    let start = out.len();
    while let Some(token) = lexer.next()? {
        let port = port(&token, protocol)?;
        set_bit(out, start, port);
    }
    Ok(())
}

fn port(token: &Token<'_>, protocol: u8) -> Parsed<u16> {
    let by = |wanted| SERVICES.iter().filter(move |service| service.2 & wanted != 0);
    // For another protocol, search the services of both TCP and UDP.
    let protocols = match protocol {
        6 => TCP,
        17 => UDP,
        _ => TCP | UDP,
    };
    let named = || {
        let mut services = by(protocols);
        services
            .find(|service| service.0.as_bytes().eq_ignore_ascii_case(token.text))
            .map(|service| service.1)
    };
    let found = if token.quoted() { None } else { mnemonic(token.text, &[]).or_else(named) };
    found.ok_or_else(|| {
        let expected = "a port from 0 to 65535, or the name of a service that this protocol has";
        Trouble::expected(expected, token.text, token.at)
    })
}

/// Sets a bit of the bitmap from `start` to the end of `out`, and makes it longer if necessary.
fn set_bit(out: &mut Vec<u8>, start: usize, bit: u16) {
    let at = start + usize::from(bit / 8);
    if out.len() <= at {
        out.resize(at + 1, 0);
    }
    out[at] |= 0x80 >> (bit % 8);
}

/// Whether these bytes are a protocol and a bitmap of its ports.
pub(super) fn are_services(data: &[u8]) -> bool {
    // A bit for each of 65,536 ports.
    (1..=1 + 8192).contains(&data.len())
}

/// Reads types up to the entry's end, by mnemonic or number, and appends a bit for each. There may be none.
pub(super) fn old_types(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let start = out.len();
    while let Some(token) = lexer.next()? {
        let expected = "a type from 1 to 127";
        let rtype = types::parse(token.text).or_else(|| mnemonic(token.text, &[]));
        let rtype = rtype.filter(|rtype| (1..128).contains(rtype) && !token.quoted());
        set_bit(out, start, rtype.ok_or_else(|| Trouble::expected(expected, token.text, token.at))?);
    }
    Ok(())
}

/// Whether these bytes are a set of types below 128 without zeros at the end. If the bit for type 0 is set, the set has
/// another, undefined form (RFC 2535, section 5.2).
pub(super) fn are_old_types(data: &[u8]) -> bool {
    let has_other_form = data.first().is_some_and(|first| first & 0x80 != 0);
    has_other_form || data.last() != Some(&0) && data.len() <= 16
}

pub(super) const NSAP_EXPECTED: &str = "an address as in 0x47.0005.80, in whole bytes";

/// Appends the bytes after `0x`, which may have dots between them.
pub(super) fn nsap(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let digits = match token.text {
        [b'0', b'x' | b'X', digits @ ..] => Some(digits),
        _ => None,
    };
    let bytes = digits.and_then(|digits| pairs(digits.iter().filter(|&&digit| digit != b'.')));
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    out.extend(bytes.ok_or_else(|| Trouble::expected(NSAP_EXPECTED, token.text, token.at))?);
    Ok(())
}

pub(super) const ATMA_EXPECTED: &str =
    "a telephone number as in +61200000000, or the address of an end system in hexadecimal digits";

/// Appends the format, and then either digits, or bytes whose digits may have single dots between them.
pub(super) fn atma(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let is_dotted_well = |text: &[u8]| {
        !text.starts_with(b".") && !text.ends_with(b".") && !text.windows(2).any(|two| two == b"..")
    };
    let read = || match token.text {
        [b'+', number @ ..] if is_dotted_well(number) => {
            let digits: Vec<u8> = number.iter().copied().filter(|&digit| digit != b'.').collect();
            let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            are_digits.then_some((1, digits))
        }
        address if is_dotted_well(address) => {
            let bytes = pairs(address.iter().filter(|&&digit| digit != b'.'))?;
            (!bytes.is_empty()).then_some((0, bytes))
        }
        _ => None,
    };
    let (format, bytes) = read().ok_or_else(|| Trouble::expected(ATMA_EXPECTED, token.text, token.at))?;
    out.push(format);
    out.extend(bytes);
    Ok(())
}

/// Whether these bytes are a format and an address.
pub(super) fn is_atma(data: &[u8]) -> bool {
    match data {
        [1, digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        [_, address @ ..] => !address.is_empty(),
        [] => false,
    }
}

/// Parses bytes from pairs of hexadecimal digits.
fn pairs<'a>(mut digits: impl Iterator<Item = &'a u8>) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let mut bytes = Vec::new();
    while let Some(high) = digits.next() {
        bytes.push(value(high)? << 4 | value(digits.next()?)?);
    }
    Some(bytes)
}

/// Appends the bytes in base 64 that follow, if there are any.
pub(super) fn optional_base64(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    if lexer.peek()?.is_some() { binary::base64_rest(lexer, out) } else { Ok(()) }
}

/// Appends the bytes in base 64 that follow; `-` stands for none.
pub(super) fn dash_or_base64(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    if lexer.peek()? == Some(b'-') {
        let token = lexer.plain("- or bytes in base 64")?;
        if token.text == b"-" {
            return Ok(());
        }
        return Err(Trouble::expected("- or bytes in base 64", token.text, token.at));
    }
    binary::base64_rest(lexer, out)
}
