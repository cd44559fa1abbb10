//! A certificate that is made for a server, with its issuer.

use std::ops::Range;
use std::str::FromStr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize,
};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use crate::error::TlsError;
use crate::server::Identity;

/// The type of a key that is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyType {
    /// ECDSA on P-256.
    #[default]
    Ecdsa,
    /// RSA with 2048 bits.
    Rsa,
}

impl FromStr for KeyType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ecdsa" => Ok(Self::Ecdsa),
            "rsa" => Ok(Self::Rsa),
            _ => Err("expected ecdsa or rsa".into()),
        }
    }
}

/// A certificate that was made, and the certificate of its issuer, which clients must trust.
#[derive(Clone, Debug)]
pub struct Made {
    /// The server's certificate and key.
    pub identity: Identity,
    /// The issuer's certificate, as PEM.
    pub ca: String,
}

/// The days from today in which a made certificate is valid.
const VALID_DAYS: Range<i64> = -1..366;

/// Makes a certificate for these names and addresses, and an issuer of its own.
pub fn make(key: KeyType, names: &[String]) -> Result<Made, TlsError> {
    make_valid(key, names, VALID_DAYS)
}

/// Makes a certificate that is valid from the first of these days to the last, counted from today.
pub fn make_valid(key: KeyType, names: &[String], days: Range<i64>) -> Result<Made, TlsError> {
    let params = |names: &[String]| -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = DistinguishedName::new();
        let now = OffsetDateTime::now_utc();
        params.not_before = now + Duration::days(days.start);
        params.not_after = now + Duration::days(days.end);
        Ok(params)
    };
    let issuer_key = pair(key)?;
    let mut of_issuer = params(&[])?;
    // Issuers of equal names would be confused: a client that trusts another one would report a bad signature.
    let identifier = of_issuer.key_identifier(&issuer_key);
    let number = identifier.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    of_issuer.distinguished_name.push(DnType::CommonName, format!("kqps issuer {number:016x}"));
    of_issuer.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    of_issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = of_issuer.self_signed(&issuer_key)?.pem();
    let issuer = Issuer::new(of_issuer, issuer_key);
    let mut of_server = params(names)?;
    of_server.distinguished_name.push(DnType::CommonName, "kqps server");
    of_server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    of_server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    of_server.use_authority_key_identifier_extension = true;
    let server_key = pair(key)?;
    let chain = of_server.signed_by(&server_key, &issuer)?.pem();
    Ok(Made { identity: Identity { chain, key: server_key.serialize_pem() }, ca })
}

fn pair(key: KeyType) -> Result<KeyPair, rcgen::Error> {
    match key {
        KeyType::Ecdsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        KeyType::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;
    use crate::key::key_type;

    #[test]
    fn a_made_certificate_has_the_key_that_was_asked_for() {
        for (key, name) in [(KeyType::Ecdsa, "ECDSA-P256"), (KeyType::Rsa, "RSA-2048")] {
            let made = make(key, &["localhost".into(), "127.0.0.1".into()]).unwrap();
            for text in [&made.identity.chain, &made.ca] {
                let certificate = CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
                assert_eq!(key_type(&certificate), name);
            }
            assert!(!format!("{:?}", made.identity).contains("PRIVATE KEY"));
        }
        assert!("dsa".parse::<KeyType>().is_err());
    }
}
