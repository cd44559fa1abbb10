//! The folder of a running box, in the folder for temporary files: root hints and trust anchor for the resolver. Its path marks
//! the processes of the box, so the next start can end those of a killed one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use kqps_kernel::process::effective_user;
use kqps_server::services::internet::Tree;
use kqps_testbed::subject::remains;
use tempfile::TempDir;

/// The beginning of the folder's name. No other program has folders of such names.
const PREFIX: &str = "kqps-internet-";

/// A file that kqps keeps locked while it runs, and its name before it is locked.
const LOCK: &str = "lock";
const UNLOCKED: &str = "unlocked";

/// The age from which a folder without that file is no longer one that is being made.
const OLD: Duration = Duration::from_mins(1);

const ROOT_HINTS: &str = "root.hints";
const TRUST_ANCHOR: &str = "root.key";

/// The words that a command may have for the paths.
const HINTS_WORD: &str = "{root_hints}";
const ANCHOR_WORD: &str = "{trust_anchor}";

/// The folder. Dropping it removes the folder.
pub(super) struct Files {
    folder: TempDir,
    _lock: File,
    has_anchor: bool,
}

impl Files {
    /// Writes the files of a tree.
    pub(super) fn write(tree: &dyn Tree) -> anyhow::Result<Self> {
        let home = std::env::temp_dir();
        let failed = || format!("files for the resolver cannot be written to {}", home.display());
        Self::write_in(&home, tree).with_context(failed)
    }

    fn write_in(home: &Path, tree: &dyn Tree) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(home)?;
        let unlocked = folder.path().join(UNLOCKED);
        let lock = File::create(&unlocked)?;
        // Some file systems have no locks. Then no server removes the folders of others either.
        let _ = lock.lock();
        // No other start can find the file before it is locked.
        fs::rename(unlocked, folder.path().join(LOCK))?;
        // Resolvers give up their rights before they read these.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let anchor = tree.trust_anchor();
        for (name, text) in [(ROOT_HINTS, tree.root_hints()), (TRUST_ANCHOR, anchor.clone())] {
            let path = folder.path().join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
        }
        Ok(Self { folder, _lock: lock, has_anchor: !anchor.is_empty() })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn root_hints(&self) -> PathBuf {
        self.folder.path().join(ROOT_HINTS)
    }

    /// The file of trust anchors; `None` if the root is not signed.
    pub(super) fn trust_anchor(&self) -> Option<PathBuf> {
        self.has_anchor.then(|| self.folder.path().join(TRUST_ANCHOR))
    }

    /// An argument of a command, with paths in place of `{root_hints}` and `{trust_anchor}`.
    pub(super) fn fill(&self, argument: &OsStr) -> Result<OsString, String> {
        let mut filled = argument.as_bytes().to_vec();
        let has = |word: &str| argument.as_bytes().windows(word.len()).any(|part| part == word.as_bytes());
        if has(ANCHOR_WORD) && !self.has_anchor {
            return Err(format!(
                "{ANCHOR_WORD}: the root is not signed, so there is no trust anchor; leave it out"
            ));
        }
        for (word, path) in
            [(HINTS_WORD, self.root_hints()), (ANCHOR_WORD, self.folder.path().join(TRUST_ANCHOR))]
        {
            while let Some(at) = filled.windows(word.len()).position(|part| part == word.as_bytes()) {
                filled.splice(at..at + word.len(), path.as_os_str().as_bytes().iter().copied());
            }
        }
        Ok(OsString::from_vec(filled))
    }
}

/// Ends the processes, and removes the folders, that killed boxes of this user left. What cannot be removed stays.
pub(super) fn remove_left_behind() {
    remove_all_in(&std::env::temp_dir());
}

fn remove_all_in(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_dead(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Whether a folder is this user's, and its kqps has ended.
fn is_dead(folder: &Path) -> bool {
    let is_own = |found: &fs::Metadata| found.is_dir() && found.uid() == effective_user();
    if !fs::symlink_metadata(folder).is_ok_and(|found| is_own(&found)) {
        return false;
    }
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound && is_old(folder),
    }
}

/// Whether a file or folder has not been changed for a while.
pub(super) fn is_old(path: &Path) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > OLD))
}

fn remove(folder: &Path) {
    remains::end_all_under(folder);
    let _ = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::SystemTime;

    use kqps_server::services::internet::{Kind, Level, TreeAnswer};

    use super::*;

    struct Signed(bool);

    impl Tree for Signed {
        fn prefixes(&self) -> Vec<(IpAddr, u8)> {
            Vec::new()
        }

        fn answer(&self, _: IpAddr, _: &[u8], _: bool, _: &mut Vec<u8>) -> TreeAnswer {
            TreeAnswer { level: Level::Nothing, kind: Kind::Silent, delay_ns: 0, fault: None }
        }

        fn root_hints(&self) -> String {
            ". NS a.\n".to_owned()
        }

        fn trust_anchor(&self) -> String {
            if self.0 { ". DS 1 8 2 00\n".to_owned() } else { String::new() }
        }
    }

    #[test]
    fn words_of_a_command_become_paths() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::write_in(home.path(), &Signed(true)).unwrap();
        let filled = files.fill(OsStr::new("a{root_hints}b{trust_anchor}{root_hints}{other}")).unwrap();
        let (hints, anchor) = (files.root_hints(), files.trust_anchor().unwrap());
        let expected = format!("a{0}b{1}{0}{{other}}", hints.display(), anchor.display());
        assert_eq!(filled.to_str().unwrap(), expected);
        assert_eq!(fs::read_to_string(hints).unwrap(), ". NS a.\n");
        let unsigned = Files::write_in(home.path(), &Signed(false)).unwrap();
        assert!(unsigned.fill(OsStr::new("{trust_anchor}")).unwrap_err().contains("not signed"));
        assert_eq!(unsigned.trust_anchor(), None);
    }

    #[test]
    fn folders_of_dead_boxes_are_removed_and_no_others() {
        let home = tempfile::tempdir().unwrap();
        let living = Files::write_in(home.path(), &Signed(false)).unwrap();
        let [dead, unfinished, young, stranger] =
            ["kqps-internet-dead", "kqps-internet-unfinished", "kqps-internet-young", "else"]
                .map(|name| home.path().join(name));
        for folder in [&dead, &unfinished, &young, &stranger] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(dead.join(LOCK), "").unwrap();
        fs::write(stranger.join(LOCK), "").unwrap();
        fs::write(young.join(UNLOCKED), "").unwrap();
        let long_ago = SystemTime::now() - 2 * OLD;
        File::open(&unfinished).unwrap().set_modified(long_ago).unwrap();
        remove_all_in(home.path());
        assert!(!dead.exists() && !unfinished.exists());
        assert!(young.exists() && stranger.exists() && living.folder().exists());
    }
}
