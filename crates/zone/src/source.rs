//! The zones and their files as a user gives them: one file, a directory of files, a list, or a configuration of BIND.

mod catalogue;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod list;
mod pattern;
mod words;

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use kqps_message::name::{self, NameFault};
use kqps_message::text::without_mark;

use crate::position::{ShownPath, line_and_column};

/// A zone and its master file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The zone's name in wire form. With `None`, the file gives the name: it is the owner of the file's first record,
    /// a SOA record. If that is relative and there is no `$ORIGIN`, it is relative to [`Source::file_name`], so `@`
    /// means the file's name.
    pub apex: Option<Box<[u8]>>,
    /// The path of the file.
    pub path: PathBuf,
}

/// The zones of one argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The zones in the order of the list; those of a directory by file name.
    pub zones: Vec<Source>,
    /// Zones of a configuration without a master file of their own: secondary zones, hints and the like.
    pub left_out: usize,
}

/// The reason why the zones cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {error}", ShownPath(path))]
    Read {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A list or a configuration has an error.
    #[error("{}:{line}:{column}: {what}", ShownPath(path))]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The byte of the line, counted from 1.
        column: usize,
        /// The error there.
        what: String,
    },
    /// Several files that a configuration includes cannot be read.
    #[error("{} included files cannot be read:{}", .0.len(), indented(.0))]
    Includes(Vec<Self>),
    /// The text before the equals sign of an argument is not a name.
    #[error("{text:?} is not the name of a zone: {fault}; write NAME=FILE, or only FILE")]
    Name {
        /// The text before the equals sign.
        text: String,
        /// Why the text is not a name.
        fault: NameFault,
    },
    /// A directory or list has no zones.
    #[error("{} has no zones; each of its files NAME.zone or NAME would be one", ShownPath(.0))]
    None(PathBuf),
    /// A configuration has no primary zone of class IN.
    #[error("{} has no primary zone of class IN", ShownPath(.0))]
    NonePrimary(PathBuf),
}

/// Each error on a line of its own.
fn indented(errors: &[SourceError]) -> String {
    errors.iter().fold(String::new(), |text, error| text + &format!("\n  {error}"))
}

impl Source {
    /// The zone of an argument `[NAME=]FILE`. Text with a slash before an equals sign is not a name.
    pub fn of_argument(argument: &Path) -> Result<Self, SourceError> {
        let bytes = argument.as_os_str().as_bytes();
        let equals = memchr::memchr(b'=', bytes).filter(|&at| !bytes[..at].contains(&b'/'));
        let Some(equals) = equals else {
            return Ok(Self { apex: None, path: argument.to_owned() });
        };
        let text = &bytes[..equals];
        let apex = apex(text)
            .map_err(|fault| SourceError::Name { text: String::from_utf8_lossy(text).into_owned(), fault })?;
        Ok(Self { apex: Some(apex), path: PathBuf::from(std::ffi::OsStr::from_bytes(&bytes[equals + 1..])) })
    }

    /// The name of the file as a zone's name, without a final `.zone`, in wire form. `None` if it is not a valid name.
    pub fn file_name(&self) -> Option<Box<[u8]>> {
        let name = self.path.file_name()?.as_bytes();
        apex(name.strip_suffix(b".zone").unwrap_or(name)).ok()
    }
}

impl Sources {
    /// The zones of an argument `DIRECTORY|LIST`.
    ///
    /// In a directory every file is a zone, with the name `NAME.zone` or `NAME`. Directories, hidden files, and the
    /// files that editors, signers and servers put beside zones (`~`, `.bak`, `.jnl`, `.key`, `.private`, `.state`,
    /// `dsset-…`, `keyset-…`) are left out.
    ///
    /// A list has a line `NAME FILE` for each zone. A `#` or `;` at its start or after a blank begins a comment. A
    /// file that begins with a statement of a configuration of BIND is such a configuration. Its primary zones are
    /// taken, including those of its `view`s and `include`d files, and the `directory` of its options applies. One
    /// `include` pattern can name several files. Files are relative to the list.
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let failed = |error| SourceError::Read { path: path.to_owned(), error };
        if fs::metadata(path).map_err(failed)?.is_dir() {
            return Ok(Self { zones: directory(path)?, left_out: 0 });
        }
        let file = fs::read(path).map_err(failed)?;
        let text = text_of(path, &file)?;
        if catalogue::is_one(text) { catalogue::read(path, text) } else { list::read(path, text) }
    }
}

/// The text of a list or a configuration, without a byte order mark.
fn text_of<'f>(path: &Path, file: &'f [u8]) -> Result<&'f [u8], SourceError> {
    without_mark(file).map_err(|encoding| wrong(path, file, 0, &encoding.to_string()))
}

/// An error at a byte of a list or a configuration.
fn wrong(path: &Path, text: &[u8], at: usize, what: &str) -> SourceError {
    let (line, column) = line_and_column(text, at);
    SourceError::Line { path: path.to_owned(), line, column, what: what.to_owned() }
}

fn directory(path: &Path) -> Result<Vec<Source>, SourceError> {
    let failed = |error| SourceError::Read { path: path.to_owned(), error };
    let mut zones = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if !may_be_zone(name.as_bytes()) {
            continue;
        }
        let kind = entry.file_type().map_err(failed)?;
        let file = entry.path();
        if kind.is_file() || (kind.is_symlink() && file.is_file()) {
            zones.push(Source { apex: None, path: file });
        }
    }
    if zones.is_empty() {
        return Err(SourceError::None(path.to_owned()));
    }
    // By their bytes, since comparing paths part by part takes a while for 100,000 of them.
    zones.sort_unstable_by(|one, other| one.path.as_os_str().cmp(other.path.as_os_str()));
    Ok(zones)
}

fn may_be_zone(name: &[u8]) -> bool {
    let others: [&[u8]; 6] = [b"~", b".bak", b".jnl", b".key", b".private", b".state"];
    let beside: [&[u8]; 3] = [b".", b"dsset-", b"keyset-"];
    !others.iter().any(|ending| name.ends_with(ending))
        && !beside.iter().any(|beginning| name.starts_with(beginning))
}

/// The name of a zone in wire form.
fn apex(text: &[u8]) -> Result<Box<[u8]>, NameFault> {
    let mut wire = Vec::new();
    name::encode(text, &mut wire).map_err(|error| error.fault)?;
    Ok(wire.into())
}
