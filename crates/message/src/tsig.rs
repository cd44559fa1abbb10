//! TSIG (RFC 8945): the record that signs a message, where its fields stand, and which bytes its MAC covers. A query is
//! compiled with a record whose time and MAC are 0. Signing it fills them in and changes no length. The MAC itself is
//! computed by the caller.

use std::fmt;

use crate::header::{HEADER_BYTES, Header};
use crate::name::{self, NameError};
use crate::rtype;

/// How many seconds the clocks of both sides may differ (RFC 8945, section 10).
pub const FUDGE_S: u16 = 300;

/// The class ANY, which every TSIG record has (RFC 8945, section 4.2).
const CLASS_ANY: u16 = 255;
/// The bytes of the time, the fudge and the length of the MAC, which stand before it.
const BEFORE_MAC: usize = 10;
/// The bytes of the original ID, the error and the length of other data, which stand after the MAC.
const AFTER_MAC: usize = 6;
/// The longest MAC in bytes, that of SHA-512.
pub const MAC_BYTES_MAX: usize = 64;

/// The algorithm of a key's MACs (RFC 8945, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC-MD5, with which TSIG began (RFC 2845).
    Md5,
    /// HMAC-SHA1.
    Sha1,
    /// HMAC-SHA224.
    Sha224,
    /// HMAC-SHA256.
    Sha256,
    /// HMAC-SHA384.
    Sha384,
    /// HMAC-SHA512.
    Sha512,
}

impl Algorithm {
    /// The index among [`Self::ALL`].
    pub fn number(self) -> u8 {
        self as u8
    }

    /// All algorithms.
    pub const ALL: [Self; 6] =
        [Self::Md5, Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];

    /// The word in flags, such as `hmac-sha256`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Md5 => "hmac-md5",
            Self::Sha1 => "hmac-sha1",
            Self::Sha224 => "hmac-sha224",
            Self::Sha256 => "hmac-sha256",
            Self::Sha384 => "hmac-sha384",
            Self::Sha512 => "hmac-sha512",
        }
    }

    /// The algorithm with this word, in any case.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.word().eq_ignore_ascii_case(word))
    }

    /// The length of a MAC in bytes.
    pub fn mac_bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => MAC_BYTES_MAX,
        }
    }

    /// The name in a record, in presentation form (RFC 8945, section 6).
    fn name(self) -> &'static str {
        match self {
            Self::Md5 => "hmac-md5.sig-alg.reg.int",
            other => other.word(),
        }
    }
}

/// The name of a key with its algorithm, which is all of it but the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyName {
    algorithm: Algorithm,
    /// In wire form, in lower case.
    name: Box<[u8]>,
    /// The name of the algorithm, in wire form.
    algorithm_name: Box<[u8]>,
}

impl KeyName {
    /// The key with this name in presentation form. An empty name is the root.
    pub fn new(algorithm: Algorithm, text: &[u8]) -> Result<Self, NameError> {
        let wire = |text: &[u8]| {
            let mut wire = Vec::new();
            name::encode(if text.is_empty() { b"." } else { text }, &mut wire)?;
            Ok(wire.to_ascii_lowercase().into_boxed_slice())
        };
        Ok(Self { algorithm, name: wire(text)?, algorithm_name: wire(algorithm.name().as_bytes())? })
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The name in wire form, in lower case.
    pub fn wire(&self) -> &[u8] {
        &self.name
    }

    /// The length of a record with this name, in bytes.
    fn record_bytes(&self) -> usize {
        // Type, class, TTL and RDLENGTH take 10 bytes.
        self.name.len() + 10 + self.data_bytes()
    }

    fn data_bytes(&self) -> usize {
        self.algorithm_name.len() + BEFORE_MAC + self.algorithm.mac_bytes() + AFTER_MAC
    }

    /// Appends a record that [`Signing::sign`] can fill in, and adds 1 to ARCOUNT. Returns false and changes nothing if
    /// the message has no whole header, or if the count or the length would be above 65,535.
    pub fn append(&self, message: &mut Vec<u8>) -> bool {
        let count = Header::from_bytes(message).and_then(|header| header.additionals().checked_add(1));
        let Some(count) = count.filter(|_| u16::try_from(message.len() + self.record_bytes()).is_ok()) else {
            return false;
        };
        message[10..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
        message.extend_from_slice(&self.name);
        let data_bytes = u16::try_from(self.data_bytes()).expect("a message has 65,535 bytes at most");
        for word in [rtype::TSIG, CLASS_ANY, 0, 0, data_bytes] {
            message.extend_from_slice(&word.to_be_bytes());
        }
        message.extend_from_slice(&self.algorithm_name);
        message.extend_from_slice(&[0; 6]);
        let mac_bytes = self.algorithm.mac_bytes();
        for word in [FUDGE_S, u16::try_from(mac_bytes).expect("a MAC has 64 bytes at most")] {
            message.extend_from_slice(&word.to_be_bytes());
        }
        message.resize(message.len() + mac_bytes + AFTER_MAC, 0);
        true
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.algorithm.word(), name::NameText(&self.name))
    }
}

/// The data for signing messages to which [`KeyName::append`] added a record.
#[derive(Clone, Debug)]
pub struct Signing {
    /// The name of the key, its class, its TTL and the name of the algorithm (RFC 8945, section 4.3.3).
    variables: Box<[u8]>,
    record_bytes: usize,
    mac_bytes: usize,
}

impl Signing {
    /// Signing with a key of this name.
    pub fn new(key: &KeyName) -> Self {
        let fixed = [&CLASS_ANY.to_be_bytes()[..], &[0; 4]].concat();
        Self {
            variables: [&key.name, &fixed[..], &key.algorithm_name].concat().into(),
            record_bytes: key.record_bytes(),
            mac_bytes: key.algorithm.mac_bytes(),
        }
    }

    /// Signs a message whose last record [`KeyName::append`] added. `id` is its ID, whatever its header has.
    /// `time_s` counts seconds since 1970. `mac` returns the MAC of these parts, one after the other.
    pub fn sign<M: AsRef<[u8]>>(
        &self,
        message: &mut [u8],
        id: u16,
        time_s: u64,
        mac: impl FnOnce([&[u8]; 4]) -> M,
    ) {
        let Some(at) = message.len().checked_sub(self.record_bytes).filter(|at| *at >= HEADER_BYTES) else {
            return;
        };
        let Some(mut header) = message.first_chunk::<HEADER_BYTES>().copied() else { return };
        header[..2].copy_from_slice(&id.to_be_bytes());
        // The MAC covers the message as it was before the record (RFC 8945, section 4.3.2).
        let count = u16::from_be_bytes([header[10], header[11]]).wrapping_sub(1);
        header[10..].copy_from_slice(&count.to_be_bytes());
        let mut timers = [0; 12];
        timers[..6].copy_from_slice(&time_s.to_be_bytes()[2..]);
        timers[6..8].copy_from_slice(&FUDGE_S.to_be_bytes());
        let mac = mac([&header, &message[HEADER_BYTES..at], &self.variables, &timers]);
        let mac_at = message.len() - AFTER_MAC - self.mac_bytes;
        message[mac_at - BEFORE_MAC..][..6].copy_from_slice(&timers[..6]);
        message[mac_at..][..self.mac_bytes].copy_from_slice(mac.as_ref());
        message[mac_at + self.mac_bytes..][..2].copy_from_slice(&id.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> Vec<u8> {
        b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\x00\x01\x00\x01".to_vec()
    }

    #[test]
    fn a_record_has_the_bytes_of_rfc_8945() {
        let key = KeyName::new(Algorithm::Sha256, b"Key.Test").expect("a good name");
        let mut message = query();
        assert!(key.append(&mut message));
        let mut covered = Vec::new();
        Signing::new(&key).sign(&mut message, 0x1234, 0x0102_0304_0506, |parts| {
            covered = parts.concat();
            [7; 32]
        });
        let record = [
            &b"\x03key\x04test\0\x00\xfa\x00\xff\0\0\0\0\x00\x3d\x0bhmac-sha256\0"[..],
            b"\x01\x02\x03\x04\x05\x06\x01\x2c\x00\x20",
            &[7; 32],
            b"\x12\x34\0\0\0\0",
        ];
        let with_one_more = [&query()[..11], b"\x01", &query()[12..]].concat();
        assert_eq!(message, [with_one_more, record.concat()].concat());
        let variables =
            b"\x03key\x04test\0\x00\xff\0\0\0\0\x0bhmac-sha256\0\x01\x02\x03\x04\x05\x06\x01\x2c\0\0\0\0";
        assert_eq!(covered, [b"\x12\x34", &query()[2..], variables].concat());
    }

    #[test]
    fn algorithms_have_their_names_and_lengths() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::of_word(&algorithm.word().to_uppercase()), Some(algorithm));
            let mut message = query();
            assert!(KeyName::new(algorithm, b"").expect("the root").append(&mut message));
            assert_eq!(crate::record::end(&message), Some(message.len()), "{algorithm:?}");
        }
        assert_eq!(Algorithm::of_word("hmac-foo"), None);
        let md5 = KeyName::new(Algorithm::Md5, b"k").expect("a good name");
        assert_eq!(&*md5.algorithm_name, b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0");
    }

    #[test]
    fn what_has_no_room_stays_as_it_was() {
        let key = KeyName::new(Algorithm::Sha1, b"k").expect("a good name");
        for mut message in [vec![0; 11], vec![0xff; 12], vec![0; 65_500]] {
            let before = message.clone();
            assert!(!key.append(&mut message));
            assert_eq!(message, before);
        }
        Signing::new(&key).sign(&mut [0; 20], 0, 0, |_| -> [u8; 20] { panic!("there is no record") });
    }
}
