//! Signs each query with a TSIG key (RFC 8945) at the time at which it is sent.

use ::hmac::{Hmac, KeyInit as _, Mac as _};
use aws_lc_rs::hmac;
use kqps_kernel::clock;
use kqps_message::tsig::{Algorithm, MAC_BYTES_MAX, Signing};
use md5::Md5;

use crate::plan::TsigKey;

/// Signs queries with one key.
pub(super) struct Signer {
    signing: Signing,
    key: Key,
}

/// A key with its algorithm.
enum Key {
    Sha(Box<hmac::Key>),
    /// aws-lc-rs has no MD5, with which TSIG began.
    Md5(Box<Hmac<Md5>>),
}

/// A MAC and its length.
struct MacBytes([u8; MAC_BYTES_MAX], usize);

impl AsRef<[u8]> for MacBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl Signer {
    /// A signer with this key; `None` if its name or algorithm is none.
    pub(super) fn new(key: &TsigKey) -> Option<Self> {
        let name = key.key_name()?;
        let sha = |algorithm| Key::Sha(Box::new(hmac::Key::new(algorithm, &key.secret)));
        let key = match name.algorithm() {
            Algorithm::Md5 => Key::Md5(Box::new(Hmac::new_from_slice(&key.secret).ok()?)),
            Algorithm::Sha1 => sha(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            Algorithm::Sha224 => sha(hmac::HMAC_SHA224),
            Algorithm::Sha256 => sha(hmac::HMAC_SHA256),
            Algorithm::Sha384 => sha(hmac::HMAC_SHA384),
            Algorithm::Sha512 => sha(hmac::HMAC_SHA512),
        };
        Some(Self { signing: Signing::new(&name), key })
    }

    /// Signs a query that is sent with this ID.
    pub(super) fn sign(&self, message: &mut [u8], id: u16) {
        self.signing.sign(message, id, clock::wall_s(), |parts| self.mac(parts));
    }

    fn mac(&self, parts: [&[u8]; 4]) -> MacBytes {
        let mut mac = MacBytes([0; MAC_BYTES_MAX], 0);
        let mut take = |bytes: &[u8]| {
            mac.0[..bytes.len()].copy_from_slice(bytes);
            mac.1 = bytes.len();
        };
        match &self.key {
            Key::Sha(key) => {
                let mut context = hmac::Context::with_key(key);
                for part in parts {
                    context.update(part);
                }
                take(context.sign().as_ref());
            }
            Key::Md5(key) => {
                let mut context = Hmac::clone(key);
                for part in parts {
                    context.update(part);
                }
                take(&context.finalize().into_bytes());
            }
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The MAC of RFC 2202 and RFC 4231, test case 2: key `Jefe`, data `what do ya want for nothing?`, in hex.
    #[test]
    fn macs_are_those_of_the_rfcs() {
        for (algorithm, expected) in [
            ("hmac-md5", "750c783e6ab0b503eaa86e310a5db738"),
            ("hmac-sha1", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            ("hmac-sha224", "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44"),
            ("hmac-sha256", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ] {
            let key = TsigKey { algorithm: algorithm.into(), name: "k".into(), secret: b"Jefe".to_vec() };
            let mac = Signer::new(&key).unwrap().mac([b"what do ya ", b"want for ", b"nothing", b"?"]);
            let hex: Vec<String> = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex.concat(), expected, "{algorithm}");
        }
        let long = |word: &str| {
            let key = TsigKey { algorithm: word.into(), name: "k".into(), secret: vec![1; 200] };
            Signer::new(&key).unwrap().mac([b"", b"", b"", b""]).1
        };
        assert_eq!((long("hmac-sha384"), long("hmac-sha512")), (48, 64));
    }
}
