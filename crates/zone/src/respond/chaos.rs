//! The few names of class CH with which a server identifies itself (RFC 4892).

use kqps_message::rtype;

use crate::name::same;
use crate::respond::ResponderSettings;
use crate::respond::writer::{Full, Writer};
use crate::zone::node::{QUESTION_POINTER, RECORD_BYTES, Rrset};

pub(crate) const CLASS: u16 = 3;
/// The longest character string (RFC 1035, section 3.3).
const STRING_BYTES_MAX: usize = 255;

/// The server's text for a name, if the settings have one.
pub(crate) fn text_of<'s>(settings: &'s ResponderSettings, name: &[u8]) -> Option<&'s [u8]> {
    let is = |known: &[u8]| same(name, known);
    if is(b"\x07version\x04bind\0") || is(b"\x07version\x06server\0") {
        settings.version.as_deref()
    } else if is(b"\x02id\x06server\0") || is(b"\x08hostname\x04bind\0") {
        settings.identity.as_deref()
    } else {
        None
    }
}

/// Writes the text, if `qtype` asks for text.
pub(crate) fn answer(writer: &mut Writer<'_>, qtype: u16, text: &[u8]) -> Result<(), Full> {
    if qtype != rtype::TXT && qtype != rtype::ANY {
        return Ok(());
    }
    let text = &text[..text.len().min(STRING_BYTES_MAX)];
    let mut record = [0; RECORD_BYTES + 1 + STRING_BYTES_MAX];
    record[..2].copy_from_slice(&QUESTION_POINTER);
    record[2..4].copy_from_slice(&rtype::TXT.to_be_bytes());
    record[4..6].copy_from_slice(&CLASS.to_be_bytes());
    let text_bytes = u8::try_from(text.len()).expect("a character string has 255 bytes at most");
    record[10..RECORD_BYTES].copy_from_slice(&(1 + u16::from(text_bytes)).to_be_bytes());
    record[RECORD_BYTES] = text_bytes;
    let record = &mut record[..RECORD_BYTES + 1 + text.len()];
    record[RECORD_BYTES + 1..].copy_from_slice(text);
    let rrset = Rrset { rtype: rtype::TXT, count: 1, records: record, signatures: &[], signature_count: 0 };
    let question = u16::try_from(kqps_message::HEADER_BYTES).expect("a header has 12 bytes");
    writer.rrset(super::writer::Owner::At(question), &rrset, None, false)
}
