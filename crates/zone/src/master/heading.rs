//! The part of an entry between owner and data: TTL, class and type.

use kqps_message::rtype;

use super::error::{Parsed, Trouble, Wrong, quoted};
use super::lexer::{Lexer, Token};
use super::{number, types};

/// The largest TTL (RFC 2181, section 8).
pub(super) const TTL_MAX_S: u32 = u32::MAX >> 1;

/// A TTL as it is written, which may be too large, and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ttl {
    pub(super) ttl_s: u32,
    pub(super) at: usize,
}

/// Reads the parameter of `$TTL`.
pub(super) fn default_ttl(lexer: &mut Lexer<'_>) -> Parsed<Ttl> {
    let token = lexer.plain(TTL_EXPECTED)?;
    ttl(&token)
}

const TTL_EXPECTED: &str = "a TTL in seconds, or with units as in 1h30m";

#[inline]
fn ttl(token: &Token<'_>) -> Parsed<Ttl> {
    let ttl_s =
        number::period_s(token.text).ok_or_else(|| Trouble::expected(TTL_EXPECTED, token.text, token.at))?;
    Ok(Ttl { ttl_s, at: token.at })
}

/// The part of an entry between owner and data.
pub(super) struct Heading {
    pub(super) ttl: Option<Ttl>,
    pub(super) rtype: u16,
}

/// Words that may come next, by whether there was a TTL, and by whether there was a class.
const EXPECTED: [[&str; 2]; 2] =
    [["a TTL, a class or a type", "a TTL or a type"], ["a class or a type", "a type"]];

impl Heading {
    /// Reads a TTL and a class, each optional, in either order, and a type.
    #[inline]
    pub(super) fn read(lexer: &mut Lexer<'_>) -> Parsed<Self> {
        let mut own_ttl = None;
        let mut class = false;
        loop {
            let expected = EXPECTED[usize::from(own_ttl.is_some())][usize::from(class)];
            let token = lexer.plain(expected)?;
            if own_ttl.is_none() && token.text.first().is_some_and(u8::is_ascii_digit) {
                own_ttl = Some(ttl(&token)?);
            } else if !class && token.text.eq_ignore_ascii_case(b"IN") {
                class = true;
            } else if let Some(rtype) = types::parse(token.text) {
                return match rtype {
                    // RFC 6895, section 3.1: these are for queries and messages.
                    0 | rtype::OPT | 128..=255 => Err(Trouble::new(token.at, Wrong::Meta(rtype))),
                    _ => Ok(Self { ttl: own_ttl, rtype }),
                };
            } else if !class && is_class(&token)? {
                class = true;
            } else {
                return Err(Trouble::expected(expected, token.text, token.at));
            }
        }
    }
}

/// Whether the word is the class IN by its number. Other classes are errors.
#[cold]
fn is_class(token: &Token<'_>) -> Parsed<bool> {
    let numbered = token.text.split_at_checked(5).filter(|(head, _)| head.eq_ignore_ascii_case(b"CLASS"));
    if let Some((_, digits)) = numbered
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
    {
        if digits == b"1" {
            return Ok(true);
        }
    } else if ![&b"CH"[..], b"HS", b"CS", b"NONE"].iter().any(|class| class.eq_ignore_ascii_case(token.text))
    {
        return Ok(false);
    }
    Err(Trouble::new(token.at, Wrong::Class(quoted(token.text))))
}
