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

/// A number below 65536, or what a mnemonic stands for.
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
