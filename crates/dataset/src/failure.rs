//! The reason why a source was not compiled: the source's own, or that of the file that it is encoded to.

use std::io;

use crate::error::DatasetError;

/// The reason why a source was not compiled.
#[derive(Debug)]
pub(crate) enum CompileError {
    /// The source has an error.
    Source(DatasetError),
    Output(io::Error),
}
