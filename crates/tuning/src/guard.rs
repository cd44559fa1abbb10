//! The guard: a process that waits for the end of the process that holds settings, whatever ends it, and then undoes
//! them.

use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::journal::{Journal, JournalError};
use crate::owner::Owner;
use crate::system::System;
use crate::undo::{Undone, undo_of};

/// The line that a guard prints once it waits.
pub const READY: &str = "guarding";

/// The guard of this process. Dropping it ends the guard.
pub struct Guard {
    child: Child,
    journal: Journal,
    owner: Owner,
}

impl Guard {
    /// Starts the guard of this process, and returns when it waits. `kqps` is the path of this program.
    pub fn start(kqps: &Path, journal: Journal) -> io::Result<Self> {
        let owner = Owner::this_process();
        let mut command = Command::new(kqps);
        command.args(["host", "guard", "--journal"]).arg(journal.folder());
        command.args(["--pid", &owner.pid.to_string(), "--started", &owner.started.to_string()]);
        command.args(["--namespace", &owner.namespace.to_string()]);
        // In a group of its own, which no ^C reaches. Every other child closes our end of the pipe.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        if line.trim() != READY {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other("the guard of host settings did not start"));
        }
        Ok(Self { child, journal, owner })
    }

    /// The journal of the settings.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// This process, which the guard watches.
    pub fn owner(&self) -> Owner {
        self.owner
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The guard reads to the end of the pipe, finds nothing to undo, and ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Waits until `alive` is closed, which the kernel does when its owner ends. Then undoes what the owner holds.
pub fn stand(
    system: &dyn System,
    journal: &Journal,
    owner: Owner,
    mut alive: impl Read,
) -> Result<Undone, JournalError> {
    let mut bytes = [0; 64];
    loop {
        match alive.read(&mut bytes) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    undo_of(system, journal, owner)
}
