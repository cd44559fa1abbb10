//! Temporary folders, which are removed when they are dropped and when the user interrupts the chore.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::child;

/// All temporary folders, each with the value whose drop removes it.
static FOLDERS: Mutex<Vec<(PathBuf, Box<dyn Send>)>> = Mutex::new(Vec::new());

const REMOVALS: u32 = 100;
const REMOVAL_NAP: Duration = Duration::from_millis(10);

/// The offset that a shell adds to the number of the signal that ended a program.
const ENDED_BY_SIGNAL: i32 = 128;

/// A temporary folder. Dropping it removes it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty folder. An error if the system cannot.
    pub fn new() -> Result<Self> {
        Self::made_by(|| {
            let folder = tempfile::tempdir().context("cannot make a folder for the time being")?;
            Ok((folder.path().to_owned(), folder))
        })
    }

    /// Makes a folder of another kind. `make` returns its path, and a value whose drop removes it.
    pub fn made_by<R: Send + 'static>(make: impl FnOnce() -> Result<(PathBuf, R)>) -> Result<Self> {
        watch()?;
        let mut folders = folders();
        let (path, remover) = make()?;
        folders.push((path.clone(), Box::new(remover)));
        Ok(Self(path))
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        folders().retain(|(path, _)| *path != self.0);
    }
}

fn folders() -> MutexGuard<'static, Vec<(PathBuf, Box<dyn Send>)>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs a handler for SIGINT and SIGTERM that ends every child and removes all folders before it ends
/// this program.
fn watch() -> Result<()> {
    static WATCHED: OnceLock<std::io::Result<()>> = OnceLock::new();
    let watched = WATCHED.get_or_init(|| {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        std::thread::Builder::new().name("interrupted".into()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            // Held until the end, so that no folder is made after this.
            let mut folders = folders();
            clear(&mut folders);
            std::process::exit(ENDED_BY_SIGNAL + signal);
        })?;
        Ok(())
    });
    watched.as_ref().map_err(|error| anyhow!("cannot watch for an interruption: {error}")).copied()
}

/// Removes all folders, after the programs that may write into them have ended. Another thread may start a
/// further program meanwhile, so the removal is tried again.
fn clear(folders: &mut Vec<(PathBuf, Box<dyn Send>)>) {
    let mut left: Vec<PathBuf> = folders.iter().map(|(path, _)| path.clone()).collect();
    child::end_all();
    folders.clear();
    for _ in 0..REMOVALS {
        left.retain(|path| path.exists());
        if left.is_empty() {
            return;
        }
        child::end_all();
        for path in &left {
            // A control group can only be removed as a whole, since its files cannot be removed. Remaining
            // folders are reported below.
            let _ = fs::remove_dir(path).or_else(|_| fs::remove_dir_all(path));
        }
        std::thread::sleep(REMOVAL_NAP);
    }
    for path in left.iter().filter(|path| path.exists()) {
        eprintln!("cannot remove {}, which this command made", path.display());
    }
}
