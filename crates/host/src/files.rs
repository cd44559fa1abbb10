//! Small files of `/proc` and `/sys` under a root. Tests replace the root by a copy of another machine's
//! files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use kqps_observation::cpu_list;

/// The folder that holds `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn real() -> Self {
        Self("/".into())
    }

    /// The root of a copy of a machine's files.
    #[cfg(test)]
    pub(crate) fn at(path: &std::path::Path) -> Self {
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
