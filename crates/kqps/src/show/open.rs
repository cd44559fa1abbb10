//! Opens what is to be shown: a capture as a stream, or queries as a dataset.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::Context as _;
use kqps_capture::is_capture;
use kqps_dataset::{Dataset, Options};
use kqps_files::unfinished::Unfinished;
use tempfile::NamedTempFile;

use crate::exit::bad_input;
use crate::load::skipped::unreadable;

/// Bytes that show whether a file is a capture.
const FIRST_BYTES: u64 = 4;

pub(super) enum Opened {
    Capture(Box<dyn Read + Send>),
    Queries(Box<Dataset>),
}

/// Opens a file, or standard input for `-`.
pub(super) fn open(path: &Path) -> anyhow::Result<Opened> {
    let mut source: File = if path == "-" {
        io::stdin().as_fd().try_clone_to_owned()?.into()
    } else {
        let refused = |error| bad_input(format!("cannot open {}: {error}", path.display()));
        File::open(path).map_err(refused)?
    };
    let begin = source.stream_position().ok();
    let unreadable = |error| bad_input(format!("cannot read {}: {error}", path.display()));
    let mut first = Vec::new();
    source.by_ref().take(FIRST_BYTES).read_to_end(&mut first).map_err(unreadable)?;
    if is_capture(&first) {
        return Ok(Opened::Capture(Box::new(Cursor::new(first).chain(source))));
    }
    if let Some(begin) = begin {
        source.seek(io::SeekFrom::Start(begin)).map_err(unreadable)?;
        return queries(source, path);
    }
    // A pipe is read once, and a dataset is mapped.
    let (mut copy, _unfinished) = Unfinished::made(NamedTempFile::new).context("copying the queries")?;
    let mut whole = Cursor::new(first).chain(source);
    io::copy(&mut whole, copy.as_file_mut()).context("copying the queries")?;
    queries(copy.reopen().context("copying the queries")?, path)
}

fn queries(source: File, path: &Path) -> anyhow::Result<Opened> {
    Dataset::read(source, path, &Options::default())
        .map(|dataset| Opened::Queries(Box::new(dataset)))
        .map_err(|error| unreadable(&error, ""))
}
