//! Files and folders that a program writes under another name until they are whole. They are removed when writing fails;
//! a program that a signal ends in between removes them by [`remove_all`].

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often a folder is removed while another thread still writes into it.
const TRIES: u32 = 100;

static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn paths() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an unfinished path on the list of those that [`remove_all`] removes, for as long as it lives.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// A path that is about to be made.
    pub fn at(path: &Path) -> Self {
        paths().insert(path.to_owned());
        Self(path.to_owned())
    }

    /// What `make` makes under a name of its own, and its place on the list. No signal can come between the two.
    pub fn made<T: AsRef<Path>>(make: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Self)> {
        let mut paths = paths();
        let made = make()?;
        let path = made.as_ref().to_owned();
        paths.insert(path.clone());
        Ok((made, Self(path)))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        paths().remove(&self.0);
    }
}

/// Removes all that is unfinished, as the last thing before the program ends: from then on nothing more is begun, and
/// whatever finishes waits for the end.
pub fn remove_all() {
    let paths = paths();
    for path in &*paths {
        let is_left = || path.symlink_metadata().is_ok();
        for _ in 0..TRIES {
            let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            if removed.is_ok() || !is_left() {
                break;
            }
        }
    }
    std::mem::forget(paths);
}
