//! Hosts from a file, whatever its kind, and to a file.

use std::path::Path;

use kqps_files::toml_file::FileError;

use crate::error::HostsError;
use crate::host::Hosts;
use crate::{file, inventory};

impl Hosts {
    /// Reads the hosts' file. A name with the ending `.toml` is a file of kqps; any other path is an inventory of
    /// Ansible with the groups `kqps_server` (one host) and `kqps_players`.
    pub fn read(path: &Path) -> Result<Self, HostsError> {
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")) {
            return Ok(file::read(path)?);
        }
        // Ansible takes a path that does not exist for a list of hosts.
        if let Err(error) = path.metadata() {
            return Err(FileError::Unreadable { file: path.display().to_string(), error }.into());
        }
        inventory::read(path)
    }

    /// The text of a hosts' file (TOML) from which [`read`](Self::read) reads the same hosts.
    pub fn to_toml(&self) -> String {
        file::write(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_exist_is_named() {
        for name in ["/nonexistent/hosts.toml", "/nonexistent/inventory"] {
            let error = Hosts::read(Path::new(name)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot read {name}: ")), "{error}");
        }
    }
}
