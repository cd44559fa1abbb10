//! Whose a folder is: the lock of the one kqps that writes there, which it can have before there is a store.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{Store, StoreError, beside};
use crate::run::Run;

/// How long a folder's lock is waited for. What a kqps was about to start when it was killed has the lock, too, until
/// its program begins, and on a busy core that takes its time.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether a lock is free.
const LOOK: Duration = Duration::from_millis(5);

/// A folder that is locked for a store which is still to be made, so that what a run needs can be written there first.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    lock: Lock,
}

/// The lock on a store's folder. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _folder: File,
}

impl Claim {
    /// Locks the folder in which a store is to be made, and leaves an empty file in the store's place: what is written
    /// beside it from then on is a run's. Refuses to where something lies already, unless that is empty: a run that was
    /// killed before it began.
    pub fn new(path: &Path) -> Result<Self, StoreError> {
        let lock = Lock::new(path)?;
        match path.metadata() {
            Ok(found) if found.is_dir() => Err(StoreError::Directory { path: path.into() }),
            _ if is_taken(path) => Err(StoreError::Exists { path: path.into() }),
            _ => match File::options().create(true).append(true).open(path) {
                Ok(_) => Ok(Self { path: path.into(), lock }),
                Err(error) => Err(StoreError::Io { path: path.into(), error }),
            },
        }
    }

    /// Makes the store of a run and its cells. The run's trials are left out: they are committed one by one.
    pub fn create(self, run: &Run) -> Result<Store, StoreError> {
        Store::create_in(self.path, self.lock, run)
    }
}

impl Lock {
    /// A lock on the folder, and not on the file, needs no file of its own; SQLite's own locks lie on the file.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let io = |error| StoreError::Io { path: folder.into(), error };
        let file = File::open(folder).map_err(io)?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _folder: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { folder: folder.into() }),
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
    }
}

/// Whether something lies there already. A file that is empty, or has the journal of a transaction beside it that was
/// cut off, may be that of a run that was killed before it began: opening it finds out.
fn is_taken(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.len() > 0) && !beside(path, "-journal").exists()
}
