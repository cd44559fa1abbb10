//! Environments of Python with packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::shell;

/// Makes an environment anew in a folder, with the packages that these arguments of `pip install` name. Returns the
/// folder of its programs.
pub fn environment(folder: &Path, packages: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<PathBuf> {
    let mut venv = Command::new("python3");
    shell::run(venv.args(["-m", "venv", "--clear"]).arg(folder)).context("no venv can be made")?;
    let programs = folder.join("bin");
    let mut pip = Command::new(programs.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    shell::run(&mut pip)?;
    Ok(programs)
}
