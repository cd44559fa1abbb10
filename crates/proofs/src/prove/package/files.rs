//! All files of a tree, to compare two moments byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A file, a folder or a link: mode with kind, owner, group, and the hash of its bytes or of where it leads.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: u32,
    group: u32,
    content: Option<blake3::Hash>,
}

/// The files of a tree at one moment, by their path below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<PathBuf, Entry>);

impl Files {
    /// Reads all files below `root`, and leaves out those below `ignored`, which are paths below the root.
    pub(super) fn read(root: &Path, ignored: &[&str]) -> Result<Self> {
        let mut found = BTreeMap::new();
        let mut to_see = vec![PathBuf::new()];
        while let Some(folder) = to_see.pop() {
            let entries = fs::read_dir(root.join(&folder));
            for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
                let path = folder.join(entry?.file_name());
                if ignored.iter().any(|ignored| path.starts_with(ignored)) {
                    continue;
                }
                let facts = fs::symlink_metadata(root.join(&path))?;
                if facts.is_dir() {
                    to_see.push(path.clone());
                }
                let content = if facts.is_symlink() {
                    Some(blake3::hash(fs::read_link(root.join(&path))?.as_os_str().as_bytes()))
                } else if facts.is_file() {
                    Some(blake3::hash(&fs::read(root.join(&path))?))
                } else {
                    None
                };
                let entry = Entry { mode: facts.mode(), owner: facts.uid(), group: facts.gid(), content };
                found.insert(path, entry);
            }
        }
        Ok(Self(found))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Differences from an earlier moment, a path each, with `+` if it is new, `-` if it is gone, `*` if it changed.
    pub(super) fn since(&self, earlier: &Self) -> Vec<String> {
        let of = |(path, entry): (&PathBuf, &Entry)| match earlier.0.get(path) {
            None => Some(format!("+{}", path.display())),
            Some(before) if before != entry => Some(format!("*{}", path.display())),
            Some(_) => None,
        };
        let mut found: Vec<String> = self.0.iter().filter_map(of).collect();
        let gone = earlier.0.keys().filter(|path| !self.0.contains_key(*path));
        found.extend(gone.map(|path| format!("-{}", path.display())));
        found
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn every_change_is_seen_and_what_is_ignored_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("a/log")).unwrap();
        for path in ["a/same", "a/bytes", "a/mode", "a/gone", "a/log/old"] {
            fs::write(at(path), "text").unwrap();
        }
        symlink("same", at("a/link")).unwrap();
        let before = Files::read(folder.path(), &["a/log"]).unwrap();
        assert_eq!((before.len(), before.since(&before)), (6, Vec::new()));
        fs::write(at("a/bytes"), "test").unwrap();
        fs::set_permissions(at("a/mode"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(at("a/gone")).unwrap();
        fs::remove_file(at("a/link")).unwrap();
        symlink("bytes", at("a/link")).unwrap();
        fs::write(at("a/new"), "").unwrap();
        fs::write(at("a/log/new"), "").unwrap();
        let after = Files::read(folder.path(), &["a/log"]).unwrap();
        assert_eq!(after.since(&before), ["*a/bytes", "*a/link", "*a/mode", "+a/new", "-a/gone"]);
    }
}
