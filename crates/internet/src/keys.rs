//! Keys of zones. A zone has one key, for its key set and all else. Keys are functions of the seed and the zone, so anybody
//! can compute them: they protect nothing.

use aws_lc_rs::digest::{Context, SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use kqps_recipe::Stream;

use crate::cache::Cache;
use crate::ecdsa;
use crate::place::ZoneId;

/// RSASHA256 (RFC 5702).
pub(crate) const RSASHA256: u8 = 8;
/// ECDSAP256SHA256 (RFC 6605).
const ECDSAP256SHA256: u8 = 13;

/// The flags of a key that signs its zone's key set (RFC 4034, section 2.1.1).
const ZONE_KEY: u16 = 0x0101;
/// The protocol field of every DNSKEY record (RFC 4034, section 2.1.2).
const PROTOCOL: u8 = 3;
/// The digest type of DS records: SHA-256 (RFC 4509).
const DIGEST_SHA256: u8 = 2;

/// The private key of all zones with RSA, in the form of RFC 8017, appendix A.1.2. Making a key takes long, so it is made once
/// (`docs/design/decisions.md`); it signs nothing but zones of the box, and is no secret.
const RSA: &[u8] = include_bytes!("rsa.der");

/// The bytes of a private and of a public key of ECDSA.
const PRIVATE_BYTES: usize = 32;
const PUBLIC_BYTES: usize = 64;

/// Signatures that are kept for each key that is kept.
const SIGNATURES_PER_KEY: u32 = 4;

/// The keys of all zones.
#[derive(Debug)]
pub(crate) struct Keys {
    seed: u64,
    rsa: RsaKeyPair,
    /// The public key of RSA as a DNSKEY record has it.
    rsa_public: Vec<u8>,
    random: SystemRandom,
    /// Signatures by the digests of what they sign.
    signatures: Cache,
    /// Private and public keys of ECDSA by their zones.
    pairs: Cache,
}

/// A key of a zone.
#[derive(Clone, Debug)]
pub(crate) struct Key<'k> {
    pub(crate) algorithm: u8,
    pair: Pair<'k>,
}

#[derive(Clone, Debug)]
enum Pair<'k> {
    /// The public key of all zones with RSA.
    Rsa(&'k [u8]),
    Ecdsa {
        private: [u8; PRIVATE_BYTES],
        public: [u8; PUBLIC_BYTES],
    },
}

impl Keys {
    /// Keys of a seed. Room is kept for so many signatures.
    pub(crate) fn new(seed: u64, kept: u32) -> Self {
        let rsa = RsaKeyPair::from_der(RSA).expect("the file beside this one is a key");
        let rsa_public = rsa_public(&rsa).expect("the library writes DER");
        let [signatures, pairs] = [kept, kept / SIGNATURES_PER_KEY].map(|kept| Cache::new(kept as usize));
        Self { seed, rsa, rsa_public, random: SystemRandom::new(), signatures, pairs }
    }

    /// The key of a zone that is signed with an algorithm.
    pub(crate) fn key(&self, zone: ZoneId, algorithm: u8) -> Key<'_> {
        if algorithm == RSASHA256 {
            return Key { algorithm, pair: Pair::Rsa(&self.rsa_public) };
        }
        let (kind, number) = match zone {
            ZoneId::Root => (0_u8, 0),
            ZoneId::Tld(tld) => (1, u64::from(tld)),
            ZoneId::Company(company) => (2, u64::from(company)),
            ZoneId::Site(number) => (3, number),
        };
        let id = number << 2 | u64::from(kind);
        let place = u128::from(Stream::new(id).next()) << 64 | u128::from(id);
        let kept = self.pairs.get(place, |kept| {
            let (private, public) = kept.split_first_chunk::<PRIVATE_BYTES>()?;
            Some(Pair::Ecdsa { private: *private, public: *public.first_chunk()? })
        });
        let pair = kept.flatten().unwrap_or_else(|| {
            let private =
                ecdsa::private_key(&[b"kqps", &self.seed.to_be_bytes(), &[kind], &number.to_be_bytes()]);
            let public = ecdsa::public_key(&private).unwrap_or([0; PUBLIC_BYTES]);
            let mut both = [0; PRIVATE_BYTES + PUBLIC_BYTES];
            both[..PRIVATE_BYTES].copy_from_slice(&private);
            both[PRIVATE_BYTES..].copy_from_slice(&public);
            self.pairs.put(place, &both);
            Pair::Ecdsa { private, public }
        });
        Key { algorithm, pair }
    }

    /// Appends the signature of these bytes.
    pub(crate) fn sign(&self, key: &Key<'_>, bytes: &[u8], out: &mut Vec<u8>) {
        let hashed = digest(&SHA256, bytes);
        let hashed: &[u8; 32] = hashed.as_ref().try_into().expect("SHA-256 has 32 bytes");
        let place = hashed.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
        if self.signatures.get(place, |kept| out.extend_from_slice(kept)).is_some() {
            return;
        }
        let start = out.len();
        match &key.pair {
            Pair::Rsa(_) => {
                out.resize(start + self.rsa.public_modulus_len(), 0);
                let signed = self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, bytes, &mut out[start..]);
                signed.expect("the buffer has the length of the modulus");
            }
            Pair::Ecdsa { private, .. } => {
                out.extend_from_slice(&ecdsa::sign(private, hashed).unwrap_or([0; 64]));
            }
        }
        self.signatures.put(place, &out[start..]);
    }
}

/// The public key as a DNSKEY record has it (RFC 3110, section 2).
fn rsa_public(rsa: &RsaKeyPair) -> Option<Vec<u8>> {
    // A sequence of the modulus and the exponent (RFC 8017, appendix A.1.1).
    let (sequence, _) = element(rsa.public_key().as_ref())?;
    let (modulus, rest) = element(sequence)?;
    let (exponent, _) = element(rest)?;
    let mut public = vec![u8::try_from(exponent.len()).ok()?];
    public.extend_from_slice(exponent);
    public.extend_from_slice(&modulus[usize::from(modulus.first() == Some(&0))..]);
    Some(public)
}

/// The content of the first element of DER, and the bytes after it. Its tag is not looked at.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = der.get(1..)?.split_first()?;
    if length < 0x80 {
        return rest.split_at_checked(length.into());
    }
    let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
    rest.split_at_checked(bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)))
}

impl Key<'_> {
    fn public(&self) -> &[u8] {
        match &self.pair {
            Pair::Rsa(public) => public,
            Pair::Ecdsa { public, .. } => public,
        }
    }

    /// Appends the data of its DNSKEY record.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head());
        out.extend_from_slice(self.public());
    }

    /// Its tag (RFC 4034, appendix B).
    pub(crate) fn tag(&self) -> u16 {
        let head = self.head();
        let data = head.iter().chain(self.public());
        let sum: u32 = (0_u32..)
            .zip(data)
            .map(|(place, byte)| if place & 1 == 0 { u32::from(*byte) << 8 } else { u32::from(*byte) })
            .sum();
        let [_, _, high, low] = (sum + (sum >> 16)).to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Flags, protocol and algorithm, with which the data of its record begins.
    fn head(&self) -> [u8; 4] {
        let [high, low] = ZONE_KEY.to_be_bytes();
        [high, low, PROTOCOL, self.algorithm]
    }

    /// Appends the data of its DS record (RFC 4034, section 5.1) in the zone above. `owner` is the zone's name.
    pub(crate) fn write_ds(&self, owner: &[u8], out: &mut Vec<u8>) {
        let mut hashed = Context::new(&SHA256);
        for part in [owner, &self.head(), self.public()] {
            hashed.update(part);
        }
        out.extend_from_slice(&self.tag().to_be_bytes());
        out.extend_from_slice(&[self.algorithm, DIGEST_SHA256]);
        out.extend_from_slice(hashed.finish().as_ref());
    }
}

/// Whether a number is an algorithm that keys can have.
pub(crate) fn is_known(algorithm: f64) -> bool {
    [RSASHA256, ECDSAP256SHA256].map(f64::from).contains(&algorithm)
}
