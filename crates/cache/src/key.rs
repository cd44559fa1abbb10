//! The key of an entry: a question with its name in lower case, and the hash of both.

use kqps_message::name::{self, NAME_BYTES_MAX};
use kqps_message::rtype;
use siphasher::sip::SipHasher13;

const DNSSEC_OK: u8 = 1;
const CHECKING_DISABLED: u8 = 2;
/// The bits above those of the flags hold the kind.
const KIND_SHIFT: u32 = 2;

const MULTIPLIER: u64 = 0xa076_1d64_78bd_642f;
const SPREAD: u64 = 0xe703_7ed1_a0b4_28db;

/// A question, and what of its query the answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'q> {
    /// The name in wire form without pointers, in any case.
    pub name: &'q [u8],
    /// The type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
    /// DO: whether the client asks for DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// CD: whether the client asks the server not to validate (RFC 4035, section 3.2.2).
    pub checking_disabled: bool,
}

/// The kinds of entries that a question may have at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A reply for one type.
    Data = 0,
    /// A reply that denies the name, for all types (RFC 2308, section 5).
    NameError = 1,
    /// A failure (RFC 9520).
    Failure = 2,
    /// A reply whose chain of aliases goes on elsewhere, which answers no query.
    Part = 3,
}

impl Kind {
    /// The number of kinds.
    pub(crate) const COUNT: usize = 4;

    fn number(self) -> u8 {
        self as u8
    }

    /// The kind in the flags of a key.
    pub(crate) fn from_flags(flags: u8) -> Self {
        match flags >> KIND_SHIFT {
            0 => Self::Data,
            1 => Self::NameError,
            2 => Self::Failure,
            _ => Self::Part,
        }
    }
}

/// A question in the form in which entries are found: its name in lower case, with a hash.
#[derive(Clone, Debug)]
pub struct Key {
    name: [u8; NAME_BYTES_MAX],
    name_bytes: u8,
    name_hash: u64,
    pub(crate) rtype: u16,
    pub(crate) class: u16,
    flags: u8,
}

impl Key {
    /// The key of a question; `None` if its name is malformed.
    #[inline]
    pub(crate) fn from_question(question: &Question<'_>, hasher: &SipHasher13) -> Option<Self> {
        let length = name::literal_end(question.name, 0).filter(|&end| end == question.name.len())?;
        let mut name = [0; NAME_BYTES_MAX];
        name[..length].copy_from_slice(question.name);
        // Length bytes (0 to 63) are smaller than any letter.
        name[..length].make_ascii_lowercase();
        let mut flags = 0;
        if question.dnssec_ok {
            flags |= DNSSEC_OK;
        }
        if question.checking_disabled {
            flags |= CHECKING_DISABLED;
        }
        let name_hash = hasher.hash(&name[..length]);
        let Question { rtype, class, .. } = *question;
        // A name has 255 bytes at most.
        let [name_bytes, ..] = length.to_le_bytes();
        Some(Self { name, name_bytes, name_hash, rtype, class, flags })
    }

    /// The name in wire form and in lower case.
    #[inline]
    pub fn name(&self) -> &[u8] {
        &self.name[..usize::from(self.name_bytes)]
    }

    /// The question, with its name in lower case.
    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            name: self.name(),
            rtype: self.rtype,
            class: self.class,
            dnssec_ok: self.dnssec_ok(),
            checking_disabled: self.flags & CHECKING_DISABLED != 0,
        }
    }

    /// The hash of the name alone. The entries of all questions about a name are in one shard.
    pub(crate) fn name_hash(&self) -> u64 {
        self.name_hash
    }

    pub(crate) fn dnssec_ok(&self) -> bool {
        self.flags & DNSSEC_OK != 0
    }

    /// The type in an entry of this kind: a denied name has no type. DS records stand in the zone above, which may deny a
    /// name that the zone itself has.
    pub(crate) fn rtype_of(&self, kind: Kind) -> u16 {
        if kind == Kind::NameError && self.rtype != rtype::DS { 0 } else { self.rtype }
    }

    /// The flags of an entry of this kind.
    pub(crate) fn flags_of(&self, kind: Kind) -> u8 {
        self.flags | kind.number() << KIND_SHIFT
    }

    /// The hash of an entry of this kind.
    #[inline]
    pub(crate) fn hash(&self, kind: Kind) -> u64 {
        spread(self.name_hash, self.rtype_of(kind), self.class, self.flags_of(kind))
    }
}

/// The hash of an entry from its parts, equal to that of its key.
pub(crate) fn hash_of(hasher: &SipHasher13, name: &[u8], rtype: u16, class: u16, flags: u8) -> u64 {
    spread(hasher.hash(name), rtype, class, flags)
}

/// Combines the hash of a name, which only the holder of the secret can foresee, with the rest of a key.
fn spread(name_hash: u64, rtype: u16, class: u16, flags: u8) -> u64 {
    let rest = u64::from(rtype) | u64::from(class) << 16 | u64::from(flags) << 32;
    let product = u128::from(name_hash ^ rest.wrapping_mul(SPREAD)) * u128::from(MULTIPLIER);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: Question<'_> = Question {
        name: b"\x03wWw\x04Test\0",
        rtype: 1,
        class: 1,
        dnssec_ok: false,
        checking_disabled: false,
    };

    #[test]
    fn case_does_not_matter_and_everything_else_does() {
        let hasher = SipHasher13::new_with_keys(1, 2);
        let hash = |question: Question<'_>| Key::from_question(&question, &hasher).unwrap().hash(Kind::Data);
        let hash_of_it = hash(QUESTION);
        assert_eq!(hash(Question { name: b"\x03WWW\x04tEST\0", ..QUESTION }), hash_of_it);
        for other in [
            Question { name: b"\x03www\x04tesu\0", ..QUESTION },
            Question { rtype: 28, ..QUESTION },
            Question { class: 3, ..QUESTION },
            Question { dnssec_ok: true, ..QUESTION },
            Question { checking_disabled: true, ..QUESTION },
        ] {
            assert_ne!(hash(other), hash_of_it, "{other:?}");
        }
        let other_secret = SipHasher13::new_with_keys(1, 3);
        assert_ne!(Key::from_question(&QUESTION, &other_secret).unwrap().hash(Kind::Data), hash_of_it);
    }

    #[test]
    fn a_denied_name_has_one_entry_for_all_types_of_its_zone() {
        let hasher = SipHasher13::new_with_keys(1, 2);
        let [a, aaaa] =
            [1, 28].map(|rtype| Key::from_question(&Question { rtype, ..QUESTION }, &hasher).unwrap());
        assert_eq!(a.hash(Kind::NameError), aaaa.hash(Kind::NameError));
        let ds = Key::from_question(&Question { rtype: rtype::DS, ..QUESTION }, &hasher).unwrap();
        assert_ne!(a.hash(Kind::NameError), ds.hash(Kind::NameError));
        assert_ne!(a.hash(Kind::Failure), aaaa.hash(Kind::Failure));
        assert_ne!(a.hash(Kind::Failure), a.hash(Kind::Data));
    }

    #[test]
    fn the_hash_follows_from_the_parts() {
        let hasher = SipHasher13::new_with_keys(1, 2);
        let key = Key::from_question(&Question { dnssec_ok: true, ..QUESTION }, &hasher).unwrap();
        for kind in [Kind::Data, Kind::NameError, Kind::Failure, Kind::Part] {
            let flags = key.flags_of(kind);
            assert_eq!(Kind::from_flags(flags), kind);
            let hash = hash_of(&hasher, key.name(), key.rtype_of(kind), key.class, flags);
            assert_eq!(hash, key.hash(kind));
        }
    }

    #[test]
    fn a_malformed_name_has_no_key() {
        let hasher = SipHasher13::new_with_keys(1, 2);
        for name in [&b""[..], b"\x03www", b"\x03www\0\0", b"\xc0\x0c", b"\x03www\xc0\x0c"] {
            assert!(Key::from_question(&Question { name, ..QUESTION }, &hasher).is_none(), "{name:x?}");
        }
        let long = [&b"\x3fabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"[..]; 4].concat();
        let long = [&long[..], b"\0"].concat();
        assert!(Key::from_question(&Question { name: &long, ..QUESTION }, &hasher).is_none());
    }
}
