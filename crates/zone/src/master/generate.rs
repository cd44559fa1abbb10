//! `$GENERATE`: records from a pattern, one for each number of a range (BIND 9 Administrator Reference Manual,
//! "BIND Primary File Extension: the $GENERATE Directive").
//!
//! `$GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE DATA`. In owner and data `$` is the number.
//! `${OFFSET[,WIDTH[,RADIX]]}` is the number plus an offset, padded with zeros, in a radix of d, o, x, X, n or N.
//! The last two are hexadecimal digits in reverse order with dots between. `$$` and `\$` are a `$`. If the data
//! is one quoted string, its content is the pattern, as in BIND. Otherwise the rest of the entry is.

use std::io::Write as _;

use super::error::{Parsed, Trouble, Wrong};
use super::heading::Heading;
use super::lexer::{Lexer, Token};
use super::reader::Reader;
use super::{name, rdata};

/// The most digits to which a number is padded.
const WIDTH_MAX: usize = 255;

/// Reads the rest of the directive and makes its records, all with the directive's line. A line after it that
/// begins with a blank inherits the owner of the record before the directive.
pub(super) fn run(reader: &mut Reader<'_>, line: u32) -> Parsed<()> {
    let owner = std::mem::take(&mut reader.owner);
    let outcome = records(reader, line);
    reader.owner = owner;
    outcome
}

fn records(reader: &mut Reader<'_>, line: u32) -> Parsed<()> {
    let range_token = reader.lexer.plain(RANGE_EXPECTED)?;
    let range = Range::parse(&range_token)?;
    if range.count() > u64::from(reader.file.options.generated_max) {
        return Err(Trouble::rule(range_token.at, "these are more records than one directive may make"));
    }
    let owner_token = reader.lexer.plain("a pattern for the owner")?;
    let owner = pattern(owner_token.text, owner_token.at)?;
    reader.lexer.peek()?;
    let at = reader.lexer.at();
    let heading = Heading::read(&mut reader.lexer)?;
    let (data, data_at) = data_pattern(&mut reader.lexer)?;
    let mut made = Vec::new();
    for number in range.numbers() {
        expand(&owner, number, owner_token.at, &mut made)?;
        reader.owner.clear();
        name::encode(&made, &reader.state.origin, &mut reader.owner)
            .map_err(|error| Trouble::new(owner_token.at, Wrong::Name(error.fault)))?;
        expand(&data, number, data_at, &mut made)?;
        rdata::read(heading.rtype, &mut Lexer::new(&made), &reader.state.origin, &mut reader.data)
            .map_err(|trouble| Trouble::new(data_at, trouble.into_wrong()))?;
        reader.push(&heading, line, at)?;
    }
    Ok(())
}

const RANGE_EXPECTED: &str = "a range as in 1-254 or 0-100/2";

/// Numbers from a first to a last one, a step apart.
struct Range {
    start: u32,
    stop: u32,
    step: u32,
}

impl Range {
    fn parse(token: &Token<'_>) -> Parsed<Self> {
        let number = |text: &[u8]| {
            let digits = text.iter().all(u8::is_ascii_digit).then_some(text)?;
            // 31 bits, as in BIND.
            std::str::from_utf8(digits).ok()?.parse::<i32>().ok()?.try_into().ok()
        };
        let parse = || {
            let (range, step) = match memchr::memchr(b'/', token.text) {
                Some(slash) => (&token.text[..slash], number(&token.text[slash + 1..])?),
                None => (token.text, 1),
            };
            let hyphen = memchr::memchr(b'-', range)?;
            let range = Self { start: number(&range[..hyphen])?, stop: number(&range[hyphen + 1..])?, step };
            (range.step > 0 && range.start <= range.stop).then_some(range)
        };
        parse().ok_or_else(|| Trouble::expected(RANGE_EXPECTED, token.text, token.at))
    }

    fn count(&self) -> u64 {
        u64::from((self.stop - self.start) / self.step) + 1
    }

    fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        (self.start..=self.stop).step_by(self.step as usize)
    }
}

enum PatternPart {
    Text(Vec<u8>),
    Number { offset: i64, width: usize, radix: u8 },
}

/// The pattern of the data, which is the rest of the entry, and the position at which it begins.
fn data_pattern(lexer: &mut Lexer<'_>) -> Parsed<(Vec<PatternPart>, usize)> {
    let first = lexer.need("a pattern for the data")?;
    let mut text = first.text.to_vec();
    let mut next = lexer.next()?;
    if first.quoted() && next.is_none() {
        return Ok((pattern(&unquoted(&text), first.at)?, first.at));
    }
    if first.quoted() {
        text.insert(0, b'"');
        text.push(b'"');
    }
    while let Some(token) = next {
        let mark: &[u8] = if token.quoted() { b"\"" } else { b"" };
        for part in [&b" "[..], mark, token.text, mark] {
            text.extend_from_slice(part);
        }
        next = lexer.next()?;
    }
    Ok((pattern(&text, first.at)?, first.at))
}

/// Replaces `\"` within quotation marks by `"`. Other escapes are left to the code that reads the data.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [b'"', after @ ..]) => {
                plain.push(b'"');
                rest = after;
            }
            (b'\\', [next, after @ ..]) => {
                plain.extend_from_slice(&[b'\\', *next]);
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

fn pattern(text: &[u8], at: usize) -> Parsed<Vec<PatternPart>> {
    let mut parts = Vec::new();
    let mut plain = Vec::new();
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'$', [b'$', after @ ..]) => {
                plain.push(b'$');
                rest = after;
            }
            (b'$', _) => {
                let number;
                (number, rest) = parameters(tail).ok_or_else(|| {
                    Trouble::expected("${OFFSET,WIDTH,RADIX} with a radix of d, o, x, X, n or N", text, at)
                })?;
                parts.push(PatternPart::Text(std::mem::take(&mut plain)));
                parts.push(number);
            }
            (b'\\', [next, after @ ..]) => {
                plain.extend_from_slice(&[b'\\', *next]);
                rest = after;
            }
            _ => plain.push(*first),
        }
    }
    parts.push(PatternPart::Text(plain));
    Ok(parts)
}

/// Reads the optional parameters in braces after a `$`. Also returns the text after them.
fn parameters(text: &[u8]) -> Option<(PatternPart, &[u8])> {
    let Some(inside) = text.strip_prefix(b"{") else {
        return Some((PatternPart::Number { offset: 0, width: 0, radix: b'd' }, text));
    };
    let end = memchr::memchr(b'}', inside)?;
    let mut fields = std::str::from_utf8(&inside[..end]).ok()?.split(',');
    let offset = fields.next()?.parse::<i32>().ok()?.into();
    let width = fields.next().map_or(Some(0), |width| width.parse().ok())?;
    let radix = match fields.next() {
        None => b'd',
        Some("d" | "o" | "x" | "X" | "n" | "N") => inside[end - 1],
        Some(_) => return None,
    };
    let ended = fields.next().is_none() && width <= WIDTH_MAX;
    ended.then_some((PatternPart::Number { offset, width, radix }, &inside[end + 1..]))
}

/// Writes a pattern with a number in its places.
fn expand(parts: &[PatternPart], number: u32, at: usize, out: &mut Vec<u8>) -> Parsed<()> {
    out.clear();
    for part in parts {
        match part {
            PatternPart::Text(text) => out.extend_from_slice(text),
            &PatternPart::Number { offset, width, radix } => {
                let signed = i64::from(number) + offset;
                let value = match u64::try_from(signed) {
                    Ok(value) => value,
                    // Its digits are those of the distance from zero.
                    Err(_) if radix == b'd' => 0,
                    Err(_) => {
                        let rule = "the offset makes a number negative, which only the radix d can show";
                        return Err(Trouble::rule(at, rule));
                    }
                };
                let written = match radix {
                    b'o' => write!(out, "{value:0width$o}"),
                    b'x' => write!(out, "{value:0width$x}"),
                    b'X' => write!(out, "{value:0width$X}"),
                    b'n' => nibbles(value, width, b"0123456789abcdef", out),
                    b'N' => nibbles(value, width, b"0123456789ABCDEF", out),
                    _ => write!(out, "{signed:0width$}"),
                };
                written.map_err(|_| Trouble::rule(at, "there is no memory for this"))?;
            }
        }
    }
    Ok(())
}

/// Writes hexadecimal digits from the last to the first with dots between. The width counts the dots.
fn nibbles(mut value: u64, mut width: usize, digits: &[u8; 16], out: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        out.push(digits[(value & 15) as usize]);
        value >>= 4;
        width = width.saturating_sub(1);
        if width > 0 || value > 0 {
            out.push(b'.');
            width = width.saturating_sub(1);
        }
        if width == 0 && value == 0 {
            return Ok(());
        }
    }
}
