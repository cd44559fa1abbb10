//! The certificate of a subject on its way to the subject's host, and its files there.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use kqps_testbed::certificates::ServerCertificate;

/// A server's certificate by value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificatePem {
    /// The certificate, as PEM.
    pub chain: String,
    /// Its private key, as PEM.
    pub key: String,
    /// The certificate of the issuer, which clients must trust, as PEM.
    pub ca: String,
}

impl std::fmt::Debug for CertificatePem {
    /// Leaves out the private key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CertificatePem").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl CertificatePem {
    /// Reads a certificate from its files.
    pub fn read(certificate: &ServerCertificate) -> io::Result<Self> {
        Ok(Self {
            chain: fs::read_to_string(&certificate.chain)?,
            key: fs::read_to_string(&certificate.key)?,
            ca: certificate.ca.clone(),
        })
    }

    /// Writes it into files of a folder that no other user can open.
    pub(super) fn write(&self, folder: &Path, start: u64) -> io::Result<ServerCertificate> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let file = |ending: &str| folder.join(format!("{start}.{ending}"));
        let (chain, key) = (file("pem"), file("key"));
        fs::write(&chain, &self.chain)?;
        let mut for_owner = File::options();
        for_owner.write(true).create(true).truncate(true).mode(0o600);
        for_owner.open(&key)?.write_all(self.key.as_bytes())?;
        Ok(ServerCertificate { chain, key, ca: self.ca.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_certificate_arrives_in_files_that_are_the_owners_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let sent = CertificatePem { chain: "chain".into(), key: "secret".into(), ca: "issuer".into() };
        let folder = temporary.path().join("certificates");
        let written = sent.write(&folder, 7).unwrap();
        assert_eq!(CertificatePem::read(&written).unwrap(), sent);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&written.key)), (0o700, 0o600));
        assert!(!format!("{sent:?}").contains("secret"));
    }
}
