//! Packages of Python for one proof.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use kqps_programs::shell;

/// Makes an environment of Python with packages in a folder of the proof. Returns the folder of its programs.
pub(super) fn environment(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let venv = folder.join("venv");
    shell::run(Command::new("python3").args(["-m", "venv"]).arg(&venv)).context("no venv can be made")?;
    let programs = venv.join("bin");
    let mut pip = Command::new(programs.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    shell::run(&mut pip)?;
    Ok(programs)
}
