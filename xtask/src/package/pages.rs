//! Manual pages and completions, made by the program that is packaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use kqps_programs::shell;

/// A shell, and the name of the file that it looks for.
pub(super) const SHELLS: [(&str, &str); 3] = [("bash", "kqps"), ("zsh", "_kqps"), ("fish", "kqps.fish")];

/// Writes the pages of all commands into a folder, uncompressed, and returns their paths in order.
pub(super) fn manual(program: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    shell::run(Command::new(program).args(["man", "--all"]).arg(folder))?;
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut pages = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    pages.sort();
    ensure!(!pages.is_empty(), "{} wrote no manual pages", program.display());
    Ok(pages)
}

/// The completions for a shell.
pub(super) fn completions(program: &Path, shell: &str) -> Result<String> {
    shell::read(Command::new(program).args(["completions", shell]))
}
