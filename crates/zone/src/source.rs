//! Which zones there are, and the files they are in, as a user says it: one file, a directory of them, a list,
//! or a configuration of BIND.

mod catalogue;
mod list;
mod pattern;
mod words;

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use kqps_message::name::{self, NameFault};
use kqps_message::text::without_mark;

use crate::position::{Shown, line_and_column};

/// A zone and its master file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The zone's name in wire form. None: the file tells it. Then the zone is the owner of the file's first
    /// record, a SOA record; where that is relative to no `$ORIGIN`, it is relative to [`Source::file_name`],
    /// so that `@` means the file's name.
    pub apex: Option<Box<[u8]>>,
    /// The file.
    pub path: PathBuf,
}

/// Zones that were named together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The zones, in the order in which they are named; those of a directory by file name.
    pub zones: Vec<Source>,
    /// Zones of a configuration that have no master file of their own: secondary zones, hints and the like.
    pub left_out: usize,
}

/// Why it cannot be told which zones there are.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {error}", Shown(path))]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A list or a configuration is not as it should be.
    #[error("{}:{line}:{column}: {what}", Shown(path))]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The byte of the line, counted from 1.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// Several files that a configuration includes cannot be.
    #[error("{} included files cannot be read:{}", .0.len(), indented(.0))]
    Includes(Vec<Self>),
    /// What stands before the equals sign of an argument is no name.
    #[error("{text:?} is no name of a zone: {fault}; write NAME=FILE, or only FILE")]
    Name {
        /// What stands there.
        text: String,
        /// Why it is none.
        fault: NameFault,
    },
    /// There are no zones.
    #[error("{} has no zones; each of its files NAME.zone or NAME would be one", Shown(.0))]
    None(PathBuf),
    /// A configuration has no zones that a server could have.
    #[error("{} has no primary zone of class IN", Shown(.0))]
    NonePrimary(PathBuf),
}

/// Each error on a line of its own.
fn indented(errors: &[SourceError]) -> String {
    errors.iter().fold(String::new(), |text, error| text + &format!("\n  {error}"))
}

impl Source {
    /// The zone of an argument `[NAME=]FILE`. Nothing before an equals sign that has a slash is a name.
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

    /// The name that the file's own name is, without a final `.zone`; in wire form. None where it is no name.
    pub fn file_name(&self) -> Option<Box<[u8]>> {
        let name = self.path.file_name()?.as_bytes();
        apex(name.strip_suffix(b".zone").unwrap_or(name)).ok()
    }
}

impl Sources {
    /// The zones of an argument `DIRECTORY|LIST`.
    ///
    /// In a directory every file is a zone, by the name `NAME.zone` or `NAME`. Left alone are directories,
    /// hidden files, and what editors, signers and servers put beside zones (`~`, `.bak`, `.jnl`, `.key`,
    /// `.private`, `.state`, `dsset-…`, `keyset-…`).
    ///
    /// A list has a line `NAME FILE` for each zone; a `#` or `;` at its start or after a blank begins a comment. What
    /// begins with a statement of a configuration of BIND is one: its primary zones are taken, also from its
    /// `view`s and `include`d files, of which one pattern can name several, with the `directory` of its options. Files
    /// are relative to the list.
    pub fn of(path: &Path) -> Result<Self, SourceError> {
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

/// Something wrong at a byte of a list or a configuration.
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
    // By their bytes: paths compare part by part, which takes a while for 100,000 of them.
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
