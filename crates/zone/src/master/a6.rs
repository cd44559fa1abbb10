//! The data of A6 records (RFC 2874).

use super::error::{Parsed, Trouble};
use super::fields::{self, Field};
use super::lexer::Lexer;
use super::{number, wire};

/// Reads the length of a prefix, the rest of the address, and the name that holds the prefix. The length decides
/// whether the last two are present.
pub(super) fn read(lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    let expected = "the length of a prefix, from 0 to 128";
    let prefix = number::decimal(&lexer.need(expected)?, 128_u8, expected)?;
    out.push(prefix);
    if prefix < 128 {
        let expected = "an IPv6 address";
        let token = lexer.plain(expected)?;
        let mut address =
            fields::ipv6(token.text).ok_or_else(|| Trouble::expected(expected, token.text, token.at))?;
        let first = usize::from(prefix / 8);
        // The bits of the prefix are not sent, or sent as zeros (RFC 2874, section 3.1.1).
        address[first] &= 0xff >> (prefix % 8);
        out.extend_from_slice(&address[first..]);
    }
    if prefix > 0 { fields::read(Field::Name, lexer, origin, out) } else { Ok(()) }
}

/// Whether these bytes are data of A6.
pub(super) fn is(data: &[u8]) -> bool {
    let Some(name) = wire::a6_name_at(data).and_then(|at| data.get(at..)) else { return false };
    let is_masked = data[0].is_multiple_of(8) || data[1] & !(0xff >> (data[0] % 8)) == 0;
    is_masked && if data[0] == 0 { name.is_empty() } else { wire::name_bytes(name) == Some(name.len()) }
}
