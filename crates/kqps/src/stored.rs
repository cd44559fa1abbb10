//! Files that commands write, and runs that they read.

use std::path::Path;

use anyhow::Context as _;
use kqps_files::write_whole;
use kqps_observation::{Run, Store};
use kqps_testbed::folder::store_in;

use crate::exit::bad_input;

/// The run that a folder holds.
pub(crate) fn run_in(folder: &Path) -> anyhow::Result<Run> {
    Store::read(&store_in(folder).map_err(bad_input)?).map_err(bad_input)
}

/// Writes a whole file.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_whole(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Makes a folder, and those above it.
pub(crate) fn make_folder(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}
