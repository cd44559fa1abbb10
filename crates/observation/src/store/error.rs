//! Errors of a store, in words that say what a user can do.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ffi;

/// The reason why a store could not be made, opened, read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum StoreError {
    #[error("{path}: there is a file already; resume its run, or name another folder", path = path.display())]
    Exists { path: PathBuf },
    #[error("{path} is a directory; the store is a file in it, run.sqlite", path = path.display())]
    Directory { path: PathBuf },
    #[error("{path} is not the store of a run: {reason}", path = path.display())]
    NotAStore { path: PathBuf, reason: String },
    #[error(
        "{path} was written by a newer kqps (schema {found}, this one knows {known}); use that version",
        path = path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{folder}: another kqps is writing a run there; wait for it, or name another folder", folder = folder.display())]
    Locked { folder: PathBuf },
    #[error("{path}: no space is left, so make room; what was stored before is intact", path = path.display())]
    Full { path: PathBuf },
    #[error("{path}: trial {number} is there already", path = path.display())]
    Duplicate { path: PathBuf, number: u64 },
    #[error("{path}: there is no cell {cell}, the run has {cells}", path = path.display())]
    NoSuchCell { path: PathBuf, cell: u32, cells: u32 },
    /// The record could not be read again if it were stored (it holds a rate that is not a number, say).
    #[error("{path}: {record} cannot be stored: {reason}", path = path.display())]
    Unwritable { path: PathBuf, record: String, reason: String },
    #[error("{path}: {record} cannot be read: {reason}", path = path.display())]
    Damaged { path: PathBuf, record: String, reason: String },
    #[error("{path}: {error}", path = path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {error}", path = path.display())]
    Database { path: PathBuf, error: rusqlite::Error },
}

impl StoreError {
    /// Finds the error that a user can act on behind one of the database's.
    pub(super) fn from_database(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.into();
        match error.sqlite_error().map(|failure| (failure.code, failure.extended_code)) {
            // The log's index is extended in advance. A full disk refuses that with a code of its own.
            Some((ffi::ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE)) => Self::Full { path },
            Some((ffi::ErrorCode::NotADatabase, _)) => {
                Self::NotAStore { path, reason: "it is not an SQLite database".into() }
            }
            Some((ffi::ErrorCode::DatabaseCorrupt, _)) => {
                Self::Damaged { path, record: "the database".into(), reason: error.to_string() }
            }
            _ => Self::Database { path, error },
        }
    }

    /// The error with the file's own path instead of the path under which it was opened.
    pub(super) fn named(self, path: &Path) -> Self {
        match self {
            Self::Database { error, .. } => Self::Database { path: path.into(), error },
            other => other,
        }
    }

    /// The error itself, or [`Self::Duplicate`] if a row with that number exists.
    pub(super) fn or_duplicate(self, number: u64) -> Self {
        match self {
            Self::Database { path, error }
                if error.sqlite_error_code() == Some(ffi::ErrorCode::ConstraintViolation) =>
            {
                Self::Duplicate { path, number }
            }
            other => other,
        }
    }
}
