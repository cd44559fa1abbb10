//! The reason why a source was not compiled: the source's own, or that of the file that it is encoded to.

use std::io;
use std::path::Path;

use crate::error::DatasetError;
use crate::writer::WriteError;

/// The reason why a source was not compiled.
#[derive(Debug)]
pub(crate) enum CompileError {
    /// The source has an error.
    Source(DatasetError),
    Output(io::Error),
}

impl CompileError {
    pub(crate) fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Source(DatasetError::io("read", path, error))
    }

    pub(crate) fn unwritable(path: &Path, error: WriteError) -> Self {
        match error {
            WriteError::Io(error) => Self::Output(error),
            WriteError::Full => Self::Source(DatasetError::TooLarge { path: path.to_owned() }),
        }
    }
}
