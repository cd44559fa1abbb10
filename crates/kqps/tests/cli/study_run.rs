//! A run of a study, and what is stored of it.

use std::process::{Command, Stdio};

use kqps_observation::{Run, Store};

/// Runs a study with these flags. Returns what was stored, and what was printed.
pub(crate) fn played(study: &str, flags: &[&str]) -> (Run, String) {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("study.toml"), folder.path().join("out"));
    std::fs::write(&file, study).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps"));
    command.arg("run").arg(&file).args(["--seed", "5", "--out"]).arg(&out).args(flags);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let run = Store::read(&out.join("run.sqlite")).unwrap_or_else(|error| panic!("{error}: {said}"));
    (run, said)
}
