//! Response codes by number and name (IANA "DNS RCODEs"). Codes without a name are written `RCODEnn`.

use std::fmt;

/// No error (RFC 1035, section 4.1.1).
pub const NOERROR: u16 = 0;
/// The server could not read the query (RFC 1035, section 4.1.1).
pub const FORMERR: u16 = 1;
/// The server failed to process the query (RFC 1035, section 4.1.1).
pub const SERVFAIL: u16 = 2;
/// The name does not exist (RFC 1035, section 4.1.1).
pub const NXDOMAIN: u16 = 3;
/// The server does not implement this kind of query (RFC 1035, section 4.1.1).
pub const NOTIMP: u16 = 4;
/// The server refuses to answer (RFC 1035, section 4.1.1).
pub const REFUSED: u16 = 5;
/// A name exists that should not, or a DNAME record would make a name too long (RFC 6672, section 2.2).
pub const YXDOMAIN: u16 = 6;

/// The server does not support this version of EDNS (RFC 6891, section 6.1.3). It is the lowest rcode that needs an
/// OPT record.
pub const BADVERS: u16 = 16;
/// The server accepts no such cookie, and sends a better one (RFC 7873, section 8).
pub const BADCOOKIE: u16 = 23;

/// The largest rcode: four bits in the header and eight in an OPT record (RFC 6891, section 6.1.3).
pub const MAX: u16 = 0x0fff;

/// All rcodes with a name. 16 is BADVERS here; TSIG's BADSIG, also 16, never appears in a header.
pub const RCODES: &[(&str, u16)] = &[
    ("NOERROR", NOERROR),
    ("FORMERR", FORMERR),
    ("SERVFAIL", SERVFAIL),
    ("NXDOMAIN", NXDOMAIN),
    ("NOTIMP", NOTIMP),
    ("REFUSED", REFUSED),
    ("YXDOMAIN", YXDOMAIN),
    ("YXRRSET", 7),
    ("NXRRSET", 8),
    ("NOTAUTH", 9),
    ("NOTZONE", 10),
    ("DSOTYPENI", 11),
    ("BADVERS", BADVERS),
    ("BADKEY", 17),
    ("BADTIME", 18),
    ("BADMODE", 19),
    ("BADNAME", 20),
    ("BADALG", 21),
    ("BADTRUNC", 22),
    ("BADCOOKIE", BADCOOKIE),
];

/// The number of the rcode `text`: a name or `RCODEnn`, in any case. `None` if `text` is neither.
pub fn parse(text: &[u8]) -> Option<u16> {
    let known = RCODES.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(text));
    known
        .map(|&(_, number)| number)
        .or_else(|| crate::rtype::numbered(text, b"RCODE").filter(|&number| number <= MAX))
}

/// Displays an rcode by its name, or as `RCODEnn` if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcodeName(pub u16);

impl fmt::Display for RcodeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RCODES.iter().find(|&&(_, number)| number == self.0) {
            Some((name, _)) => out.pad(name),
            None => write!(out, "RCODE{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rcode_is_read_as_it_is_shown() {
        for number in 0..=MAX {
            assert_eq!(parse(RcodeName(number).to_string().as_bytes()), Some(number));
        }
        assert_eq!(parse(b"nxdomain"), Some(NXDOMAIN));
        assert_eq!(RcodeName(13).to_string(), "RCODE13");
    }

    #[test]
    fn what_is_no_rcode_is_refused() {
        for text in ["", "NXDOMAI", "RCODE", "RCODE4096", "3"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
