//! What can be said of a zone that is loaded, one sentence each, with file, line and column.

use std::io;
use std::path::PathBuf;

use crate::compile::Fault;
use crate::master::Remark;
use crate::position::Shown;

/// An error or a warning of a zone.
#[derive(Debug, thiserror::Error)]
pub enum LoadRemark {
    /// Its file cannot be read.
    #[error("cannot read {}: {error}", Shown(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Neither the file nor its name tells which zone it is.
    #[error(
        "{}: queries for this zone are refused, since nothing tells its name: no SOA record comes first, and the \
         file's own name is no name of a zone; write NAME=FILE",
        Shown(.0)
    )]
    NoName(PathBuf),
    /// Another file has the same zone.
    #[error("{}: left out, since {} has the same zone and was named before it", Shown(path), Shown(first))]
    Twice {
        /// The file.
        path: PathBuf,
        /// The other one, which was named before.
        first: PathBuf,
    },
    /// Something in a master file.
    #[error(transparent)]
    Master(Remark),
    /// Something in the records of the zone.
    #[error("{}:{}:{}: {fault}", Shown(path), fault.line, fault.column)]
    Zone {
        /// The zone's own file, or the one that it includes.
        path: PathBuf,
        /// What it is.
        fault: Fault,
    },
}
