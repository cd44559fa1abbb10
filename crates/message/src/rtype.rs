//! Record types by number and mnemonic (IANA "DNS Parameters"). `TYPEnnn` stands for any number (RFC 3597,
//! section 5).

use std::fmt;

/// All types with a mnemonic, the most frequent ones first.
pub const TYPES: &[(&str, u16)] = &[
    ("A", A),
    ("AAAA", AAAA),
    ("HTTPS", HTTPS),
    ("PTR", PTR),
    ("NS", NS),
    ("MX", MX),
    ("TXT", TXT),
    ("CNAME", CNAME),
    ("SOA", SOA),
    ("SRV", SRV),
    ("DS", DS),
    ("DNSKEY", DNSKEY),
    ("ANY", ANY),
    ("SVCB", SVCB),
    ("CAA", CAA),
    ("NAPTR", 35),
    ("TLSA", 52),
    ("MD", 3),
    ("MF", 4),
    ("MB", 7),
    ("MG", 8),
    ("MR", 9),
    ("NULL", 10),
    ("WKS", 11),
    ("HINFO", 13),
    ("MINFO", 14),
    ("RP", 17),
    ("AFSDB", 18),
    ("X25", 19),
    ("ISDN", 20),
    ("RT", 21),
    ("NSAP", 22),
    ("NSAP-PTR", 23),
    ("SIG", 24),
    ("KEY", 25),
    ("PX", 26),
    ("GPOS", 27),
    ("LOC", 29),
    ("NXT", 30),
    ("EID", 31),
    ("NIMLOC", 32),
    ("ATMA", 34),
    ("KX", 36),
    ("CERT", 37),
    ("A6", 38),
    ("DNAME", DNAME),
    ("SINK", 40),
    ("OPT", OPT),
    ("APL", 42),
    ("SSHFP", 44),
    ("IPSECKEY", 45),
    ("RRSIG", RRSIG),
    ("NSEC", NSEC),
    ("DHCID", 49),
    ("NSEC3", NSEC3),
    ("NSEC3PARAM", NSEC3PARAM),
    ("SMIMEA", 53),
    ("HIP", 55),
    ("NINFO", 56),
    ("RKEY", 57),
    ("TALINK", 58),
    ("CDS", 59),
    ("CDNSKEY", 60),
    ("OPENPGPKEY", 61),
    ("CSYNC", 62),
    ("ZONEMD", 63),
    ("DSYNC", 66),
    ("HHIT", 67),
    ("BRID", 68),
    ("SPF", 99),
    ("UINFO", 100),
    ("UID", 101),
    ("GID", 102),
    ("UNSPEC", 103),
    ("NID", 104),
    ("L32", 105),
    ("L64", 106),
    ("LP", 107),
    ("EUI48", 108),
    ("EUI64", 109),
    ("NXNAME", 128),
    ("TKEY", 249),
    ("TSIG", TSIG),
    ("IXFR", IXFR),
    ("AXFR", AXFR),
    ("MAILB", 253),
    ("MAILA", 254),
    ("URI", 256),
    ("AVC", 258),
    ("DOA", 259),
    ("AMTRELAY", 260),
    ("RESINFO", 261),
    ("WALLET", 262),
    ("TA", 32768),
    ("DLV", 32769),
];

/// The IPv4 address of a host (RFC 1035, section 3.4.1).
pub const A: u16 = 1;
/// An authoritative name server of a zone (RFC 1035, section 3.3.11).
pub const NS: u16 = 2;
/// The canonical name of an alias (RFC 1035, section 3.3.1).
pub const CNAME: u16 = 5;
/// The start of a zone of authority (RFC 1035, section 3.3.13).
pub const SOA: u16 = 6;
/// A pointer to another name, as in reverse zones (RFC 1035, section 3.3.12).
pub const PTR: u16 = 12;
/// A mail exchange of a domain (RFC 1035, section 3.3.9).
pub const MX: u16 = 15;
/// Character strings, at least one (RFC 1035, section 3.3.14).
pub const TXT: u16 = 16;
/// The IPv6 address of a host (RFC 3596, section 2.1).
pub const AAAA: u16 = 28;
/// The host and port of a service (RFC 2782).
pub const SRV: u16 = 33;
/// An alias for all names below its own (RFC 6672).
pub const DNAME: u16 = 39;
/// The pseudo-record of EDNS (RFC 6891).
pub const OPT: u16 = 41;
/// The digest of a child zone's key (RFC 4034, section 5).
pub const DS: u16 = 43;
/// A signature (RFC 4034, section 3).
pub const RRSIG: u16 = 46;
/// The next name of a zone (RFC 4034, section 4).
pub const NSEC: u16 = 47;
/// A zone's key (RFC 4034, section 2).
pub const DNSKEY: u16 = 48;
/// The next hashed owner name of a zone (RFC 5155, section 3).
pub const NSEC3: u16 = 50;
/// The parameters with which a zone hashes its names (RFC 5155, section 4).
pub const NSEC3PARAM: u16 = 51;
/// The endpoints of a service and their parameters (RFC 9460).
pub const SVCB: u16 = 64;
/// The endpoints of a web service and their parameters (RFC 9460).
pub const HTTPS: u16 = 65;
/// The signature of a message (RFC 8945).
pub const TSIG: u16 = 250;
/// A request for the changes of a zone (RFC 1995).
pub const IXFR: u16 = 251;
/// A request for a whole zone (RFC 5936).
pub const AXFR: u16 = 252;
/// The authorities that may issue certificates for a domain (RFC 8659).
pub const CAA: u16 = 257;
/// A request for records of any type (RFC 8482).
pub const ANY: u16 = 255;

/// The number of the type `text`: a mnemonic or `TYPEnnn`, in any case. `None` if `text` is neither.
pub fn parse(text: &[u8]) -> Option<u16> {
    let known = TYPES.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(text));
    known.map(|&(_, number)| number).or_else(|| numbered(text, b"TYPE"))
}

/// Reads `PREFIXnnn`: a prefix in any case and a decimal number below 65536.
pub(crate) fn numbered(text: &[u8], prefix: &[u8]) -> Option<u16> {
    let (head, digits) = text.split_at_checked(prefix.len())?;
    if !head.eq_ignore_ascii_case(prefix) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Displays a type by its mnemonic, or as `TYPEnnn` if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtypeName(pub u16);

impl fmt::Display for RtypeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TYPES.iter().find(|&&(_, number)| number == self.0) {
            Some((name, _)) => out.pad(name),
            None => write!(out, "TYPE{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_read_as_it_is_shown() {
        for number in 0..=u16::MAX {
            assert_eq!(parse(RtypeName(number).to_string().as_bytes()), Some(number));
        }
    }

    #[test]
    fn case_does_not_matter_and_numbers_are_taken() {
        assert_eq!(parse(b"aaaa"), Some(28));
        assert_eq!(parse(b"TYPE1"), Some(1));
        assert_eq!(parse(b"type65280"), Some(65280));
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for text in ["", "AAAAA", "TYPE", "TYPE65536", "TYPE-1", "TYPE+1", "TYP1", "1"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
