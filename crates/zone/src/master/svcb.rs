//! The data of SVCB and HTTPS records (RFC 9460): a priority, a target, and parameters `key=value`.

use super::error::{Parsed, Trouble};
use super::fields::{self, Field};
use super::lexer::{Lexer, Token};
use super::{binary, number, text};

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;
const DOHPATH: u16 = 7;
const OHTTP: u16 = 8;
const TLS_SUPPORTED_GROUPS: u16 = 9;

/// IANA "DNS Service Bindings (SVCB)".
const KEYS: &[(&str, u16)] = &[
    ("mandatory", MANDATORY),
    ("alpn", ALPN),
    ("no-default-alpn", NO_DEFAULT_ALPN),
    ("port", PORT),
    ("ipv4hint", IPV4HINT),
    ("ech", ECH),
    ("ipv6hint", IPV6HINT),
    ("dohpath", DOHPATH),
    ("ohttp", OHTTP),
    ("tls-supported-groups", TLS_SUPPORTED_GROUPS),
];

/// A parameter that was read: its key, its value in wire form, and its position.
struct Parameter {
    key: u16,
    value: Vec<u8>,
    at: usize,
}

/// Reads the data up to the entry's end and appends it in wire form, sorted by key.
pub(super) fn read(lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    fields::read(Field::U16, lexer, origin, out)?;
    fields::read(Field::Name, lexer, origin, out)?;
    let mut parameters: Vec<Parameter> = Vec::new();
    while let Some(token) = lexer.next()? {
        parameters.push(parameter(token, lexer)?);
    }
    parameters.sort_by_key(|parameter| parameter.key);
    check(&parameters)?;
    for parameter in &parameters {
        let bytes = u16::try_from(parameter.value.len())
            .map_err(|_| Trouble::rule(parameter.at, "this value has more than 65535 bytes"))?;
        out.extend_from_slice(&parameter.key.to_be_bytes());
        out.extend_from_slice(&bytes.to_be_bytes());
        out.extend_from_slice(&parameter.value);
    }
    Ok(())
}

/// Checks the rules for all parameters together (section 2.2 and section 8). They are sorted by key.
fn check(parameters: &[Parameter]) -> Parsed<()> {
    if let Some([_, twice]) = parameters.array_windows().find(|[a, b]| a.key == b.key) {
        return Err(Trouble::rule(twice.at, "this key stands twice"));
    }
    let has = |key| parameters.iter().any(|parameter| parameter.key == key);
    for parameter in parameters {
        if parameter.key == NO_DEFAULT_ALPN && !has(ALPN) {
            return Err(Trouble::rule(parameter.at, "no-default-alpn demands alpn"));
        }
        if parameter.key != MANDATORY {
            continue;
        }
        let (keys, _) = parameter.value.as_chunks::<2>();
        if keys.iter().any(|key| !has(u16::from_be_bytes(*key))) {
            return Err(Trouble::rule(parameter.at, "a mandatory key is missing"));
        }
    }
    Ok(())
}

fn parameter(token: Token<'_>, lexer: &mut Lexer<'_>) -> Parsed<Parameter> {
    let expected = "a parameter as in port=53, or the end of the record";
    let equals = memchr::memchr(b'=', token.text);
    let name = &token.text[..equals.unwrap_or(token.text.len())];
    let (named, numbered) = if token.quoted() { (None, None) } else { (named(name), numbered(name)) };
    let Some(key) = named.or(numbered) else {
        return Err(Trouble::expected(expected, token.text, token.at));
    };
    let given = match equals {
        None => None,
        // `key="value"`: the quotation mark follows the equals sign directly.
        Some(equals) if equals + 1 == token.text.len() && lexer.byte() == Some(b'"') => lexer.next()?,
        Some(equals) => Some(Token::new(&token.text[equals + 1..], token.at + equals + 1)),
    };
    let at = token.at;
    let value = if named.is_some() { value(key, given, at)? } else { opaque(key, given, at)? };
    Ok(Parameter { key, value, at })
}

fn named(name: &[u8]) -> Option<u16> {
    let known = KEYS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    known.map(|&(_, key)| key)
}

/// A key as `keyNNNNN` without leading zeros. Key 65535 is reserved.
fn numbered(name: &[u8]) -> Option<u16> {
    let digits = name.split_at_checked(3).filter(|(key, _)| key.eq_ignore_ascii_case(b"key"))?.1;
    let canonical = digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !digits.starts_with(b"0"));
    let key = std::str::from_utf8(digits).ok().filter(|_| canonical)?.parse().ok()?;
    (key != u16::MAX).then_some(key)
}

/// The value of a key that is given by its number: a string whose bytes are the wire form, even if the key has a
/// name (section 2.1).
fn opaque(key: u16, given: Option<Token<'_>>, at: usize) -> Parsed<Vec<u8>> {
    let mut wire = Vec::new();
    let at = given.as_ref().map_or(at, |token| token.at);
    if let Some(token) = given {
        text::append(&token, &mut wire)?;
    }
    if is_value(key, &wire) {
        Ok(wire)
    } else {
        Err(Trouble::rule(at, "these bytes are no value of this key"))
    }
}

/// The value of a key that is given by its name.
fn value(key: u16, given: Option<Token<'_>>, at: usize) -> Parsed<Vec<u8>> {
    let mut wire = Vec::new();
    if matches!(key, NO_DEFAULT_ALPN | OHTTP) {
        return match given {
            None => Ok(wire),
            Some(token) => Err(Trouble::rule(token.at, "this key has no value")),
        };
    }
    let token = given.ok_or_else(|| Trouble::ended("= and a value", at))?;
    match key {
        MANDATORY => mandatory(&token, &mut wire)?,
        ALPN => alpn(&token, &mut wire)?,
        PORT => {
            let port = number::decimal(&token.without_quotes(), u16::MAX, "a port from 0 to 65535")?;
            wire.extend_from_slice(&port.to_be_bytes());
        }
        IPV4HINT => each(&token, "IPv4 addresses with commas between", &mut wire, fields::ipv4)?,
        IPV6HINT => each(&token, "IPv6 addresses with commas between", &mut wire, fields::ipv6)?,
        TLS_SUPPORTED_GROUPS => each(&token, "numbers up to 65535 with commas between", &mut wire, |text| {
            let digits = text.iter().all(u8::is_ascii_digit).then_some(text)?;
            std::str::from_utf8(digits).ok()?.parse().ok().map(u16::to_be_bytes)
        })?,
        ECH => binary::base64(&token.without_quotes(), &mut wire)?,
        _ => text::append(&token, &mut wire)?,
    }
    Ok(wire)
}

/// Reads a list whose items have a fixed number of bytes.
fn each<const N: usize>(
    token: &Token<'_>,
    expected: &'static str,
    wire: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Option<[u8; N]>,
) -> Parsed<()> {
    let mut at = token.text_at;
    for item in token.text.split(|&byte| byte == b',') {
        let bytes = read(item).ok_or_else(|| Trouble::expected(expected, item, at))?;
        wire.extend_from_slice(&bytes);
        at += item.len() + 1;
    }
    Ok(())
}

/// Reads keys without duplicates and without `mandatory` itself, and appends them in ascending order (section
/// 8).
fn mandatory(token: &Token<'_>, wire: &mut Vec<u8>) -> Parsed<()> {
    let expected = "keys with commas between";
    each(token, expected, wire, |text| {
        named(text).or(numbered(text)).filter(|&key| key != MANDATORY).map(u16::to_be_bytes)
    })?;
    let (keys, _) = wire.as_chunks_mut::<2>();
    keys.sort_unstable();
    if keys.array_windows().any(|[a, b]| a == b) {
        return Err(Trouble::rule(token.at, "a key is mandatory twice"));
    }
    Ok(())
}

/// Reads protocols with commas between. A comma or a backslash within one is escaped once more (appendix A.1).
fn alpn(token: &Token<'_>, wire: &mut Vec<u8>) -> Parsed<()> {
    let rule = "a protocol's name has 1 to 255 bytes";
    let mut list = Vec::new();
    text::append(token, &mut list)?;
    let mut start = 0;
    wire.push(0);
    let mut bytes = list.iter();
    loop {
        let byte = bytes.next();
        if matches!(byte, None | Some(b',')) {
            let length = u8::try_from(wire.len() - start - 1).ok().filter(|&length| length > 0);
            wire[start] = length.ok_or_else(|| Trouble::rule(token.at, rule))?;
            start = wire.len();
            if byte.is_none() {
                return Ok(());
            }
            wire.push(0);
            continue;
        }
        let literal = if byte == Some(&b'\\') { bytes.next() } else { byte };
        wire.push(*literal.ok_or_else(|| Trouble::rule(token.at, "nothing follows the backslash"))?);
    }
}

/// Whether these bytes are a value of this key. Any bytes are a value of an unknown key.
fn is_value(key: u16, wire: &[u8]) -> bool {
    let is_list_of = |bytes: usize| !wire.is_empty() && wire.len().is_multiple_of(bytes);
    match key {
        MANDATORY => {
            let (keys, _) = wire.as_chunks::<2>();
            is_list_of(2) && keys[0] != [0, 0] && keys.is_sorted_by(|one, other| one < other)
        }
        ALPN => {
            let mut rest = wire;
            while let [length, tail @ ..] = rest {
                let after = tail.get(usize::from(*length)..).filter(|_| *length > 0);
                let Some(after) = after else { return false };
                rest = after;
            }
            rest.is_empty() && !wire.is_empty()
        }
        NO_DEFAULT_ALPN | OHTTP => wire.is_empty(),
        PORT => wire.len() == 2,
        IPV4HINT => is_list_of(4),
        IPV6HINT => is_list_of(16),
        TLS_SUPPORTED_GROUPS => is_list_of(2),
        _ => true,
    }
}

/// Whether these bytes are such data: parameters sorted by key, without duplicates, each with a valid value.
pub(super) fn is(wire: &[u8]) -> bool {
    let Some(target) = wire.get(2..) else { return false };
    let Some(mut rest) = super::wire::name_bytes(target).and_then(|bytes| target.get(bytes..)) else {
        return false;
    };
    let mut least = 0;
    while let [k0, k1, l0, l1, tail @ ..] = rest {
        let key = u16::from_be_bytes([*k0, *k1]);
        let bytes = usize::from(u16::from_be_bytes([*l0, *l1]));
        let Some((value, after)) = tail.split_at_checked(bytes) else { return false };
        if u32::from(key) < least || !is_value(key, value) {
            return false;
        }
        least = u32::from(key) + 1;
        rest = after;
    }
    rest.is_empty()
}
