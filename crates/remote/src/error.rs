//! Errors of a run over several hosts.

use kqps_testbed::folder::FolderError;

/// Why hosts cannot take part in a run.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// A file of the run could not be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A sentence for each host that cannot take part.
    #[error("{0}")]
    Unfit(String),
}
