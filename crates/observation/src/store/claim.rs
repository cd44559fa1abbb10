//! The lock on a store's folder. Only one kqps at a time writes there. It takes the lock before the store exists.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{Store, StoreError, beside};
use crate::run::Run;

/// How long to wait for a folder's lock. If kqps is killed while it starts a program, the new process holds the lock
/// until it begins that program. On a busy core that takes a while.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// The pause between two tries to take the lock.
const LOOK: Duration = Duration::from_millis(5);

/// A locked folder in which a store is still to be made, so that a run can first write its other files there.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    lock: Lock,
}

/// The lock on a store's folder. Dropping this value releases it.
#[derive(Debug)]
pub(super) struct Lock {
    _folder: File,
}

impl Claim {
    /// Locks the folder of a new store, and leaves an empty file in the store's place. Files written beside it from
    /// then on belong to the run. Fails if a file is already there, unless it is empty: a run that was killed before it
    /// began.
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

    /// Makes the store of a run and its cells. The run's trials are left out, since they are committed one by one.
    pub fn create(self, run: &Run) -> Result<Store, StoreError> {
        Store::create_in(self.path, self.lock, run)
    }
}

impl Lock {
    /// The lock is on the folder, so it needs no file of its own, and SQLite's locks are on the store's file.
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

/// Whether a file is already there. An empty file, or a file with the journal of an interrupted transaction, may belong
/// to a run that was killed before it began. Opening it shows whether it does.
fn is_taken(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.len() > 0) && !beside(path, "-journal").exists()
}
