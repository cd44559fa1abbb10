//! A chore that the user interrupts leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal, tie};
use kqps_skips::{Capability, skip};

#[test]
fn an_interrupted_proof_leaves_no_folder() {
    let place = tempfile::tempdir().unwrap();
    let folders = place.path().join("folders");
    fs::create_dir(&folders).unwrap();
    // It writes into the folder until it is killed.
    let program = script(
        place.path(),
        r#"while :; do n=$((n + 1)); for folder in "$TMPDIR"/.tmp*/; do : > "$folder$n"; done; done"#,
    );
    for (by, status) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
        let mut proof = prove("freeze", &program).env("TMPDIR", &folders).spawn().unwrap();
        wait_until("a folder is written into", || {
            let folder = fs::read_dir(&folders).unwrap().next();
            folder.is_some_and(|folder| folder.unwrap().path().join("9").exists())
        });
        signal(proof.id(), by).unwrap();
        assert_eq!(proof.wait().unwrap().code(), Some(status));
        assert_eq!(fs::read_dir(&folders).unwrap().count(), 0);
    }
}

#[test]
fn an_interrupted_proof_leaves_no_control_group() {
    let place = tempfile::tempdir().unwrap();
    let written = place.path().join("groups");
    // An echo that prints an address, and a player that writes its control groups to a file.
    let program = script(
        place.path(),
        &format!(
            r#"case $1 in
            serve) echo '{{"kind": "ready", "addresses": ["127.0.0.1:9"]}}' ;;
            *) cat /proc/self/cgroup > "{0}.part" && mv "{0}.part" "{0}" ;;
            esac
            exec sleep 60"#,
            written.display()
        ),
    );
    let mut proof = prove("starved", &program).spawn().unwrap();
    wait_until("a player was started", || written.exists());
    let name = format!("kqps-starved-{}", proof.id());
    let groups = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let roots = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        roots.map(|root| Path::new(root).join(&name)).filter(|group| group.exists()).count()
    };
    let before = groups();
    signal(proof.id(), Signal::Interrupt).unwrap();
    assert_eq!(proof.wait().unwrap().code(), Some(130));
    if fs::read_to_string(&written).unwrap().contains(&name) {
        assert!(before > 0, "the group is in none of the places that were looked at");
        assert_eq!(groups(), 0);
    } else {
        skip(Capability::ControlGroups, "no control group can be made here");
    }
}

/// A program that stands in for kqps.
fn script(place: &Path, lines: &str) -> PathBuf {
    let program = place.join("kqps");
    fs::write(&program, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn prove(name: &str, program: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kqps-proofs"));
    tie(command.args(["prove", name, "--program"]).arg(program));
    command
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "never so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
