//! The type of the key in a certificate.

use kqps_catalogue::choice::KeyType;
use rustls::SignatureScheme;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;

/// Whether keys of this type sign by this scheme.
pub(crate) fn signs_by(key: KeyType, scheme: SignatureScheme) -> bool {
    use SignatureScheme as By;
    match key {
        KeyType::Ecdsa => matches!(
            scheme,
            By::ECDSA_NISTP256_SHA256 | By::ECDSA_NISTP384_SHA384 | By::ECDSA_NISTP521_SHA512
        ),
        KeyType::Rsa => matches!(
            scheme,
            By::RSA_PKCS1_SHA256
                | By::RSA_PKCS1_SHA384
                | By::RSA_PKCS1_SHA512
                | By::RSA_PSS_SHA256
                | By::RSA_PSS_SHA384
                | By::RSA_PSS_SHA512
        ),
    }
}

/// Whether the key of a certificate is of this type.
pub(crate) fn has_key(certificate: &CertificateDer<'_>, key: KeyType) -> bool {
    let name = match key {
        KeyType::Ecdsa => "ECDSA",
        KeyType::Rsa => "RSA",
    };
    key_type(certificate).starts_with(name)
}

/// The types of keys by what their description begins with: an object identifier of an algorithm or a curve, in DER.
const KEY_TYPES: [(&[u8], &str); 4] = [
    (&[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], "ECDSA-P256"),
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22], "ECDSA-P384"),
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23], "ECDSA-P521"),
    (&[0x06, 0x03, 0x2b, 0x65, 0x70], "Ed25519"),
];

/// The algorithm of RSA keys (RFC 8017, appendix C).
const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// The bytes of the description of an RSA key, beside those of its modulus, if its exponent is 65537.
const RSA_OTHER_BYTES: usize = 38;

/// The algorithm and its parameters are in so many first bytes of a key's description.
const ALGORITHM_BYTES: usize = 32;

/// The type of a certificate's key, such as `ECDSA-P256` or `RSA-2048`.
pub(crate) fn key_type(certificate: &CertificateDer<'_>) -> &'static str {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return "unknown" };
    let key = parsed.subject_public_key_info();
    let bytes: &[u8] = key.as_ref();
    let head = &bytes[..bytes.len().min(ALGORITHM_BYTES)];
    let has = |identifier: &[u8]| head.windows(identifier.len()).any(|part| part == identifier);
    if has(RSA) {
        let bits = bytes.len().saturating_sub(RSA_OTHER_BYTES) * 8;
        return match bits {
            2048 => "RSA-2048",
            3072 => "RSA-3072",
            4096 => "RSA-4096",
            _ => "RSA",
        };
    }
    KEY_TYPES.iter().find(|(identifier, _)| has(identifier)).map_or("unknown", |&(_, name)| name)
}
