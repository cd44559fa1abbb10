//! A chore that the user interrupts leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use kqps_kernel::process::{Signal, signal};

#[test]
fn an_interrupted_proof_leaves_no_folder() {
    let place = tempfile::tempdir().unwrap();
    let (program, folders) = (place.path().join("never-ready"), place.path().join("folders"));
    fs::create_dir(&folders).unwrap();
    fs::write(&program, "#!/bin/sh\nexec sleep 60\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for (by, status) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["prove", "freeze", "--program"]).arg(&program).env("TMPDIR", &folders);
        let mut proof = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while fs::read_dir(&folders).unwrap().next().is_none() {
            assert!(Instant::now() < deadline, "no folder was made");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(proof.id(), by).unwrap();
        assert_eq!(proof.wait().unwrap().code(), Some(status));
        assert_eq!(fs::read_dir(&folders).unwrap().count(), 0);
    }
}
