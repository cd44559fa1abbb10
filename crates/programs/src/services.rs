//! Debian packages that are installed without a start of their services.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kqps_files::unfinished::Unfinished;

/// The program that Debian asks before it starts a newly installed service.
const POLICY_PATH: &str = "/usr/sbin/policy-rc.d";

/// As long as it lives, installed packages start no service.
#[derive(Debug)]
pub struct NoServices {
    /// Our policy file, which is removed at the end; `None` if the host has a policy of its own, which stays.
    ours: Option<(PathBuf, Unfinished)>,
}

/// `invoke-rc.d` reads status 101 as "this action is not allowed".
const POLICY: &str =
    "#!/bin/sh\n# Written by kqps while it installs packages, and removed afterwards.\nexit 101\n";

impl NoServices {
    /// Forbids services, unless the host has a policy of its own, which stays.
    pub fn begin() -> io::Result<Self> {
        Self::set(Path::new(POLICY_PATH))
    }

    fn ours(path: &Path) -> Self {
        Self { ours: Some((path.into(), Unfinished::at(path))) }
    }

    fn set(path: &Path) -> io::Result<Self> {
        match fs::read_to_string(path) {
            // Left from a kqps that was killed.
            Ok(found) if found == POLICY => Ok(Self::ours(path)),
            Ok(_) => Ok(Self { ours: None }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::write(path, POLICY)?;
                let policy = Self::ours(path);
                fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
                Ok(policy)
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.ours {
            // The error has no reader. The next run finds the file and removes it as its own.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_policy_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy-rc.d");
        drop(NoServices::set(&path).unwrap());
        assert!(!path.exists());

        fs::write(&path, POLICY).unwrap();
        drop(NoServices::set(&path).unwrap());
        assert!(!path.exists(), "a policy that was left behind is removed");

        fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        drop(NoServices::set(&path).unwrap());
        assert!(path.exists());
    }
}
