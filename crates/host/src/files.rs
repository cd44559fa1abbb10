//! Small files of `/proc` and `/sys` under a root. Tests replace the root by a copy of another machine's
//! files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kqps_observation::cpu_list;

/// The folder that holds `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The root of this machine.
    pub fn real() -> Self {
        Self("/".into())
    }

    /// The root of a copy of a machine's files.
    pub fn at(path: &Path) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// A file's text without surrounding white space.
    pub(crate) fn text(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.path(path)).map(|text| text.trim().to_owned())
    }

    /// The number that a file holds.
    pub(crate) fn number(&self, path: &str) -> io::Result<u32> {
        self.text(path)?.parse().map_err(|_| io::Error::other("not a number"))
    }

    /// The numbers of a file that holds a list like `0,2-5`.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<u32>> {
        cpu_list::parse(&self.text(path)?).map_err(|_| io::Error::other("not a list of numbers"))
    }

    /// The cores of a file that holds a mask such as `00000000,0000000f`.
    pub(crate) fn mask(&self, path: &str) -> io::Result<Vec<u32>> {
        of_mask(&self.text(path)?).ok_or_else(|| io::Error::other("not a mask of cores"))
    }

    /// The last name in the path to which a symbolic link leads.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Whether a file's mode lets anybody write it; `None` if there is no such file.
    pub(crate) fn is_writable(&self, path: &str) -> Option<bool> {
        let metadata = fs::metadata(self.path(path)).ok()?;
        Some(metadata.permissions().mode() & 0o222 != 0)
    }

    /// Name → text of the readable files in a folder whose names are `wanted`.
    pub(crate) fn texts(&self, path: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
        let names = self.names(path).into_iter().filter(|name| wanted(name));
        names.filter_map(|name| Some((name.clone(), self.text(&format!("{path}/{name}")).ok()?))).collect()
    }

    /// The sorted names in a folder; empty if there is no such folder.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(folder) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            folder.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

/// The cores in the kernel's masks: hexadecimal words of 32 bits, the highest first, separated by commas.
fn of_mask(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (number, word) in (0..).zip(text.rsplit(',')) {
        let word = u32::from_str_radix(word, 16).ok()?;
        cpus.extend((0..32).filter(|bit| word & (1 << *bit) != 0).map(|bit| number * 32 + bit));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_cores() {
        assert_eq!(of_mask("0"), Some(vec![]));
        assert_eq!(of_mask("00000023"), Some(vec![0, 1, 5]));
        assert_eq!(of_mask("00000002,00000001"), Some(vec![0, 33]));
        assert_eq!(of_mask(""), None);
        assert_eq!(of_mask("0-3"), None);
    }
}
