//! Opens the queries that the player's flags name.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::Path;

use anyhow::Context as _;
use kqps_capture::is_capture;
use kqps_dataset::{Additions, Check, Dataset, Format, Options};
use kqps_files::unfinished::Unfinished;
use kqps_testbed::play::QueryFile;
use tempfile::NamedTempFile;

use super::PlayerArgs;
use crate::exit::bad_input;
use crate::load::dnsperf;
use crate::load::skipped::{captured, skipped, unreadable};

/// Whether the queries that the flags name are a capture, or can only be read once: what a pipe has shows only as it is
/// read.
pub(crate) fn may_be_capture(args: &PlayerArgs) -> bool {
    if args.binary {
        return false;
    }
    let Ok((standard_input, path)) = dnsperf::query_file(args.queries.as_deref()) else { return false };
    let facts = match &standard_input {
        Some(file) => file.metadata(),
        None => fs::metadata(&path),
    };
    let Ok(kind) = facts.map(|facts| facts.file_type()) else { return false };
    if !kind.is_file() {
        return kind.is_fifo() || kind.is_socket();
    }
    let mut first = [0; 4];
    let read = match standard_input {
        Some(mut file) => file.stream_position().and_then(|at| file.read_at(&mut first, at)),
        None => File::open(&path).and_then(|file| file.read_at(&mut first, 0)),
    };
    read.is_ok_and(|bytes| is_capture(&first[..bytes]))
}

/// How queries are read, beside what the player's flags say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) format: Format,
    pub(crate) additions: Additions,
}

/// Opens the queries that the flags name. Errors in them are errors in the user's input.
pub(crate) fn open_dataset(args: &PlayerArgs, reading: Reading) -> anyhow::Result<Dataset> {
    let (standard_input, path) = dnsperf::query_file(args.queries.as_deref())?;
    read_dataset(args, reading, standard_input, &path)
}

/// The queries that the flags name, and a file with them that players in other processes can open.
pub(crate) struct Queries {
    pub(crate) dataset: Dataset,
    pub(crate) file: QueryFile,
    /// The copy of queries that do not come from a regular file.
    _copy: Option<(NamedTempFile, Unfinished)>,
}

impl Queries {
    /// Opens them. Queries that can be read only once, such as those of standard input, are copied first.
    pub(crate) fn open(args: &PlayerArgs) -> anyhow::Result<Self> {
        let (standard_input, path) = dnsperf::query_file(args.queries.as_deref())?;
        let source = match standard_input {
            None if path.is_file() => None,
            None => File::open(&path).ok(),
            standard_input => standard_input,
        };
        let copy = source.map(copied).transpose()?;
        let reread = copy.as_ref().map(|(copy, _)| copy.reopen()).transpose()?;
        let dataset = read_dataset(args, Reading::default(), reread, &path)?;
        if let Some(facts) = dataset.capture() {
            eprintln!("kqps: {}", captured(&dataset, facts));
        } else {
            args.capture.check_none_is_given(&dataset)?;
        }
        let path = copy.as_ref().map_or(&*path, |(copy, _)| copy.path());
        let file = query_file(args, Format::Auto, &dataset, path);
        Ok(Self { dataset, file, _copy: copy })
    }
}

/// The file of queries that these flags read, which is now at `path`, for players in other processes. `format` is that of
/// the file unless the flags say another.
pub(crate) fn query_file(args: &PlayerArgs, format: Format, dataset: &Dataset, path: &Path) -> QueryFile {
    QueryFile {
        format: if args.binary { Format::Binary } else { format },
        edns: args.edns,
        dnssec: args.dnssec,
        skip_bad: args.skip_bad,
        check: if dataset.capture().is_some() { Some(dataset.check()) } else { args.check },
        capture: args.capture.options(),
        ..QueryFile::new(path)
    }
}

/// A copy of what can be read once.
fn copied(mut source: File) -> anyhow::Result<(NamedTempFile, Unfinished)> {
    let (mut copy, unfinished) = Unfinished::made(NamedTempFile::new).context("copying the queries")?;
    io::copy(&mut source, copy.as_file_mut()).context("copying the queries")?;
    Ok((copy, unfinished))
}

/// Reads queries from `source`, or from the file at `path`, which is their name in messages.
fn read_dataset(
    args: &PlayerArgs,
    reading: Reading,
    source: Option<File>,
    path: &Path,
) -> anyhow::Result<Dataset> {
    let Reading { format, additions } = reading;
    let format = if args.binary { Format::Binary } else { format };
    let options = Options {
        format,
        edns: args.edns,
        dnssec: args.dnssec,
        skip_bad: args.skip_bad,
        cache_dir: None,
        capture: args.capture.options(),
        additions,
    };
    let unnamed =
        if args.queries.is_none() { "; there is no -d FILE, so standard input was read" } else { "" };
    let dataset = match source {
        Some(source) => Dataset::read(source, path, &options),
        None => Dataset::open(path, &options),
    };
    let dataset = dataset.map_err(|error| unreadable(&error, unnamed))?;
    for note in skipped(&dataset) {
        eprintln!("kqps: {note}");
    }
    if let Some(note) = dataset.note() {
        eprintln!("kqps: {note}");
    }
    if let Some(facts) = dataset.capture() {
        let check = args.capture.check(args.check, &dataset, facts)?;
        return Ok(dataset.checked(check));
    }
    if args.check == Some(Check::Answers) && dataset.answers() == 0 {
        return Err(bad_input(format!(
            "--check answers: {} has no digests of answers; `kqps gen queries --expect answers` writes them",
            path.display()
        )));
    }
    let expected = dataset.check();
    Ok(dataset.checked(args.check.unwrap_or(expected)))
}
