//! Loss of power: a file's content is on disk before it has its name.

use std::process::Command;

use kqps_skips::{Capability, skip};

/// The system calls of `kqps` with these arguments, as strace(1) prints them; `None` without the program, or without the
/// right to trace.
fn traced(folder: &std::path::Path, args: &[&str]) -> Option<String> {
    let log = folder.join("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-e", "trace=fsync,syncfs,/^rename", "-o"]).arg(&log);
    command.arg(env!("CARGO_BIN_EXE_kqps")).args(args).current_dir(folder);
    match command.output() {
        Ok(output) if output.status.success() => Some(std::fs::read_to_string(log).unwrap()),
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("PTRACE") => {
            skip(Capability::Programs, "strace may not trace here");
            None
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            skip(Capability::Programs, format!("strace: {error}"));
            None
        }
    }
}

/// The place of the first line with all these words.
fn place(log: &str, words: &[&str]) -> usize {
    let is_it = |line: &str| words.iter().all(|word| line.contains(word));
    log.lines().position(is_it).unwrap_or_else(|| panic!("no line has {words:?}:\n{log}"))
}

#[test]
fn a_file_is_on_disk_before_its_name_and_its_name_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["gen", "zone", "--origin", "bench.test", "--records", "10", "-o", "bench.zone"];
    let Some(log) = traced(folder.path(), &args) else { return };
    let name = place(&log, &["rename", "bench.zone"]);
    assert!(place(&log, &["fsync(", ".unfinished-"]) < name, "{log}");
    let ends = format!("{}>)", folder.path().display());
    assert!(log.lines().skip(name).any(|line| line.contains("fsync(") && line.contains(&ends)), "{log}");
}

#[test]
fn a_folder_is_on_disk_before_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = ["--set", "zones=10", "--set", "records=10k"];
    let args = [&["gen", "zone", "--recipe", "windows-mix", "-o", "made"][..], &sizes[..]].concat();
    let Some(log) = traced(folder.path(), &args) else { return };
    let name = place(&log, &["rename", "made"]);
    assert!(place(&log, &["syncfs(", ".unfinished-"]) < name, "{log}");
}
