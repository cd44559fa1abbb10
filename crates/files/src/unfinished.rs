//! Files and folders that a program writes under another name until they are whole. They are removed if writing fails.
//! If a signal ends the program before that, it removes them with [`remove_all`].

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tries to remove a folder while another thread still writes into it.
const TRIES: u32 = 100;

static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn paths() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an unfinished path in the list that [`remove_all`] removes, for as long as this value lives.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Lists a path that will be made next.
    pub fn at(path: &Path) -> Self {
        paths().insert(path.to_owned());
        Self(path.to_owned())
    }

    /// Calls `make`, which chooses the path itself, and lists the path. No signal handler can run between the two.
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

/// Removes everything unfinished, as the last action before the program ends. From then on nothing new is begun, and a
/// thread that finishes a path waits for the end of the program.
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
