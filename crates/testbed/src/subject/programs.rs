//! Finds programs: on the PATH, and in the folders where Debian puts servers and which an ordinary user's PATH
//! lacks.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kqps_host::fingerprint;
use kqps_observation::fingerprint::BinaryFacts;

/// Where the C library looks if PATH is not set (`confstr(3)`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

const SERVER_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The full path of a program; `None` if it is not found. A name with a slash is used as it is.
pub fn find(program: &str) -> Option<PathBuf> {
    find_on(std::env::var_os("PATH"), program)
}

/// The files of the programs that are found, by name, with the version of their subject.
pub fn facts_of(programs: &[String], version: Option<&str>) -> impl Iterator<Item = (String, BinaryFacts)> {
    programs.iter().filter_map(move |name| {
        let facts = fingerprint::binary(&find(name)?);
        Some((name.clone(), BinaryFacts { version: version.map(str::to_owned), ..facts }))
    })
}

fn find_on(path: Option<OsString>, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return executable(Path::new(program)).then(|| PathBuf::from(program));
    }
    let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path)
        .chain(SERVER_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| executable(candidate))
}

fn executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_and_a_missing_one_is_not() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-program-anywhere"), None);
        assert_eq!(find("/etc/passwd"), None);
        assert!(find_on(None, "sh").is_some());
        assert_eq!(find_on(Some("/nonexistent".into()), "sh"), None);
    }
}
