//! Certificates that are made for servers, with their issuer.

use std::ops::Range;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize,
};
use time::{Duration, OffsetDateTime};

use crate::error::TlsError;
use crate::server::Identity;
pub use kqps_catalogue::choice::KeyType;

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
    let authority = Authority::valid(key, days)?;
    Ok(Made { identity: authority.issue(key, names)?, ca: authority.certificate })
}

/// An issuer of certificates. Its key stays in this value.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    days: Range<i64>,
}

impl Authority {
    /// An issuer with a key of this type.
    pub fn new(key: KeyType) -> Result<Self, TlsError> {
        Self::valid(key, VALID_DAYS)
    }

    /// An issuer that is valid on these days, counted from today, as are its certificates.
    fn valid(key: KeyType, days: Range<i64>) -> Result<Self, TlsError> {
        let key = pair(key)?;
        let mut params = params(&[], &days)?;
        // Issuers of equal names would be confused: a client that trusts another one would report a bad signature.
        let identifier = params.key_identifier(&key);
        let number = identifier.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        params.distinguished_name.push(DnType::CommonName, format!("kqps issuer {number:016x}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, days })
    }

    /// Its certificate, which clients must trust, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Makes a certificate with a key of this type for a server of these names and addresses.
    pub fn issue(&self, key: KeyType, names: &[String]) -> Result<Identity, TlsError> {
        let mut params = params(names, &self.days)?;
        params.distinguished_name.push(DnType::CommonName, "kqps server");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = pair(key)?;
        let chain = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { chain, key: key.serialize_pem() })
    }
}

fn params(names: &[String], days: &Range<i64>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    let now = OffsetDateTime::now_utc();
    params.not_before = now + Duration::days(days.start);
    params.not_after = now + Duration::days(days.end);
    Ok(params)
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

    #[test]
    fn one_issuer_makes_certificates_of_each_type() {
        let authority = Authority::new(KeyType::Ecdsa).unwrap();
        for (key, name) in [(KeyType::Ecdsa, "ECDSA-P256"), (KeyType::Rsa, "RSA-2048")] {
            let identity = authority.issue(key, &["::1".into()]).unwrap();
            let certificate = CertificateDer::from_pem_slice(identity.chain.as_bytes()).unwrap();
            assert_eq!(key_type(&certificate), name);
        }
        let issuer = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap();
        assert_eq!(key_type(&issuer), "ECDSA-P256");
        assert!(!format!("{authority:?}").contains("PRIVATE KEY"));
    }
}
