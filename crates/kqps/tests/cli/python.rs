//! The environment of Python in which programs by others play the other side. `cargo xtask test` makes it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kqps_skips::{Capability, skip};

/// A script of `tests/python`, to be run with this module, which it imports; `None` if the environment lacks that,
/// which is reported as a skip.
#[track_caller]
pub(crate) fn script(name: &str, module: &str) -> Option<Command> {
    let python = target_directory().join("venv/bin/python");
    let needed = "crates/kqps/tests/python/requirements.txt";
    if !can_import(&python, module) {
        let reason = format!(
            "{} lacks {module}, which {needed} lists; `cargo xtask test` installs it",
            python.display()
        );
        skip(Capability::Programs, reason);
        return None;
    }
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Some(command)
}

fn can_import(python: &Path, module: &str) -> bool {
    let mut import = Command::new(python);
    import.args(["-c", &format!("import {module}")]).stdout(Stdio::null()).stderr(Stdio::null());
    import.status().is_ok_and(|status| status.success())
}

/// The target directory of cargo: the directory above this test that carries cargo's tag.
fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let tagged = test.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists());
    tagged.expect("cargo tags its target directory").to_owned()
}
