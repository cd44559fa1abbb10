//! `cargo xtask tidy`: checks beyond those of a compiler. They cover sizes of files and functions, unused
//! files, circles of imports, forbidden words, casts that may cut a number, openings of comments, docs with names that do
//! not exist, and privileged acts that SECURITY.md leaves out.

mod assets;
mod casts;
mod circles;
mod docs;
mod openings;
mod privileges;
mod reach;
mod sizes;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// A Rust file of the workspace, read and parsed once for all checks.
struct Source {
    /// Relative to the workspace's root.
    path: PathBuf,
    text: String,
    syntax: syn::File,
}

/// Runs every check. It prints remarks, and returns all faults as one error.
pub fn run() -> Result<()> {
    let files = workspace::files()?;
    let sources = parse_all(&files)?;
    let report = sizes::Report::from_sources(&sources);
    report.print();

    let mut faults = report.faults();
    faults.extend(words::faults(&sources));
    faults.extend(casts::faults(&sources));
    faults.extend(openings::faults(&sources));
    faults.extend(reach::faults(&sources, &workspace::metadata()?));
    faults.extend(circles::faults(&sources));
    faults.extend(assets::faults(&files)?);
    faults.extend(docs::faults(&files)?);
    faults.extend(privileges::faults(&sources)?);
    if !faults.is_empty() {
        bail!("not tidy:\n  {}", faults.join("\n  "));
    }
    Ok(())
}

fn parse_all(files: &[PathBuf]) -> Result<Vec<Source>> {
    files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "rs"))
        .map(|file| parse(file))
        .collect()
}

fn parse(path: &Path) -> Result<Source> {
    let text = fs::read_to_string(workspace::root().join(path))
        .with_context(|| format!("cannot read {}", path.display()))?;
    let syntax = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
    Ok(Source { path: path.to_owned(), text, syntax })
}
