//! The Python environment of tests: the rate search is compared with its independent implementation, and programs by
//! others speak HTTP/2 and DNS over QUIC with kqps. It is made once, and again when its requirements change.

use std::ffi::OsStr;
use std::fs;

use anyhow::{Context as _, Result};

use super::packages;
use kqps_programs::python;

use crate::workspace;

/// The files of the packages to install in it.
const REQUIREMENTS: [&str; 2] =
    ["crates/verdict/tests/python/requirements.txt", "crates/kqps/tests/python/requirements.txt"];

/// Makes `target/venv`, unless it exists with exactly these requirements.
pub(super) fn make() -> Result<()> {
    let sources = REQUIREMENTS.map(|file| workspace::root().join(file));
    let mut wanted = String::new();
    for source in &sources {
        wanted += &fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
    }
    let venv = workspace::metadata()?.target_directory.join("venv");
    // Written last, so that a partly made environment is made again.
    let stamp = venv.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        eprintln!("{} is up to date", venv.display());
        return Ok(());
    }
    if !packages::has("python3-venv") {
        let missing = venv.display();
        eprintln!(
            "without python3-venv there is no {missing}, and the tests that need it fail or are skipped"
        );
        return Ok(());
    }
    let packages = sources.iter().flat_map(|source| [OsStr::new("--requirement"), source.as_os_str()]);
    python::environment(&venv, packages)?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}
