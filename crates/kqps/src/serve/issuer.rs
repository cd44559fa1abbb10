//! The file with the issuer of a certificate that a server made for itself, in the folder for temporary files. The
//! server holds a lock on it and removes it at its end. A server that is killed leaves it behind without the lock, and
//! the next one that makes such a file removes it.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;
use kqps_kernel::process::effective_user;
use tempfile::NamedTempFile;

/// The ends of the file's name. No other program, and no earlier version of kqps, has files of such names.
const PREFIX: &str = "kqps-issuer-";
const SUFFIX: &str = ".pem";

/// A file with a certificate and no key, which other users may read. It is removed when this is dropped.
pub(super) struct IssuerFile(NamedTempFile);

impl IssuerFile {
    /// Writes the certificate, PEM, to a new file, and removes the files of servers that are gone.
    pub(super) fn write(certificate: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir();
        remove_left_behind(&folder);
        let failed = || format!("the issuer of the certificate cannot be written to {}", folder.display());
        Self::locked(&folder, certificate).with_context(failed)
    }

    fn locked(folder: &Path, certificate: &str) -> io::Result<Self> {
        loop {
            let mut file = tempfile::Builder::new().prefix(PREFIX).suffix(SUFFIX).tempfile_in(folder)?;
            // Some file systems have no locks. Then no server removes the files of others either.
            let _ = file.as_file().lock();
            // Another server may have taken the file for one that was left behind before this one had locked it.
            if file.as_file().metadata()?.nlink() == 0 {
                continue;
            }
            file.as_file().set_permissions(Permissions::from_mode(0o644))?;
            file.write_all(certificate.as_bytes())?;
            return Ok(Self(file));
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Removes the files of this user's servers that are gone. A file that cannot be removed stays.
fn remove_left_behind(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes()) {
            let _ = remove_unless_locked(&entry.path());
        }
    }
}

fn remove_unless_locked(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() || found.uid() != effective_user() {
        return Ok(());
    }
    match File::open(path)?.try_lock() {
        Ok(()) => fs::remove_file(path),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
