//! Types of certificates that a client offers and a server has not, and suites that QUIC has not.

use super::*;

#[test]
fn a_certificate_with_a_key_of_another_type_is_refused() {
    for (key, other) in [(KeyType::Ecdsa, KeyType::Rsa), (KeyType::Rsa, KeyType::Ecdsa)] {
        let made = make(key, &[NAME.into()]).unwrap();
        for trust in [Trust::Ca(made.ca.clone()), Trust::Anyone] {
            for suite in [None, Some("TLS_AES_128_GCM_SHA256")] {
                let suites: Vec<_> = suite.iter().map(|suite| suite.parse().unwrap()).collect();
                let of = |key| ClientSettings {
                    certificate: Some(key),
                    suites: suites.clone(),
                    ..settings(trust.clone())
                };
                assert_eq!(failures(&made, &of(key), NAME), (None, None));
                // The server has no signature that the client takes.
                let (of_client, of_server) = failures(&made, &of(other), NAME);
                assert_eq!(of_client, Some(Failure::Alert(40)));
                assert!(of_server.is_some());
            }
        }
    }
}

#[test]
fn a_certificate_of_another_type_that_comes_in_spite_of_the_offer_is_named() {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    let made = make(KeyType::Rsa, &[NAME.into()]).unwrap();
    let wants = ClientSettings { certificate: Some(KeyType::Ecdsa), ..settings(Trust::Anyone) };
    let verifier = crate::client::tests::verifier_of(&wants);
    let certificate = CertificateDer::from_pem_slice(made.identity.chain.as_bytes()).unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let refused = verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now()).unwrap_err();
    assert_eq!(Failure::from(refused).to_string(), "certificate: a key of another type than asked for");
}

#[test]
fn quic_needs_a_suite_of_tls_1_3() {
    let of = |suites: &[&str]| ClientSettings {
        suites: suites.iter().map(|suite| suite.parse().unwrap()).collect(),
        ..settings(Trust::Anyone)
    };
    let old = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
    let refused = Client::over_quic(&of(&[old])).unwrap_err().to_string();
    assert!(refused.starts_with("QUIC needs a suite of TLS 1.3") && refused.ends_with(old), "{refused}");
    assert!(Client::over_quic(&of(&[old, "TLS_AES_128_GCM_SHA256"])).is_ok());
    assert!(Client::over_quic(&of(&[])).is_ok());
}
