//! The data of records in wire form: whether bytes can be data of a type, and whether two records are the same.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use kqps_message::name;

use super::fields::{self, Field};
use super::historic;
use super::types::{self, A6};

/// Whether two data of a type are the same. If the type is older than RFC 3597, the case of letters in names does not
/// matter (RFC 4343, section 3). Names in later types are compared byte by byte (RFC 3597, section 6).
pub(crate) fn same_data(rtype: u16, one: &[u8], other: &[u8]) -> bool {
    one == other
        || folds_names(rtype)
            && one.eq_ignore_ascii_case(other)
            && canonical(rtype, one) == canonical(rtype, other)
}

/// The data in a form that is the same for equal data: names in lower case (RFC 4034, section 6.2), if their case does
/// not matter. Bytes that are not data of the type stay unchanged.
pub(crate) fn canonical(rtype: u16, data: &[u8]) -> Cow<'_, [u8]> {
    let folded = if folds_names(rtype) { with_names_folded(rtype, data) } else { None };
    folded.map_or(Cow::Borrowed(data), Cow::Owned)
}

fn with_names_folded(rtype: u16, data: &[u8]) -> Option<Vec<u8>> {
    let mut folded = data.to_vec();
    if rtype == A6 {
        folded.get_mut(a6_name_at(data)?..)?.make_ascii_lowercase();
        return Some(folded);
    }
    let mut at = 0;
    for &field in fields::type_fields(rtype)? {
        let bytes = field_bytes(field, data.get(at..)?)?;
        let part = folded.get_mut(at..at + bytes)?;
        if field == Field::Name {
            // A label's length is below 64, and so never a letter.
            part.make_ascii_lowercase();
        }
        at += bytes;
    }
    Some(folded)
}

/// The position at which the name in A6 data begins, or would begin.
pub(super) fn a6_name_at(data: &[u8]) -> Option<usize> {
    let prefix = usize::from(*data.first()?);
    (prefix <= 128).then_some(1 + size_of::<Ipv6Addr>() - prefix / 8)
}

/// Whether the case of names in the data of a type does not matter: the list of RFC 4034, section 6.2, without NSEC
/// (RFC 6840, section 5.1), and with NSAP-PTR, which is as old as the others.
fn folds_names(rtype: u16) -> bool {
    matches!(
        rtype,
        // NS, MD, MF, CNAME, SOA, MB, MG, MR, PTR
        2..=9 | 12
        // MINFO, MX, RP, AFSDB, RT, NSAP-PTR, SIG, PX, NXT
        | 14 | 15 | 17 | 18 | 21 | 23 | 24 | 26 | 30
        // SRV, NAPTR, KX, A6, DNAME, RRSIG
        | 33 | 35 | 36 | 38 | 39 | 46
    )
}

/// Whether these bytes are such fields and nothing more.
pub(super) fn are(fields: &[Field], mut data: &[u8]) -> bool {
    for &field in fields {
        let Some(bytes) = field_bytes(field, data) else { return false };
        let Some(rest) = data.get(bytes..) else { return false };
        data = rest;
    }
    data.is_empty()
}

/// The length of the field at the beginning of these bytes, which may be fewer.
fn field_bytes(field: Field, data: &[u8]) -> Option<usize> {
    let with_length = || data.first().map(|&length| 1 + usize::from(length));
    Some(match field {
        Field::U8 | Field::Algorithm | Field::Scheme => 1,
        Field::U16 | Field::Type | Field::Certificate => 2,
        Field::U32 | Field::Period | Field::Time => 4,
        Field::Ipv4 => size_of::<Ipv4Addr>(),
        Field::Eui48 => 6,
        Field::Eui64 | Field::Locator => 8,
        Field::Ipv6 => size_of::<Ipv6Addr>(),
        Field::Name => name_bytes(data)?,
        Field::String | Field::Salt => with_length()?,
        Field::Tag | Field::Hash => with_length().filter(|&bytes| bytes > 1)?,
        Field::Strings => {
            let mut at = 0;
            while let Some(&length) = data.get(at) {
                at += 1 + usize::from(length);
            }
            (at > 0).then_some(at)?
        }
        Field::Text | Field::OptionalBase64 | Field::DashBase64 => data.len(),
        Field::Hex | Field::Base64 | Field::Nsap => (!data.is_empty()).then_some(data.len())?,
        Field::Types => types::is_bitmap(data).then_some(data.len())?,
        Field::OldTypes => historic::are_old_types(data).then_some(data.len())?,
        Field::Services => historic::are_services(data).then_some(data.len())?,
        Field::Atma => historic::is_atma(data).then_some(data.len())?,
    })
}

/// The length of the uncompressed name at the beginning of these bytes.
pub(super) fn name_bytes(data: &[u8]) -> Option<usize> {
    let end = name::end(data, 0)?;
    // The two bits of a pointer would be at the end: an uncompressed name ends with the root.
    let mut at = 0;
    while at < end {
        match data[at] {
            0 => return (at + 1 == end).then_some(end),
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, and letters that do not belong to a name.
    #[test]
    fn the_case_of_names_does_not_count_where_the_type_is_old() {
        const NAPTR: u16 = 35;
        const RRSIG: u16 = 46;
        const SVCB: u16 = 64;
        const LP: u16 = 107;
        let signature = |signer: &[u8], bytes: &[u8]| [&[b'A'; 18], signer, bytes].concat();
        for (rtype, one, other, expected) in [
            (15, &b"\0\x0a\x04Mail\0"[..], &b"\0\x0a\x04mail\0"[..], true),
            // 16,705 and 24,929 look like letters only as bytes.
            (15, b"AA\x01a\0", b"aa\x01a\0", false),
            (33, b"\0\x01\0\x01\0\x35\x01A\0", b"\0\x01\0\x01\0\x35\x01a\0", true),
            (17, b"\x01A\0\x01B\0", b"\x01a\0\x01b\0", true),
            (6, b"\x01A\0\x01B\0AAAABBBBCCCCDDDDEEEE", b"\x01a\0\x01b\0AAAABBBBCCCCDDDDEEEE", true),
            (6, b"\x01A\0\x01B\0AAAABBBBCCCCDDDDEEEE", b"\x01a\0\x01b\0aAAABBBBCCCCDDDDEEEE", false),
            (NAPTR, b"\0\x01\0\x01\x01U\0\0\x01A\0", b"\0\x01\0\x01\x01U\0\0\x01a\0", true),
            (NAPTR, b"\0\x01\0\x01\x01U\0\0\x01a\0", b"\0\x01\0\x01\x01u\0\0\x01a\0", false),
            (RRSIG, &signature(b"\x01X\0", b"SIG"), &signature(b"\x01x\0", b"SIG"), true),
            (RRSIG, &signature(b"\x01x\0", b"SIG"), &signature(b"\x01x\0", b"sig"), false),
            (16, b"\x01A", b"\x01a", false),
            (A6, b"\x78\x41\x01A\0", b"\x78\x41\x01a\0", true),
            (A6, b"\x78\x41\x01a\0", b"\x78\x61\x01a\0", false),
            // RFC 3597, section 6.
            (SVCB, b"\0\x01\x01A\0", b"\0\x01\x01a\0", false),
            (LP, b"\0\x01\x01A\0", b"\0\x01\x01a\0", false),
            // Not valid data of its type.
            (15, b"\0\x0a\x04Ma", b"\0\x0a\x04ma", false),
        ] {
            assert_eq!(same_data(rtype, one, other), expected, "{rtype} {}", one.escape_ascii());
            assert_eq!(canonical(rtype, one) == canonical(rtype, other), expected);
        }
    }
}
