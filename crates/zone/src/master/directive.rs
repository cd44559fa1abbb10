//! The known directives, and the parameter of `$ORIGIN`.

use super::error::Parsed;
use super::lexer::Lexer;
use super::name;

/// A directive (RFC 1035, section 5.1; RFC 2308, section 4; BIND's `$GENERATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Origin,
    Ttl,
    Include,
    Generate,
}

impl Directive {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        const ALL: [(&[u8], Directive); 4] = [
            (b"$ORIGIN", Directive::Origin),
            (b"$TTL", Directive::Ttl),
            (b"$INCLUDE", Directive::Include),
            (b"$GENERATE", Directive::Generate),
        ];
        ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|&(_, directive)| directive)
    }
}

/// Reads the parameter of `$ORIGIN`. A relative name is relative to the previous origin.
pub(super) fn origin(lexer: &mut Lexer<'_>, origin: &[u8]) -> Parsed<Vec<u8>> {
    let mut new = Vec::new();
    name::append(&lexer.plain("a name")?, origin, &mut new)?;
    Ok(new)
}
