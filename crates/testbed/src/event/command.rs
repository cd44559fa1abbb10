//! Commands of events: each in a process group of its own. A command that goes on for too long is ended with its group. If
//! kqps is killed, the kernel ends the command, but not its children. A program that the command leaves behind goes on,
//! such as a server that a script restarts.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use kqps_kernel::process::{self, Signal};

use super::over::{GRACE, Over};

/// The interval at which a command is looked after.
const LOOK: Duration = Duration::from_millis(1);

/// The bytes of output that are looked at for the reason of a failure.
const TAIL_BYTES: u64 = 4096;

/// A command that runs.
pub(crate) struct Started {
    child: Child,
    /// A file without a name: a program that outlives the command may hold it.
    output: File,
}

/// Starts a command without input.
pub(crate) fn start(mut command: Command) -> io::Result<Started> {
    let output = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    // The kernel ends the command with this thread, which waits for it.
    process::tie(&mut command);
    Ok(Started { child: command.spawn()?, output })
}

impl Started {
    /// Waits until it ends, for [`GRACE`] after the end of the load at most. Its group is killed then.
    pub(crate) fn wait(mut self, over: &Over) -> Result<(), String> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(self.failure(status)),
                Ok(None) => (),
                Err(error) => return Err(format!("waiting for it: {error}")),
            }
            if over.is_long_over() {
                // It may have ended meanwhile.
                let _ = process::signal_group(self.child.id(), Signal::Kill);
                let _ = self.child.wait();
                return Err(format!("it ran {GRACE:?} after the end of the load, and was ended"));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn failure(&mut self, status: ExitStatus) -> String {
        let how = match status.code() {
            Some(code) => format!("it ended with status {code}"),
            // `Display` of the status names the signal.
            None => format!("it was ended by {status}"),
        };
        match self.last_line() {
            Some(line) => format!("{how}: {line}"),
            None => how,
        }
    }

    /// The last line that it printed, if it printed any.
    fn last_line(&mut self) -> Option<String> {
        let bytes = self.output.seek(SeekFrom::End(0)).ok()?;
        self.output.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES))).ok()?;
        let mut tail = Vec::new();
        (&self.output).take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
        let text = String::from_utf8_lossy(&tail).into_owned();
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_that_fails_says_why_in_its_last_line() {
        let over = Over::default();
        assert_eq!(start(sh("exit 0")).unwrap().wait(&over), Ok(()));
        let failed = start(sh("echo one; echo two >&2; echo; exit 3")).unwrap().wait(&over);
        assert_eq!(failed, Err("it ended with status 3: two".into()));
        assert_eq!(start(sh("exit 4")).unwrap().wait(&over), Err("it ended with status 4".into()));
        let killed = start(sh("kill -KILL $$")).unwrap().wait(&over).unwrap_err();
        assert!(killed.starts_with("it was ended by signal: 9"), "{killed}");
    }

    #[test]
    fn a_command_that_cannot_be_started_is_an_error() {
        assert!(start(Command::new("/nonexistent/program")).is_err());
    }
}
