//! Names and RDATA in canonical form: names without compression and in lower case (RFC 4034, section 6.2, with
//! the corrections of RFC 6840, section 5.1). Records that mean the same are then equal byte for byte,
//! whichever server wrote them.

use crate::name::{self, LABEL_BYTES_MAX, NAME_BYTES_MAX};
use crate::query::CLASS_IN;
use crate::record::{self, Record};
use crate::{Header, question, rtype};

/// Appends the name that begins at `from` to `out` and follows its pointers. Returns the position just after
/// the name in the message. `None` if the name is cut short, malformed or longer than 255 bytes, or if a
/// pointer does not point backwards; `out` then holds what was read until there.
#[inline]
pub fn append_name(message: &[u8], from: usize, out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    let end = expand_name(message, from, out);
    // Length bytes (0 to 63) are smaller than any letter, so this changes no length.
    out[start..].make_ascii_lowercase();
    end
}

/// Like [`append_name`], with the name in the case in which it is written.
#[inline]
pub fn expand_name(message: &[u8], from: usize, out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    let mut end = None;
    let mut at = from;
    // Every pointer must point before the last one, which rules out a loop.
    let mut pointed_before = from;
    loop {
        match *message.get(at)? {
            0 => break,
            length if usize::from(length) <= LABEL_BYTES_MAX => {
                let next = at + 1 + usize::from(length);
                out.extend_from_slice(message.get(at..next)?);
                at = next;
            }
            upper @ 0xc0.. => {
                let target = usize::from(u16::from_be_bytes([upper & 0x3f, *message.get(at + 1)?]));
                if target >= pointed_before {
                    return None;
                }
                end = end.or(Some(at + 2));
                pointed_before = target;
                at = target;
            }
            _ => return None,
        }
        if out.len() - start >= NAME_BYTES_MAX {
            return None;
        }
    }
    out.push(0);
    Some(end.unwrap_or(at + 1))
}

/// Appends the record that begins at `from` to `out`: owner, type, class and data, without the TTL and
/// RDLENGTH. Returns the record. `None` in the cases of [`append_name`], and if the data lack the names that
/// the type requires.
#[inline]
pub fn append_record<'a>(message: &'a [u8], from: usize, out: &mut Vec<u8>) -> Option<Record<'a>> {
    append_name(message, from, out)?;
    let record = record::read(message, from)?;
    out.extend_from_slice(&record.rtype.to_be_bytes());
    out.extend_from_slice(&record.class.to_be_bytes());
    append_data(message, &record, out)?;
    Some(record)
}

/// The position of the names in a type's data.
enum Names {
    /// The number of bytes before the names, and the number of names.
    After(usize, usize),
    /// Four bytes, three character strings, then one name (RFC 3403, section 4.1).
    AfterStrings,
}

/// The types whose data hold names that servers may compress or write in another case.
fn names(rtype: u16) -> Option<Names> {
    Some(match rtype {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, NXT, DNAME
        2..=5 | 7..=9 | 12 | 30 | 39 => Names::After(0, 1),
        // SOA, MINFO, RP
        6 | 14 | 17 => Names::After(0, 2),
        // MX, AFSDB, RT, KX
        15 | 18 | 21 | 36 => Names::After(2, 1),
        // SIG
        24 => Names::After(18, 1),
        // PX
        26 => Names::After(2, 2),
        // SRV
        33 => Names::After(6, 1),
        // NAPTR
        35 => Names::AfterStrings,
        _ => return None,
    })
}

/// The names in the data of a record that servers may compress or write in another case: the number of bytes before the
/// first one, and the number of names, which follow one another. Both are 0 for types without such names. `None` if the
/// data end before the names.
pub fn names_in(record: &Record<'_>) -> Option<(usize, usize)> {
    match names(record.rtype) {
        None => Some((0, 0)),
        Some(Names::After(fixed, names)) => (fixed <= record.data.len()).then_some((fixed, names)),
        Some(Names::AfterStrings) => Some((strings_end(record.data, 4, 3)?, 1)),
    }
}

/// Whether every record that the header counts can be read, with its owner, and with the names in its data: none is cut
/// short, points forwards or leaves its data, and nothing follows the last one that does not belong there. Addresses have
/// their lengths. Data of types without names are not looked at.
pub fn can_be_read(message: &[u8]) -> bool {
    let Some((header, mut at)) = Header::from_bytes(message).zip(question::end(message)) else {
        return false;
    };
    let counts = [header.answers(), header.authorities(), header.additionals()].map(u32::from);
    let mut name = Vec::with_capacity(NAME_BYTES_MAX);
    (0..counts.iter().sum()).all(|_| {
        name.clear();
        let is_owner = expand_name(message, at, &mut name).is_some();
        let record =
            record::read(message, at).filter(|record| is_owner && has_whole_data(message, record, &mut name));
        record.is_some_and(|record| {
            at = record.end;
            true
        })
    })
}

/// Whether the names in the data of a record can be read and the data end where they must. `name` is working memory.
fn has_whole_data(message: &[u8], record: &Record<'_>, name: &mut Vec<u8>) -> bool {
    let is_in_data = |end: usize| end <= record.end;
    match (record.rtype, record.data.len()) {
        (rtype::A, bytes) if record.class == CLASS_IN => return bytes == 4,
        (rtype::AAAA, bytes) if record.class == CLASS_IN => return bytes == 16,
        _ => {}
    }
    let data_at = record.end - record.data.len();
    if let Some(before) = literal_name(record.rtype) {
        return name::literal_end(message, data_at + before).is_some_and(is_in_data);
    }
    let Some((before, names)) = names_in(record) else { return false };
    let end = (0..names).try_fold(data_at + before, |at, _| {
        name.clear();
        expand_name(message, at, name)
    });
    end.filter(|&end| is_in_data(end)).is_some_and(|end| {
        let after = record.end - end;
        names == 0 || bytes_after_names(record.rtype).is_none_or(|bytes| bytes == after)
    })
}

/// The number of bytes before the name in the data of a type whose name has no pointers: RRSIG and NSEC (RFC 4034,
/// sections 3.1.7 and 4.1.1), SVCB and HTTPS (RFC 9460, section 2.2).
fn literal_name(rtype: u16) -> Option<usize> {
    match rtype {
        rtype::RRSIG => Some(18),
        rtype::NSEC => Some(0),
        rtype::SVCB | rtype::HTTPS => Some(2),
        _ => None,
    }
}

/// The number of bytes after the names in the data of a type that has some. `None` for SIG and NXT, where it varies.
fn bytes_after_names(rtype: u16) -> Option<usize> {
    match rtype {
        24 | 30 => None,
        // The five numbers of RFC 1035, section 3.3.13.
        rtype::SOA => Some(20),
        _ => Some(0),
    }
}

fn append_data(message: &[u8], record: &Record<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (fixed, names) = names_in(record)?;
    out.extend_from_slice(record.data.get(..fixed)?);
    let mut at = record.end - record.data.len() + fixed;
    for _ in 0..names {
        at = append_name(message, at, out)?;
    }
    out.extend_from_slice(message.get(at..record.end)?);
    Some(())
}

/// The position after `count` character strings that begin at `from`.
fn strings_end(data: &[u8], from: usize, count: usize) -> Option<usize> {
    (0..count).try_fold(from, |at, _| Some(at + 1 + usize::from(*data.get(at)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(message: &[u8], from: usize) -> Option<(Vec<u8>, usize)> {
        let mut out = Vec::new();
        append_name(message, from, &mut out).map(|end| (out, end))
    }

    #[test]
    fn a_name_is_lowered_and_its_pointers_are_followed() {
        let message = b"\x04TesT\0\x03wWw\xc0\x00\xc0\x06rest";
        assert_eq!(name(message, 0), Some((b"\x04test\0".to_vec(), 6)));
        assert_eq!(name(message, 6), Some((b"\x03www\x04test\0".to_vec(), 12)));
        assert_eq!(name(message, 12), Some((b"\x03www\x04test\0".to_vec(), 14)));
        assert_eq!(name(b"\0", 0), Some((b"\0".to_vec(), 1)));
    }

    #[test]
    fn a_name_that_never_ends_is_none() {
        for message in
            [&b"\xc0\x00"[..], b"\x01a\xc0\x00", b"\xc0\x02\xc0\x00", b"\x01a", b"\xc0", b"\x40a\0"]
        {
            assert_eq!(name(message, 0), None, "{message:?}");
        }
        assert_eq!(name(&[1; 600], 0), None);
        // A name has at most 255 bytes: 127 labels of one letter and the root.
        let longest = [b"\x01a".repeat(127), vec![0]].concat();
        assert_eq!(name(&longest, 0), Some((longest.clone(), 255)));
        assert_eq!(name(&[b"\x01a".repeat(128), vec![0]].concat(), 0), None);
    }

    /// A record of this type and data. Its owner is the root, and a name stands at position 0 before it.
    fn record(rtype: u8, data: &[u8]) -> Option<Vec<u8>> {
        let fixed = [0, 0, rtype, 0, 1, 0, 0, 0, 9, 0, data.len() as u8];
        let message = [&b"\x01A\0"[..], &fixed, data].concat();
        let mut out = Vec::new();
        append_record(&message, 3, &mut out).map(|record| {
            assert_eq!(record.end, message.len());
            out.split_off(5)
        })
    }

    #[test]
    fn names_in_data_are_found_by_type() {
        assert_eq!(record(1, b"\xc0\x00AB").unwrap(), b"\xc0\x00AB");
        assert_eq!(record(5, b"\x01B\xc0\x00").unwrap(), b"\x01b\x01a\0");
        assert_eq!(
            record(6, b"\xc0\x00\x01B\0AAAABBBBCCCCDDDDEEEE").unwrap(),
            b"\x01a\0\x01b\0AAAABBBBCCCCDDDDEEEE"
        );
        assert_eq!(record(15, b"AB\xc0\x00").unwrap(), b"AB\x01a\0");
        assert_eq!(record(33, b"ABCDEF\xc0\x00").unwrap(), b"ABCDEF\x01a\0");
        assert_eq!(record(35, b"ABCD\x01U\0\x02XY\xc0\x00").unwrap(), b"ABCD\x01U\0\x02XY\x01a\0");
        assert_eq!(record(16, b"\x03ABC").unwrap(), b"\x03ABC");
    }

    #[test]
    fn data_without_their_names_are_none() {
        for (rtype, data) in
            [(5, &b""[..]), (15, b"A"), (33, b"ABCDEF"), (35, b"ABCD\x09"), (2, b"\x01b\0\0\xc0")]
        {
            let whole = record(rtype, data);
            assert_eq!(whole.is_some(), rtype == 2, "{rtype}");
        }
    }

    #[test]
    fn a_message_can_be_read_if_every_name_can() {
        // `a. CNAME`, with one record in the answer or additional section, whose owner points to 12.
        let message = |section: usize, owner: &[u8], rtype: u8, data: &[u8]| {
            let mut message = [&[0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x01a\0\0\x05\0\x01"].concat();
            message[7 + 2 * section] = 1;
            [&message, owner, &[0, rtype, 0, 1, 0, 0, 0, 9, 0, data.len() as u8], data].concat()
        };
        let pointer = b"\xc0\x0c";
        let soa = [&b"\xc0\x0c\x01h\xc0\x0c"[..], &[0; 20]].concat();
        let signature = [&[0; 18][..], b"\x01a\0sig"].concat();
        for (rtype, data) in [
            (1, &b"abcd"[..]),
            (28, b"abcdefghijklmnop"),
            (2, pointer),
            (5, b"\x01b\xc0\x0c"),
            (6, &soa),
            (15, b"\0\x0a\xc0\x0c"),
            (33, b"\0\x01\0\x02\0\x35\x01b\0"),
            (35, b"\0\x01\0\x02\x01u\0\0\xc0\x0c"),
            (39, b"\x01b\0"),
            (46, &signature),
            (47, b"\x01b\0\0\x01\x40"),
            (65, b"\0\x01\0"),
            (30, b"\x01b\0bits"),
            (99, b"\xc0\xff"),
        ] {
            for section in 0..3 {
                let whole = message(section, pointer, rtype, data);
                assert!(can_be_read(&whole), "{rtype}");
                assert!((0..whole.len()).all(|end| !can_be_read(&whole[..end])), "{rtype}");
            }
            let more = message(0, pointer, rtype, &[data, b"x"].concat());
            assert_eq!(can_be_read(&more), matches!(rtype, 46 | 47 | 65 | 30 | 99), "{rtype}");
        }
        // Owners and names in data that point to themselves, forwards or past the end, and names that leave the data.
        for owner in [b"\xc0\x13", b"\xc0\x40", b"\xff\xff"] {
            assert!(!can_be_read(&message(0, owner, 1, b"abcd")), "{owner:x?}");
        }
        for (rtype, before) in
            [(2, 0), (5, 0), (12, 0), (39, 0), (15, 2), (33, 6), (46, 18), (47, 0), (64, 2)]
        {
            // The data begin at 31.
            let itself = [0xc0, 31 + before as u8];
            let behind = [0xc0, 33 + before as u8];
            for name in [&itself[..], &behind, b"\xff\xff", b"\x3fb", b"", b"\xc0", b"\x40a\0"] {
                let data = [&vec![0; before][..], name].concat();
                for section in [0, 2] {
                    let message = message(section, pointer, rtype, &data);
                    assert!(!can_be_read(&message), "{rtype} {name:x?}");
                }
            }
        }
        assert!(!can_be_read(&message(0, pointer, 47, pointer)), "a name that must not be a pointer");
    }
}
