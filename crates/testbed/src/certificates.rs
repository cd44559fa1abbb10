//! The certificates of a run's subjects, and the issuer that its player trusts. They are made anew in each session, in
//! a folder of their own that ends with it, so that no private key is in the folder of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use kqps_files::unfinished::Unfinished;
use kqps_observation::Cell;
use kqps_observation::factors::CertificateType;
use kqps_tls::TlsError;
use kqps_tls::certificate::{Authority, KeyType};
use tempfile::TempDir;

use crate::path::subject_addresses;

/// Certificates of one issuer, in files.
#[derive(Debug)]
pub struct Certificates {
    made: BTreeMap<CertificateType, ServerCertificate>,
    _folder: TempDir,
    _unfinished: Unfinished,
}

/// A server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The file with the certificate, as PEM.
    pub chain: PathBuf,
    /// The file with its key, as PEM.
    pub key: PathBuf,
    /// The certificate of the issuer, which clients must trust, as PEM.
    pub ca: String,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// They could not be made.
    #[error(transparent)]
    Make(#[from] TlsError),
    /// They could not be written.
    #[error("writing certificates for the subjects: {0}")]
    Write(#[from] io::Error),
}

impl Certificates {
    /// Makes a certificate of each of these types, all by one new issuer. They name localhost and the addresses that
    /// subjects listen on.
    pub fn make(types: impl IntoIterator<Item = CertificateType>) -> Result<Self, CertificatesError> {
        Self::make_at(types, &[])
    }

    /// As [`Certificates::make`], for subjects that listen on addresses of other hosts as well.
    fn make_at(
        types: impl IntoIterator<Item = CertificateType>,
        elsewhere: &[IpAddr],
    ) -> Result<Self, CertificatesError> {
        let (folder, unfinished) = Unfinished::made(tempfile::tempdir)?;
        let authority = Authority::new(KeyType::Ecdsa)?;
        let ca = authority.certificate().to_owned();
        let here = subject_addresses().into_iter().chain([Ipv6Addr::LOCALHOST.into()]);
        let addresses = here.chain(elsewhere.iter().copied());
        let names: Vec<String> =
            addresses.map(|address| address.to_string()).chain(["localhost".to_owned()]).collect();
        let mut made = BTreeMap::new();
        for certificate in types {
            let identity = authority.issue(key_type(certificate), &names)?;
            let file = |ending: &str| folder.path().join(format!("{}.{ending}", certificate.word()));
            let (chain, key) = (file("pem"), file("key"));
            fs::write(&chain, &identity.chain)?;
            fs::write(&key, &identity.key)?;
            made.insert(certificate, ServerCertificate { chain, key, ca: ca.clone() });
        }
        Ok(Self { made, _folder: folder, _unfinished: unfinished })
    }

    /// Makes those that the subjects of cells need, which may listen on addresses of other hosts as well; `None` if
    /// none is started over an encrypted transport.
    pub fn of_cells(cells: &[Cell], elsewhere: &[IpAddr]) -> Result<Option<Self>, CertificatesError> {
        let needs = |cell: &&Cell| cell.target.is_none() && cell.factors.transport().is_encrypted();
        let types: BTreeSet<CertificateType> = cells.iter().filter(needs).map(certificate_of).collect();
        if types.is_empty() { Ok(None) } else { Self::make_at(types, elsewhere).map(Some) }
    }

    /// The certificate of this type, if it was made.
    pub fn certificate(&self, certificate: CertificateType) -> Option<&ServerCertificate> {
        self.made.get(&certificate)
    }
}

/// The type of the certificate that a cell's subject has.
pub fn certificate_of(cell: &Cell) -> CertificateType {
    cell.factors.certificate().unwrap_or_default()
}

fn key_type(certificate: CertificateType) -> KeyType {
    match certificate {
        CertificateType::EcdsaP256 => KeyType::Ecdsa,
        CertificateType::Rsa2048 => KeyType::Rsa,
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Target;
    use kqps_tls::{Acceptor, Identity};

    use super::*;

    #[test]
    fn each_type_has_files_that_a_server_can_use_and_that_end_with_the_run() {
        let certificates =
            Certificates::make([CertificateType::EcdsaP256, CertificateType::Rsa2048]).unwrap();
        let [ecdsa, rsa] = [CertificateType::EcdsaP256, CertificateType::Rsa2048]
            .map(|one| certificates.certificate(one).unwrap().clone());
        assert_eq!(ecdsa.ca, rsa.ca, "one issuer");
        assert!(!ecdsa.ca.contains("PRIVATE"));
        for one in [&ecdsa, &rsa] {
            Acceptor::new(&Identity::read(&one.chain, &one.key).unwrap()).unwrap();
        }
        drop(certificates);
        assert!(!ecdsa.key.exists() && !rsa.chain.exists());
    }

    #[test]
    fn only_subjects_that_are_started_over_tls_need_one() {
        let cell = |words: &[(&str, &str)]| {
            let mut cell = Cell::default();
            for (name, word) in words {
                cell.factors.set(name, *word).unwrap();
            }
            cell
        };
        let tls = cell(&[("player.transport", "tls"), ("subject.certificate", "rsa-2048")]);
        let target = Some(Target { address: "127.0.0.1:853".parse().unwrap(), on_this_host: true });
        let running = Cell { target, ..tls.clone() };
        assert!(Certificates::of_cells(&[cell(&[]), running], &[]).unwrap().is_none());
        let made = Certificates::of_cells(&[cell(&[]), tls], &[]).unwrap().unwrap();
        assert!(
            made.certificate(CertificateType::Rsa2048).is_some()
                && made.certificate(CertificateType::EcdsaP256).is_none()
        );
    }
}
