//! A line of a query file: `name type [further columns]`, in the form of dnsperf, kxdpgun and flamethrower.
//!
//! Spaces or tabs separate columns. The content of a further column determines its meaning, so there may be several in
//! any order: the letters E and D, AD, a client subnet, the expected rcode, or `=` and the digest of the expected answer.
//! Names are bytes, and a line need not be UTF-8.

use kqps_message::header::AD;
use kqps_message::{ClientSubnet, Edns, query, rcode, rtype};

use crate::answer::Digest;
use crate::encoded::Facts;
use crate::error::{LINE_BYTES_MAX, LineFault};

/// The least similarity to a known word, from 0 to 1, for a suggestion.
const LIKENESS_MIN: f64 = 0.6;

/// The kind of a line.
#[derive(Debug)]
pub(crate) enum Line {
    /// Blank, or a comment.
    Nothing,
    /// A comment that begins with `#`. A name may begin so too, but this line is not a query.
    HashComment,
    /// A query, and what is known of it.
    Query { facts: Facts, begins_with_hash: bool },
}

/// The words that begin a line of dnsperf's dynamic updates.
const UPDATES: [&[u8]; 5] = [b"add", b"delete", b"prohibit", b"require", b"send"];

/// Appends the query of `line` to `message`, if it is one. `has_columns` is whether further columns are read. `edns` is
/// what every query of the file has. An error comes with its column, counted from 1.
pub(crate) fn encode(
    line: &[u8],
    has_columns: bool,
    edns: Option<Edns>,
    message: &mut Vec<u8>,
) -> Result<Line, (usize, LineFault)> {
    let first = Fields { line, at: 0 }.next();
    match first {
        None | Some((_, b"#" | [b';', ..])) => Ok(Line::Nothing),
        Some((_, [b'#', ..])) => Ok(query_of(line, has_columns, edns, message)
            .map_or(Line::HashComment, |facts| Line::Query { facts, begins_with_hash: true })),
        Some(_) if is_update(line) => Err((1, LineFault::Update)),
        Some(_) => query_of(line, has_columns, edns, message)
            .map(|facts| Line::Query { facts, begins_with_hash: false }),
    }
}

/// Whether a line is one of dnsperf's dynamic updates: it begins with one of their words, and no type follows.
pub(crate) fn is_update(line: &[u8]) -> bool {
    let mut fields = Fields { line, at: 0 }.map(|(_, field)| field);
    let is_word = |field: &[u8]| UPDATES.iter().any(|word| word.eq_ignore_ascii_case(field));
    fields.next().is_some_and(is_word) && fields.next().and_then(rtype::parse).is_none()
}

fn query_of(
    line: &[u8],
    has_columns: bool,
    edns: Option<Edns>,
    message: &mut Vec<u8>,
) -> Result<Facts, (usize, LineFault)> {
    let mut fields = Fields { line, at: 0 };
    let (name_at, name) = fields.next().ok_or((1, LineFault::NoType))?;
    if line.len() > LINE_BYTES_MAX {
        return Err((LINE_BYTES_MAX + 1, LineFault::TooLong(LINE_BYTES_MAX)));
    }
    let (type_at, type_text) = fields.next().ok_or((line.len() + 1, LineFault::NoType))?;
    let qtype = rtype::parse(type_text).ok_or_else(|| (type_at + 1, unknown_type(type_text)))?;
    let mut columns = Columns { edns, ..Columns::default() };
    for (at, field) in fields.take_while(|_| has_columns) {
        columns.take(field).map_err(|fault| (at + 1, fault))?;
    }
    let begin = message.len();
    let question_bytes = query::write(message, name, qtype, columns.edns.as_ref())
        .map_err(|error| (name_at + error.column, error.fault.into()))?;
    if columns.wants_ad {
        message[begin + 3] |= AD;
    }
    Ok(Facts {
        question_bytes: u16::try_from(question_bytes).expect("a name has 255 bytes at most"),
        expected_rcode: columns.expected_rcode,
        expected_answer: columns.expected_answer.map(|digits| Digest::from_number(digits, columns.wants_ad)),
    })
}

/// The columns of a line, each with its position. A backslash makes the byte after it part of the column.
pub(crate) struct Fields<'a> {
    pub(crate) line: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let start = self.at + self.line[self.at..].iter().position(|byte| !blank(byte))?;
        let mut end = start;
        loop {
            let plain = self.line[end..].iter().position(|byte| *byte == b'\\' || blank(byte));
            end = plain.map_or(self.line.len(), |bytes| end + bytes);
            if self.line.get(end) != Some(&b'\\') {
                break;
            }
            end = (end + 2).min(self.line.len());
        }
        self.at = end;
        Some((start, &self.line[start..end]))
    }
}

/// The content of the further columns so far.
#[derive(Default)]
struct Columns {
    edns: Option<Edns>,
    expected_rcode: Option<u16>,
    /// The number of the digest.
    expected_answer: Option<u64>,
    /// Whether the query asks for the AD bit (RFC 6840, section 5.7), so that the digest covers it.
    wants_ad: bool,
    flags_seen: bool,
    subnet_seen: bool,
}

impl Columns {
    fn take(&mut self, field: &[u8]) -> Result<(), LineFault> {
        if field.iter().all(|byte| matches!(byte, b'E' | b'D' | b'e' | b'd')) {
            once(&mut self.flags_seen, "EDNS column")?;
            let edns = self.edns.get_or_insert_default();
            edns.dnssec_ok |= field.iter().any(|byte| matches!(byte, b'D' | b'd'));
        } else if field.eq_ignore_ascii_case(b"AD") {
            once(&mut self.wants_ad, "AD column")?;
        } else if let Some(digits) = field.strip_prefix(b"=") {
            once(&mut self.expected_answer.is_some(), "expected answer")?;
            let digest = digest(digits).ok_or_else(|| LineFault::Answer(shown(field)))?;
            self.expected_answer = Some(digest);
        } else if field[0].is_ascii_digit() || field.contains(&b'/') || field.contains(&b':') {
            once(&mut self.subnet_seen, "client subnet")?;
            let subnet = std::str::from_utf8(field).ok().and_then(ClientSubnet::parse);
            let subnet = subnet.ok_or_else(|| LineFault::Subnet(shown(field)))?;
            self.edns.get_or_insert_default().client_subnet = Some(subnet);
        } else {
            let rcode = rcode::parse(field).ok_or_else(|| unknown_column(field))?;
            once(&mut self.expected_rcode.is_some(), "expected rcode")?;
            self.expected_rcode = Some(rcode);
        }
        Ok(())
    }
}

/// Parses a digest of 16 hexadecimal digits.
fn digest(digits: &[u8]) -> Option<u64> {
    let whole = digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| whole)?;
    u64::from_str_radix(text, 16).ok()
}

fn once(seen: &mut bool, what: &'static str) -> Result<(), LineFault> {
    if std::mem::replace(seen, true) { Err(LineFault::Repeated(what)) } else { Ok(()) }
}

pub(crate) fn unknown_type(found: &[u8]) -> LineFault {
    if is_class(found) {
        return LineFault::Class(shown(found));
    }
    LineFault::Type { nearest: nearest(found, rtype::TYPES), found: shown(found) }
}

/// Whether a word is a class (RFC 1035, section 3.2.4; RFC 3597, section 5).
fn is_class(word: &[u8]) -> bool {
    let is_named =
        ["IN", "CS", "CH", "HS", "NONE"].iter().any(|name| name.as_bytes().eq_ignore_ascii_case(word));
    let number = word.split_at_checked(5).filter(|(head, _)| head.eq_ignore_ascii_case(b"CLASS"));
    is_named || number.is_some_and(|(_, digits)| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

fn unknown_column(found: &[u8]) -> LineFault {
    if is_class(found) {
        return LineFault::Class(shown(found));
    }
    LineFault::Column { nearest: nearest(found, rcode::RCODES), found: shown(found) }
}

/// The known word that is most similar to `found`, if any is similar enough.
fn nearest(found: &[u8], known: &[(&'static str, u16)]) -> Option<&'static str> {
    let found = std::str::from_utf8(found).ok().filter(|text| text.len() < 32)?.to_ascii_uppercase();
    let like = known.iter().map(|&(name, _)| (strsim::jaro_winkler(&found, name), name));
    let best = like.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= LIKENESS_MIN).then_some(best.1)
}

/// Bytes of a file for a message: printable, and limited in length.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let (head, rest) = bytes.split_at(bytes.len().min(64));
    format!("{}{}", head.escape_ascii(), if rest.is_empty() { "" } else { "…" })
}
