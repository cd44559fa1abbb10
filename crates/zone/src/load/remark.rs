//! The errors and warnings of a loaded zone, one sentence each, with file, line and column.

use std::io;
use std::path::PathBuf;

use crate::compile::Fault;
use crate::master::Remark;
use crate::position::ShownPath;

/// An error or a warning of a zone.
#[derive(Debug, thiserror::Error)]
pub enum LoadRemark {
    /// The zone's file cannot be read.
    #[error("cannot read {}: {error}", ShownPath(path))]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Neither the file's content nor its name gives the zone's name.
    #[error(
        "{}: queries for this zone are refused, since its name is unknown: the first record is not a SOA \
         record, and the file's own name is not the name of a zone; write NAME=FILE",
        ShownPath(.0)
    )]
    NoName(PathBuf),
    /// Another file has the same zone.
    #[error(
        "{}: left out, since {} has the same zone and was named before it",
        ShownPath(path),
        ShownPath(first)
    )]
    Twice {
        /// The path of this file.
        path: PathBuf,
        /// The path of the other file, which came before it in the sources.
        first: PathBuf,
    },
    /// An error or a warning of a master file.
    #[error(transparent)]
    Master(Remark),
    /// An error or a warning of the zone's records.
    #[error("{}:{}:{}: {fault}", ShownPath(path), fault.line, fault.column)]
    Zone {
        /// The zone's own file, or one that it includes.
        path: PathBuf,
        /// The fault with its place.
        fault: Fault,
    },
}
