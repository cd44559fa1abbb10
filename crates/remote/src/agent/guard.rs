//! The guard of an agent: a process that waits for the agent's end, whatever the cause, and then removes what the agent
//! left. It is this program again, as `kqps agent --guard FOLDER`.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::dead::{self, LOCK};

/// The name of the folder of all agents.
pub(super) const HOME: &str = "agent";

/// A running guard.
#[derive(Debug)]
pub(super) struct FolderGuard(Child);

impl FolderGuard {
    /// Starts the guard of an agent's folder.
    pub(super) fn start(kqps: &Path, folder: &Path) -> io::Result<Self> {
        let mut command = Command::new(kqps);
        // In a group of its own, which no ^C reaches, and without the agent's output, whose end the other side awaits.
        command.args(["agent", "--guard"]).arg(folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    /// Ends the guard of an agent that left nothing.
    pub(super) fn stand_down(mut self) {
        // A guard that cannot be killed has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the end of the agent that has this folder, and removes what it left. Standard input ends with the agent.
///
/// # Errors
///
/// If the folder is none of an agent.
pub fn stand_guard(folder: &Path) -> io::Result<()> {
    if folder.parent().and_then(Path::file_name).is_none_or(|name| name != HOME) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no folder of an agent"));
    }
    let lock = File::open(folder.join(LOCK))?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    // The kernel closes the files of a dying process one by one. A file system without locks needs no wait.
    let _ = lock.lock();
    dead::remove(folder);
    Ok(())
}
