//! The answer section of a reply as text, for people: each record as master files have it, without TTL and class.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::canonical::append_record;
use crate::name::{self, NameText};
use crate::rtype::{self, RtypeName};
use crate::{Header, question};

/// Records that are shown at most.
const SHOWN_MOST: u16 = 4;

/// The records of the answer section, separated by `; `, without RRSIGs; `no record` if there is none. Names are in lower
/// case. Data of types without a text form here are in hex (RFC 3597, section 5). After four records follows how many
/// more there are. `None` if the section is cut short or malformed.
pub fn answer_text(reply: &[u8]) -> Option<String> {
    let header = Header::from_bytes(reply)?;
    let (mut text, mut count, mut at) = (String::new(), 0_u16, question::end(reply)?);
    for _ in 0..header.answers() {
        let mut canonical = Vec::new();
        let record = append_record(reply, at, &mut canonical)?;
        at = record.end;
        if record.rtype == rtype::RRSIG {
            continue;
        }
        count += 1;
        if count <= SHOWN_MOST {
            let owner_bytes = name::end(&canonical, 0)?;
            // Type and class follow the owner, then the data.
            let data = canonical.get(owner_bytes + 4..)?;
            let separator = if text.is_empty() { "" } else { "; " };
            let owner = NameText(&canonical[..owner_bytes]);
            let _ = write!(
                text,
                "{separator}{owner} {} {}",
                RtypeName(record.rtype),
                data_text(record.rtype, data)
            );
        }
    }
    match count.saturating_sub(SHOWN_MOST) {
        0 if count == 0 => text.push_str("no record"),
        0 => {}
        more => {
            let _ = write!(text, "; and {more} more");
        }
    }
    Some(text)
}

/// The data of a record in canonical form, as master files have them; of types without a text form here in hex (RFC 3597,
/// section 5).
pub fn data_text(rtype: u16, data: &[u8]) -> String {
    let known = match rtype {
        rtype::A => data.try_into().ok().map(|data: [u8; 4]| Ipv4Addr::from(data).to_string()),
        rtype::AAAA => data.try_into().ok().map(|data: [u8; 16]| Ipv6Addr::from(data).to_string()),
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => Some(NameText(data).to_string()),
        rtype::MX => data
            .split_first_chunk()
            .map(|(preference, name)| format!("{} {}", u16::from_be_bytes(*preference), NameText(name))),
        rtype::TXT => strings(data),
        _ => None,
    };
    known.unwrap_or_else(|| {
        let mut text = format!("\\# {} ", data.len());
        for byte in data {
            let _ = write!(text, "{byte:02x}");
        }
        text
    })
}

/// Character strings in quotes. `None` if one is cut short.
fn strings(mut data: &[u8]) -> Option<String> {
    let mut text = String::new();
    while let Some((&length, rest)) = data.split_first() {
        let string = rest.get(..usize::from(length))?;
        data = &rest[usize::from(length)..];
        text += if text.is_empty() { "\"" } else { " \"" };
        for &byte in string {
            match byte {
                b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
                b' '..=b'~' => text.push(char::from(byte)),
                _ => {
                    let _ = write!(text, "\\{byte:03}");
                }
            }
        }
        text.push('"');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply to `www.test A` with these records of that owner: type and data.
    fn reply(records: &[(u16, &[u8])]) -> Vec<u8> {
        let mut reply = vec![0, 0, 0x84, 0, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        reply.extend(b"\x03WWW\x04test\0\0\x01\0\x01");
        for (rtype, data) in records {
            reply.extend([0xc0, 12]);
            reply.extend(rtype.to_be_bytes());
            reply.extend([0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            reply.extend(*data);
        }
        reply
    }

    #[test]
    fn records_are_as_master_files_have_them() {
        let text = |records: &[(u16, &[u8])]| answer_text(&reply(records)).unwrap();
        assert_eq!(text(&[]), "no record");
        let rows: [(u16, &[u8], &str); 7] = [
            (rtype::A, &[192, 0, 2, 80], "A 192.0.2.80"),
            (rtype::AAAA, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "AAAA 2001:db8::1"),
            (rtype::CNAME, b"\x01A\xc0\x10", "CNAME a.test."),
            (rtype::MX, b"\x01\x00\x01b\xc0\x10", "MX 256 b.test."),
            (rtype::TXT, b"\x03a\"b\x02\x1bc", r#"TXT "a\"b" "\027c""#),
            (rtype::A, &[192, 0, 2], r"A \# 3 c00002"),
            (65_280, &[1, 255], r"TYPE65280 \# 2 01ff"),
        ];
        for (rtype, data, wanted) in rows {
            assert_eq!(text(&[(rtype, data)]), format!("www.test. {wanted}"));
        }
        let one: (u16, &[u8]) = (rtype::A, &[192, 0, 2, 1]);
        let signature: (u16, &[u8]) = (rtype::RRSIG, &[0; 30]);
        assert_eq!(text(&[one, signature, one]), "www.test. A 192.0.2.1; www.test. A 192.0.2.1");
        assert!(text(&[one; 6]).ends_with("; www.test. A 192.0.2.1; and 2 more"));
        let whole = reply(&[one]);
        assert_eq!(answer_text(&whole[..whole.len() - 1]), None);
    }
}
