//! The digest of a right answer: 64 bits. It is the same for every server with the right answer, however the
//! server compresses names, orders records, writes letters or decrements TTLs.
//!
//! It is the sum, modulo 2^64, of XXH3-64 (seed 0) over
//!
//! - three bytes: the rcode, big-endian, and 1 if AA is set, else 0; and
//! - each record of the answer section except RRSIGs: its owner, type, class and data in canonical form
//!   ([`kqps_message::canonical`]), without TTL and length.
//!
//! If the rcode is neither NOERROR nor NXDOMAIN, only the rcode counts: AA is taken as 0, and there are no
//! records. RRSIGs are left out, because they are not known before the zone is signed.
//!
//! A digest may cover AD too: the two bytes `AD` are then hashed as well if AD is set, and the rcode is one of these two.

use kqps_message::header::AD;
use kqps_message::{Header, canonical, question, rcode, rtype};
use xxhash_rust::xxh3::xxh3_64;

/// The digest of a right answer: a sum of XXH3-64 over rcode and AA, and over each record in canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    sum: u64,
    covers_ad: bool,
}

/// How far a reply has an expected answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// It has all that the digest covers.
    Whole,
    /// Only its AD bit differs.
    ButForAd,
    /// It has another answer, or cannot be read.
    None,
}

impl Digest {
    /// The digest of an answer without records.
    #[inline]
    pub fn of_none(rcode: u16, authoritative: bool) -> Self {
        let [upper, lower] = rcode.to_be_bytes();
        let sum = xxh3_64(&[upper, lower, u8::from(authoritative && is_of_data(rcode))]);
        Self { sum, covers_ad: false }
    }

    /// The digest with one more record, given in canonical form.
    #[inline]
    #[must_use]
    pub fn and(self, record: &[u8]) -> Self {
        Self { sum: self.sum.wrapping_add(xxh3_64(record)), ..self }
    }

    /// The digest of an answer with this rcode that covers AD as well, which is set or not.
    #[inline]
    #[must_use]
    pub fn covering_ad(self, rcode: u16, is_set: bool) -> Self {
        let whole = if is_set && is_of_data(rcode) { self.and(b"AD") } else { self };
        Self { covers_ad: true, ..whole }
    }

    /// The digest of a reply with this whole rcode, including its OPT bits. `None` if its answer section is
    /// truncated or malformed. `scratch` is a buffer to reuse, with any content.
    #[inline]
    pub fn of_reply(reply: &[u8], rcode: u16, scratch: &mut Vec<u8>) -> Option<Self> {
        let header = Header::from_bytes(reply)?;
        let mut digest = Self::of_none(rcode, header.is_authoritative());
        if !is_of_data(rcode) {
            return Some(digest);
        }
        let mut at = question::end(reply)?;
        for _ in 0..header.answers() {
            scratch.clear();
            let record = canonical::append_record(reply, at, scratch)?;
            if record.rtype != rtype::RRSIG {
                digest = digest.and(scratch);
            }
            at = record.end;
        }
        Some(digest)
    }

    /// How far a reply with this whole rcode has the answer. See [`Self::of_reply`].
    #[inline]
    pub fn agreement(self, reply: &[u8], rcode: u16, scratch: &mut Vec<u8>) -> Agreement {
        let Some(found) = Self::of_reply(reply, rcode, scratch) else { return Agreement::None };
        if !self.covers_ad {
            return if found == self { Agreement::Whole } else { Agreement::None };
        }
        let is_ad = reply.get(3).is_some_and(|flags| flags & AD != 0);
        match self {
            _ if self == found.covering_ad(rcode, is_ad) => Agreement::Whole,
            _ if self == found.covering_ad(rcode, !is_ad) => Agreement::ButForAd,
            _ => Agreement::None,
        }
    }

    /// The digest as a number, for a file.
    pub fn number(self) -> u64 {
        self.sum
    }

    /// Whether it covers AD.
    pub fn covers_ad(self) -> bool {
        self.covers_ad
    }

    /// The digest with this number.
    pub fn from_number(number: u64, covers_ad: bool) -> Self {
        Self { sum: number, covers_ad }
    }
}

/// Whether the digest of an answer with this rcode covers AA and records.
#[inline]
fn is_of_data(rcode: u16) -> bool {
    matches!(rcode, rcode::NOERROR | rcode::NXDOMAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x03wWw\x04test\0\x00\x01\x00\x01";
    const OWNER: &[u8] = b"\xc0\x0c";

    /// A record with these fields and class IN.
    fn record(owner: &[u8], rtype: u8, ttl_s: u8, data: &[u8]) -> Vec<u8> {
        [owner, &[0, rtype, 0, 1, 0, 0, 0, ttl_s, 0, data.len() as u8], data].concat()
    }

    fn digest(flags: [u8; 2], records: &[Vec<u8>]) -> Option<Digest> {
        let header = [0, 0, flags[0], flags[1], 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        let reply = [&header[..], QUESTION, &records.concat()].concat();
        Digest::of_reply(&reply, u16::from(flags[1] & 15), &mut b"anything".to_vec())
    }

    #[test]
    fn what_servers_may_do_differently_does_not_matter() {
        let (one, two) = (record(OWNER, 1, 9, b"AAAA"), record(OWNER, 1, 9, b"BBBB"));
        let wanted = digest([0x84, 0], &[one.clone(), two.clone()]);
        let written_out = record(b"\x03WWW\x04test\0", 1, 8, b"BBBB");
        let signature = record(OWNER, 46, 9, b"anything at all");
        assert_eq!(digest([0x85, 0x30], &[written_out, signature, one]), wanted);
        let alias = |data: &[u8]| digest([0x84, 0], &[record(OWNER, 5, 9, data)]);
        assert_eq!(alias(b"\x01a\xc0\x10"), alias(b"\x01A\x04TEST\0"));
    }

    #[test]
    fn what_makes_an_answer_another_one_does() {
        let one = record(OWNER, 1, 9, b"AAAA");
        let wanted = digest([0x84, 0], std::slice::from_ref(&one)).expect("a digest");
        for (what, other) in [
            ("data", digest([0x84, 0], &[record(OWNER, 1, 9, b"AAAB")])),
            ("type", digest([0x84, 0], &[record(OWNER, 2, 9, b"\x02AA\0")])),
            ("owner", digest([0x84, 0], &[record(b"\xc0\x10", 1, 9, b"AAAA")])),
            ("a record twice", digest([0x84, 0], &[one.clone(), one.clone()])),
            ("a record less", digest([0x84, 0], &[])),
            ("AA", digest([0x80, 0], std::slice::from_ref(&one))),
            ("rcode", digest([0x84, 3], std::slice::from_ref(&one))),
        ] {
            assert_ne!(other.expect("a digest"), wanted, "{what}");
        }
        assert_eq!(digest([0x84, 0], &[record(OWNER, 5, 9, b"\x09")]), None);
    }

    #[test]
    fn a_digest_that_covers_ad_tells_replies_with_and_without_it_apart() {
        let reply = |flags: u8| [&[0, 0, 0x80, flags, 0, 1, 0, 0, 0, 0, 0, 0], QUESTION].concat();
        let plain = Digest::of_none(0, false);
        let of = |digest: Digest, flags: u8| {
            let reply = reply(flags);
            digest.agreement(&reply, u16::from(flags & 15), &mut Vec::new())
        };
        let (whole, but_for_ad) = (Agreement::Whole, Agreement::ButForAd);
        assert_eq!([of(plain, 0), of(plain, AD), of(plain, 3)], [whole, whole, Agreement::None]);
        let (secure, insecure) = (plain.covering_ad(0, true), plain.covering_ad(0, false));
        assert_eq!([of(secure, 0), of(secure, AD), of(secure, 3)], [but_for_ad, whole, Agreement::None]);
        assert_eq!([of(insecure, 0), of(insecure, AD)], [whole, but_for_ad]);
        let failed = Digest::of_none(2, false).covering_ad(2, true);
        assert_eq!([of(failed, 2), of(failed, AD | 2)], [whole, whole]);
        assert_eq!(Digest::from_number(secure.number(), secure.covers_ad()), secure);
    }

    #[test]
    fn of_an_error_only_the_rcode_counts() {
        let refused = digest([0x84, 5], &[record(OWNER, 1, 9, b"AAAA")]);
        assert_eq!(refused, Some(Digest::of_none(5, false)));
        assert_ne!(refused, Some(Digest::of_none(2, false)));
    }

    #[test]
    fn the_digest_is_the_one_that_the_documents_define() {
        // From the xxHash package of Python: the digests of 00 00 01, and of one record's canonical form.
        assert_eq!(Digest::of_none(0, true).number(), 0x6f15_e63f_b37c_575a);
        let digest = digest([0x84, 0], &[record(OWNER, 1, 9, &[198, 18, 0, 1])]).expect("a digest");
        assert_eq!(digest.number(), 0xc6a4_a1d1_5454_75f9);
    }
}
