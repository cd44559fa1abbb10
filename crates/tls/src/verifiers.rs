//! Verifiers of a server's certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use crate::key::{has_key, signs_by};
use kqps_catalogue::choice::KeyType;

/// Accepts certificates of some issuers, and certificates that are trusted themselves, for their names and within their
/// dates. A certificate that signs itself is often that of an issuer, too (`openssl req -x509`), and no server could
/// use it otherwise.
#[derive(Debug)]
pub(crate) struct Trusting {
    of_issuers: Arc<WebPkiServerVerifier>,
    /// The trusted certificates.
    all: Vec<CertificateDer<'static>>,
}

impl Trusting {
    /// Trusts `all`, which are also the issuers in `roots`. Fails if there are none.
    pub(crate) fn new(
        roots: RootCertStore,
        all: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        Ok(Self { of_issuers: builder.build()?, all })
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let checked = self.of_issuers.verify_server_cert(certificate, others, name, ocsp, now);
        // webpki checks the dates before all that a trusted certificate need not have.
        let is_settled = checked.as_ref().map_or_else(is_about_dates, |_| true);
        if is_settled || !self.all.iter().any(|trusted| **trusted == **certificate) {
            return checked;
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_issuers.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_issuers.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_issuers.supported_verify_schemes()
    }
}

/// Whether a certificate is refused since it is not valid now.
fn is_about_dates(error: &Error) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let Error::InvalidCertificate(fault) = error else { return false };
    matches!(fault, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}

/// Accepts every certificate. What the server signs with it is checked, as any client does.
#[derive(Debug)]
pub(crate) struct Unchecked(WebPkiSupportedAlgorithms);

impl Unchecked {
    pub(crate) fn new(provider: &CryptoProvider) -> Self {
        Self(provider.signature_verification_algorithms)
    }
}

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Accepts what another verifier accepts, if the key in the certificate is of one type. It offers the signatures of this
/// type alone, by which a server with several certificates chooses one.
#[derive(Debug)]
pub(crate) struct OfType {
    of_any_type: Arc<dyn ServerCertVerifier>,
    key: KeyType,
}

impl OfType {
    pub(crate) fn new(of_any_type: Arc<dyn ServerCertVerifier>, key: KeyType) -> Self {
        Self { of_any_type, key }
    }
}

/// The fault of a certificate with a key of another type.
#[derive(Debug, thiserror::Error)]
#[error("{}", Self::TEXT)]
pub(crate) struct AnotherType;

impl AnotherType {
    /// Its text among the faults of certificates.
    pub(crate) const TEXT: &str = "AnotherTypeOfKey";
}

impl ServerCertVerifier for OfType {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !has_key(certificate, self.key) {
            let fault = CertificateError::Other(OtherError(Arc::new(AnotherType)));
            return Err(Error::InvalidCertificate(fault));
        }
        self.of_any_type.verify_server_cert(certificate, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_any_type.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_any_type.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.of_any_type.supported_verify_schemes();
        schemes.retain(|scheme| signs_by(self.key, *scheme));
        schemes
    }
}
