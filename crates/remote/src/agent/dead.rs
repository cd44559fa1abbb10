//! Remains of dead agents: processes of their subjects, and their folders.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use super::machine::Machine;
use kqps_testbed::subject::remains;

/// The file in an agent's folder that the agent keeps locked for as long as it lives.
pub(super) const LOCK: &str = "lock";

/// Ends the subjects that an agent left under its folder, and removes the folder.
pub(super) fn remove(folder: &Path) {
    remains::end_all_under(folder);
    // Another agent may be removing it as well.
    let _ = fs::remove_dir_all(folder);
}

/// Removes what dead agents of a machine left in the folder of all agents. No agent of this machine may be making its
/// folder meanwhile.
pub(super) fn remove_all_in(home: &Path, machine: &Machine) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let folder = entry.path();
        if machine.has(&entry.file_name()) && folder.is_dir() && is_dead(&folder) {
            remove(&folder);
        }
    }
}

/// Whether the agent of a folder has ended. The kernel releases the lock of an agent that ends in whatever way, in a
/// process namespace of its own too.
fn is_dead(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        // Its agent ended before it made the lock.
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}
