//! The data of most types is a sequence of fields. This is the table of these fields, and it reads fields from
//! text. `wire.rs` finds where a field ends in wire form.

use std::net::Ipv6Addr;

use super::error::{Parsed, Trouble};
use super::lexer::{Lexer, Token};
use super::mnemonic::{ALGORITHMS, CERTIFICATES, SCHEMES, mnemonic};
use super::{binary, historic, number, text, types};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// A number of 8, 16 or 32 bits.
    U8,
    U16,
    U32,
    /// A period of 32 bits, which may have units.
    Period,
    /// A point in time of 32 bits.
    Time,
    Name,
    /// A string of up to 255 bytes with its length.
    String,
    /// Such strings up to the end, at least one.
    Strings,
    /// A word of any length, without a length field. It ends with the data.
    Text,
    /// The tag of a CAA record: letters and digits.
    Tag,
    Ipv4,
    Ipv6,
    /// Bytes up to the end, at least one.
    Hex,
    Base64,
    /// Bytes in base 64 up to the end; there may be none.
    OptionalBase64,
    /// Bytes in base 64 up to the end, with `-` for none (DOA).
    DashBase64,
    /// Hexadecimal bytes with their length, or `-` for none.
    Salt,
    /// Bytes in base 32 with their length.
    Hash,
    /// The number of a type, written as a mnemonic.
    Type,
    /// A set of types.
    Types,
    /// A set of types below 128, as in NXT (RFC 2535, section 5.2).
    OldTypes,
    /// A protocol and its served ports (RFC 1035, section 3.4.2).
    Services,
    /// An address of the Open Systems Interconnection (RFC 1706).
    Nsap,
    /// An address of ATM: a telephone number or the address of an end system.
    Atma,
    /// The number of a DNSSEC algorithm, or its mnemonic.
    Algorithm,
    /// The number of a kind of certificate, or its mnemonic.
    Certificate,
    /// The number of a scheme of DSYNC, or its mnemonic.
    Scheme,
    /// Six or eight bytes as hexadecimal pairs with hyphens between (RFC 7043).
    Eui48,
    Eui64,
    /// Four groups of one to four hexadecimal digits with colons between (RFC 6742).
    Locator,
}

use Field::{
    Algorithm, Atma, Base64, Certificate, DashBase64, Eui48, Eui64, Hash, Hex, Ipv4, Ipv6, Locator, Name,
    Nsap, OldTypes, OptionalBase64, Period, Salt, Scheme, Services, String, Strings, Tag, Text, Time, Type,
    Types, U8, U16, U32,
};

/// The fields of a type's data; `None` if the data is not such a sequence, or the type is unknown.
pub(super) fn type_fields(rtype: u16) -> Option<&'static [Field]> {
    Some(match rtype {
        1 => &[Ipv4],
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, NSAP-PTR, DNAME
        2..=5 | 7..=9 | 12 | 23 | 39 => &[Name],
        6 => &[Name, Name, U32, Period, Period, Period, Period],
        // WKS
        11 => &[Ipv4, Services],
        // HINFO
        13 => &[String, String],
        // MINFO, RP, TALINK
        14 | 17 | 58 => &[Name, Name],
        // MX, AFSDB, RT, KX, LP
        15 | 18 | 21 | 36 | 107 => &[U16, Name],
        // TXT, ISDN, NINFO, SPF, AVC, RESINFO, WALLET
        16 | 20 | 56 | 99 | 258 | 261 | 262 => &[Strings],
        // X25
        19 => &[String],
        // NSAP
        22 => &[Nsap],
        // SIG, RRSIG
        24 | 46 => &[Type, Algorithm, U8, Period, Time, Time, U16, Name, Base64],
        // KEY, DNSKEY, RKEY, CDNSKEY
        25 | 48 | 57 | 60 => &[U16, U8, Algorithm, Base64],
        // PX
        26 => &[U16, Name, Name],
        // GPOS
        27 => &[String, String, String],
        28 => &[Ipv6],
        // NXT
        30 => &[Name, OldTypes],
        // EID, NIMLOC
        31 | 32 => &[Hex],
        // SRV
        33 => &[U16, U16, U16, Name],
        // ATMA
        34 => &[Atma],
        // NAPTR
        35 => &[U16, U16, String, String, String, Name],
        // CERT
        37 => &[Certificate, U16, Algorithm, Base64],
        // SINK
        40 => &[U8, U8, U8, OptionalBase64],
        // DS, CDS, TA, DLV
        43 | 59 | 32_768 | 32_769 => &[U16, Algorithm, U8, Hex],
        // SSHFP
        44 => &[U8, U8, Hex],
        // NSEC
        47 => &[Name, Types],
        // DHCID, OPENPGPKEY, HHIT, BRID
        49 | 61 | 67 | 68 => &[Base64],
        // NSEC3
        50 => &[U8, U8, U16, Salt, Hash, Types],
        // NSEC3PARAM
        51 => &[U8, U8, U16, Salt],
        // TLSA, SMIMEA
        52 | 53 => &[U8, U8, U8, Hex],
        // CSYNC
        62 => &[U32, U16, Types],
        // ZONEMD
        63 => &[U32, U8, U8, Hex],
        // DSYNC
        66 => &[Type, Scheme, U16, Name],
        // NID, L64
        104 | 106 => &[U16, Locator],
        // L32
        105 => &[U16, Ipv4],
        108 => &[Eui48],
        109 => &[Eui64],
        // URI
        256 => &[U16, U16, Text],
        // CAA
        257 => &[U8, Tag, Text],
        // DOA
        259 => &[U32, U32, U8, String, DashBase64],
        _ => return None,
    })
}

/// Reads one field and appends it in wire form.
#[inline]
pub(super) fn read(field: Field, lexer: &mut Lexer<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    match field {
        U8 => out.push(number::decimal(&lexer.need(U8_EXPECTED)?, u8::MAX, U8_EXPECTED)?),
        U16 => {
            let value = number::decimal(&lexer.need(U16_EXPECTED)?, u16::MAX, U16_EXPECTED)?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        U32 => {
            let value = number::decimal(&lexer.need(U32_EXPECTED)?, u32::MAX, U32_EXPECTED)?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        Period => word(lexer, PERIOD_EXPECTED, out, |text| number::period_s(text).map(u32::to_be_bytes))?,
        Time => word(lexer, TIME_EXPECTED, out, |text| number::time_s(text).map(u32::to_be_bytes))?,
        Name => super::name::append(&lexer.plain("a name")?, origin, out)?,
        String => text::append_string(&lexer.need("a string")?, out)?,
        Strings => {
            text::append_string(&lexer.need("a string")?, out)?;
            while let Some(token) = lexer.next()? {
                text::append_string(&token, out)?;
            }
        }
        Text => text::append(&lexer.need("a string")?, out)?,
        Tag => tag(&lexer.plain(TAG_EXPECTED)?, out)?,
        Ipv4 => word(lexer, IPV4_EXPECTED, out, ipv4)?,
        Ipv6 => word(lexer, IPV6_EXPECTED, out, ipv6)?,
        Hex => binary::hex_rest(lexer, false, out)?,
        Base64 => binary::base64_rest(lexer, out)?,
        OptionalBase64 => historic::optional_base64(lexer, out)?,
        DashBase64 => historic::dash_or_base64(lexer, out)?,
        Salt => salt(&lexer.plain(SALT_EXPECTED)?, out)?,
        Hash => with_length(&lexer.plain("a hash in base 32")?, out, binary::base32hex)?,
        Type => word(lexer, "a type", out, |text| types::parse(text).map(u16::to_be_bytes))?,
        Types => types::bitmap(lexer, out)?,
        OldTypes => historic::old_types(lexer, out)?,
        Services => historic::services(lexer, out)?,
        Nsap => historic::nsap(&lexer.plain(historic::NSAP_EXPECTED)?, out)?,
        Atma => historic::atma(&lexer.plain(historic::ATMA_EXPECTED)?, out)?,
        Algorithm => word(lexer, ALGORITHM_EXPECTED, out, |text| byte(mnemonic(text, ALGORITHMS)?))?,
        Certificate => word(lexer, "a kind of certificate", out, |text| {
            mnemonic(text, CERTIFICATES).map(u16::to_be_bytes)
        })?,
        Scheme => word(lexer, SCHEME_EXPECTED, out, |text| byte(mnemonic(text, SCHEMES)?))?,
        Eui48 => word(lexer, "six bytes as in 00-00-5e-00-53-2a", out, pairs::<6>)?,
        Eui64 => word(lexer, "eight bytes as in 00-00-5e-ef-10-00-00-2a", out, pairs::<8>)?,
        Locator => word(lexer, "64 bits as in 2001:0DB8:1140:1000", out, locator)?,
    }
    Ok(())
}

const U8_EXPECTED: &str = "a number from 0 to 255";
const U16_EXPECTED: &str = "a number from 0 to 65535";
const U32_EXPECTED: &str = "a number from 0 to 4294967295";
const PERIOD_EXPECTED: &str = "a period in seconds, or with units as in 1h30m";
const TIME_EXPECTED: &str = "a time as YYYYMMDDHHmmSS or in seconds since 1970";
const TAG_EXPECTED: &str = "a tag of letters and digits";
const IPV4_EXPECTED: &str = "an IPv4 address";
const IPV6_EXPECTED: &str = "an IPv6 address";
const SALT_EXPECTED: &str = "a salt in hexadecimal digits, or - for none";
const ALGORITHM_EXPECTED: &str = "the number or the mnemonic of a DNSSEC algorithm";
const SCHEME_EXPECTED: &str = "the number of a scheme, or NOTIFY";

fn byte(number: u16) -> Option<[u8; 1]> {
    u8::try_from(number).ok().map(|number| [number])
}

/// Reads a word that stands for a fixed number of bytes.
#[inline]
fn word<const N: usize>(
    lexer: &mut Lexer<'_>,
    expected: &'static str,
    out: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Option<[u8; N]>,
) -> Parsed<()> {
    let token = lexer.plain(expected)?;
    let bytes = read(token.text).ok_or_else(|| Trouble::expected(expected, token.text, token.at))?;
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Parses an IPv4 address of four decimal numbers without leading zeros.
#[inline]
pub(super) fn ipv4(text: &[u8]) -> Option<[u8; 4]> {
    let mut address = [0; 4];
    let mut at = 0;
    for (index, byte) in address.iter_mut().enumerate() {
        if index > 0 {
            if text.get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
        let start = at;
        let mut value: u32 = 0;
        while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit <= 9) {
            value = value * 10 + u32::from(digit);
            at += 1;
            if at - start > 3 {
                return None;
            }
        }
        if at == start || (text[start] == b'0' && at - start > 1) {
            return None;
        }
        *byte = u8::try_from(value).ok()?;
    }
    (at == text.len()).then_some(address)
}

pub(super) fn ipv6(text: &[u8]) -> Option<[u8; 16]> {
    std::str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok().map(|address| address.octets())
}

fn tag(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let length = u8::try_from(token.text.len()).ok().filter(|&length| length > 0);
    let (Some(length), true) = (length, token.text.iter().all(u8::is_ascii_alphanumeric)) else {
        return Err(Trouble::expected(TAG_EXPECTED, token.text, token.at));
    };
    out.push(length);
    out.extend_from_slice(token.text);
    Ok(())
}

fn salt(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    if token.text == b"-" {
        out.push(0);
        return Ok(());
    }
    with_length(token, out, binary::hex)
}

fn with_length(
    token: &Token<'_>,
    out: &mut Vec<u8>,
    read: impl Fn(&Token<'_>, &mut Vec<u8>) -> Parsed<()>,
) -> Parsed<()> {
    let start = out.len();
    out.push(0);
    read(token, out)?;
    out[start] = u8::try_from(out.len() - start - 1)
        .map_err(|_| Trouble::rule(token.at, "these are more than 255 bytes"))?;
    Ok(())
}

/// Parses `N` bytes as pairs of hexadecimal digits with hyphens between.
fn pairs<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut groups = text.split(|&byte| byte == b'-');
    for byte in &mut bytes {
        let group = groups.next().filter(|group| group.len() == 2)?;
        *byte = u8::try_from(hex(group)?).ok()?;
    }
    groups.next().is_none().then_some(bytes)
}

/// Parses 64 bits as four groups of up to four hexadecimal digits with colons between.
fn locator(text: &[u8]) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    let mut groups = text.split(|&byte| byte == b':');
    for pair in bytes.as_chunks_mut::<2>().0 {
        *pair = hex(groups.next()?)?.to_be_bytes();
    }
    groups.next().is_none().then_some(bytes)
}

/// Parses one to four hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u16> {
    let are_digits = digits.len() <= 4 && digits.iter().all(u8::is_ascii_hexdigit);
    u16::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| are_digits)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_addresses_are_four_numbers() {
        assert_eq!(ipv4(b"192.0.2.255"), Some([192, 0, 2, 255]));
        assert_eq!(ipv4(b"0.0.0.0"), Some([0; 4]));
        for bad in [
            "",
            "1",
            "1.2.3",
            "1.2.3.",
            "1.2.3.4.",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.03.4",
            "1..3.4",
            "a.b.c.d",
        ] {
            assert_eq!(ipv4(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(pairs(b"00-00-5e-00-53-2a"), Some([0, 0, 0x5e, 0, 0x53, 0x2a]));
        for bad in [
            "00-00-5e-00-53",
            "00-00-5e-00-53-2g",
            "000-0-5e-00-53-2a",
            "00-00-5e-00-53-2a-",
            "00-00-5e-0-53-2a",
            "00-00-5e-+1-53-2a",
        ] {
            assert_eq!(pairs::<6>(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn groups_of_a_locator_may_be_short() {
        assert_eq!(locator(b"0014:4fff:ff20:ee64"), Some([0, 0x14, 0x4f, 255, 255, 0x20, 0xee, 0x64]));
        assert_eq!(locator(b"14:4fFf:0:e"), Some([0, 0x14, 0x4f, 255, 0, 0, 0, 0xe]));
        for bad in ["1:2:3", "1:2:3:4:5", "1::3:4", "1:2:3:00004", "1:2:3:g", "1:2:3:+4", ""] {
            assert_eq!(locator(bad.as_bytes()), None, "{bad}");
        }
    }
}
