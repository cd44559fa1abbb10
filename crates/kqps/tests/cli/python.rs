//! Programs in Python that speak a protocol by another implementation.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kqps_skips::{Capability, skip};

/// A call of a script of `tests/python`, whose package must be in the environment that `cargo xtask test` makes.
/// `None`, and a skip, if it is not.
#[track_caller]
pub(crate) fn script(name: &str, package: &str) -> Option<Command> {
    let python = target_directory().join("venv/bin/python");
    let import = format!("import {package}");
    let mut check = Command::new(&python);
    check.args(["-c", &import]).stdout(Stdio::null()).stderr(Stdio::null());
    if !check.status().is_ok_and(|status| status.success()) {
        let place = python.display();
        skip(Capability::Programs, format!("{package} is not in {place}; `cargo xtask test` installs it"));
        return None;
    }
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name));
    Some(command)
}

/// The target directory of cargo: the directory above this test that carries cargo's tag.
fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let tagged = test.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists());
    tagged.expect("cargo tags its target directory").to_owned()
}
