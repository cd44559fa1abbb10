//! A disk that fills up. The commit that does not fit returns an error for this case, everything before it is
//! intact, and the run goes on once there is room.

use std::path::Path;
use std::process::Command;

use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::{Cell, Run, RunTrial, Store, StoreError};
use kqps_skips::{Capability, skip};
use tempfile::TempDir;

fn a_run() -> Run {
    Run { cells: vec![Cell::default()], ..Run::default() }
}

/// About 20 kB, like a trial with its histograms.
fn a_trial(number: u64) -> RunTrial {
    let output = (0..200).map(|line| format!("{number} {line:0100}")).collect();
    let outcome = Outcome::Failed { reason: "it is only a test".into(), output };
    RunTrial { number, cell: 0, block: 0, start: 1, purpose: Purpose::Search, outcome }
}

/// Commits until the disk is full, checks that nothing is lost, makes room, and goes on.
fn fill(folder: &Path) {
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![0; 300_000]).unwrap();
    let path = &folder.join("run.sqlite");
    let store = Store::create(path, &a_run()).unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match store.commit(&a_trial(acknowledged + 1)) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("no space is left"), "{error}");
    assert!(acknowledged > 5, "only {acknowledged} trials fitted");
    let expected: Vec<RunTrial> = (1..=acknowledged).map(a_trial).collect();
    assert_eq!(store.run().unwrap().trials, expected);
    assert!(matches!(store.commit(&a_trial(acknowledged + 1)), Err(StoreError::Full { .. })));

    std::fs::remove_file(ballast).unwrap();
    store.commit(&a_trial(acknowledged + 1)).unwrap();
    drop(store);
    let resumed = Store::open(path).unwrap();
    assert_eq!(resumed.next_number().unwrap(), acknowledged + 2);
    assert_eq!(resumed.run().unwrap().trials.len() as u64, acknowledged + 1);
}

const FOLDER: &str = "KQPS_TEST_SMALL_DISK";

/// The test below runs this test again, within a mount namespace where [`FOLDER`] is a disk of 1 MiB.
#[test]
fn on_a_small_disk() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    fill(Path::new(&folder));
    println!("held");
}

#[test]
fn a_full_disk_loses_nothing() {
    let folder = TempDir::new().unwrap();
    // Only this child sees the mount, and the mount ends with it.
    let script = r#"mount -t tmpfs -o size=1M none "$1" || exit 77; exec "$2" --exact store_full::on_a_small_disk --nocapture"#;
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .output();
    let output = match child {
        Err(error) => return skip(Capability::Mounts, format!("unshare cannot be run: {error}")),
        Ok(output) => output,
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || text.contains("unshare failed") {
        return skip(Capability::Mounts, text);
    }
    assert!(output.status.success() && text.contains("held"), "{text}");
}
