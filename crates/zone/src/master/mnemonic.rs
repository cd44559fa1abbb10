//! Numbers that may be written as words.

/// IANA "DNS Security Algorithm Numbers", with the other spellings that signers have used.
pub(super) const ALGORITHMS: &[(&str, u16)] = &[
    ("RSAMD5", 1),
    ("DH", 2),
    ("DSA", 3),
    ("RSASHA1", 5),
    ("DSA-NSEC3-SHA1", 6),
    ("NSEC3DSA", 6),
    ("RSASHA1-NSEC3-SHA1", 7),
    ("NSEC3RSASHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECC-GOST", 12),
    ("ECCGOST", 12),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
    ("INDIRECT", 252),
    ("PRIVATEDNS", 253),
    ("PRIVATEOID", 254),
];

/// RFC 4398, section 2.1.
pub(super) const CERTIFICATES: &[(&str, u16)] = &[
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

/// RFC 9859, section 2.2.
pub(super) const SCHEMES: &[(&str, u16)] = &[("NOTIFY", 1)];

/// IANA "Protocol Numbers": the protocols for which a WKS record makes sense.
pub(super) const PROTOCOLS: &[(&str, u16)] = &[
    ("ip", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("st", 5),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("udp", 17),
    ("hmp", 20),
    ("xns-idp", 22),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ospf", 89),
    ("sctp", 132),
    ("udplite", 136),
];

pub(super) const TCP: u8 = 1;
pub(super) const UDP: u8 = 2;

/// IANA "Service Name and Transport Protocol Port Number Registry": well known services, with the protocols for which
/// hosts know them. Others are written as numbers.
pub(super) const SERVICES: &[(&str, u16, u8)] = &[
    ("tcpmux", 1, TCP),
    ("echo", 7, TCP | UDP),
    ("discard", 9, TCP | UDP),
    ("systat", 11, TCP),
    ("daytime", 13, TCP | UDP),
    ("netstat", 15, TCP),
    ("qotd", 17, TCP),
    ("chargen", 19, TCP | UDP),
    ("ftp-data", 20, TCP),
    ("ftp", 21, TCP),
    ("ssh", 22, TCP),
    ("telnet", 23, TCP),
    ("smtp", 25, TCP),
    ("time", 37, TCP | UDP),
    ("whois", 43, TCP),
    ("nicname", 43, TCP),
    ("tacacs", 49, TCP | UDP),
    ("domain", 53, TCP | UDP),
    ("bootps", 67, UDP),
    ("bootpc", 68, UDP),
    ("tftp", 69, UDP),
    ("gopher", 70, TCP),
    ("finger", 79, TCP),
    ("http", 80, TCP),
    ("www", 80, TCP),
    ("kerberos", 88, TCP | UDP),
    ("pop3", 110, TCP),
    ("sunrpc", 111, TCP | UDP),
    ("auth", 113, TCP),
    ("nntp", 119, TCP),
    ("ntp", 123, UDP),
    ("imap", 143, TCP),
    ("imap2", 143, TCP),
    ("snmp", 161, TCP | UDP),
    ("snmp-trap", 162, TCP | UDP),
    ("bgp", 179, TCP),
    ("irc", 194, TCP | UDP),
    ("ldap", 389, TCP | UDP),
    ("https", 443, TCP | UDP),
    ("exec", 512, TCP),
    ("biff", 512, UDP),
    ("login", 513, TCP),
    ("who", 513, UDP),
    ("shell", 514, TCP),
    ("syslog", 514, UDP),
    ("printer", 515, TCP),
    ("talk", 517, UDP),
    ("ntalk", 518, UDP),
    ("route", 520, UDP),
    ("uucp", 540, TCP),
    ("ldaps", 636, TCP | UDP),
    ("domain-s", 853, TCP | UDP),
    ("imaps", 993, TCP),
    ("pop3s", 995, TCP),
];

/// A number below 65536, or the number of a mnemonic.
pub(super) fn mnemonic(text: &[u8], table: &[(&str, u16)]) -> Option<u16> {
    if text.first().is_some_and(u8::is_ascii_digit) {
        return text
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| std::str::from_utf8(text).ok()?.parse().ok())
            .flatten();
    }
    table.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(text)).map(|&(_, number)| number)
}
