//! Commands of events: each in a process group of its own. A command that goes on for too long is ended with its group. If
//! kqps is killed, the kernel ends the command, but not its children. A program that the command leaves behind goes on,
//! such as a server that a script restarts.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use kqps_kernel::process::{self, Signal};

use super::over::{GRACE, Over};

/// The interval at which a command is looked after.
const LOOK: Duration = Duration::from_millis(1);

/// The bytes at the end of the output that are read for the reason of a failure.
const TAIL_BYTES: usize = 4096;

/// The bytes of output that are stored at most while the command runs, apart from those of one interval.
const STORED_BYTES: u64 = 1 << 20;

/// A command that runs.
pub(crate) struct Started {
    child: Child,
    /// A file without a name: a program that outlives the command may hold it, and would end by SIGPIPE on a pipe.
    output: File,
    /// The end of the output that was dropped from the file.
    dropped: Vec<u8>,
}

/// Starts a command without input.
pub(crate) fn start(mut command: Command) -> io::Result<Started> {
    let output = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    // The kernel ends the command with this thread, which waits for it.
    process::tie(&mut command);
    Ok(Started { child: command.spawn()?, output, dropped: Vec::new() })
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
            self.bound_output();
            std::thread::sleep(LOOK);
        }
    }

    /// Empties the file if it has become large, so that a command without end does not fill the disk.
    fn bound_output(&mut self) {
        if self.output.metadata().is_ok_and(|file| file.len() > STORED_BYTES) {
            self.dropped = self.tail();
            // The command writes at the offset of this file, which it shares (open(2)).
            let _ = self.output.rewind().and_then(|()| self.output.set_len(0));
        }
    }

    /// The end of the file.
    fn tail(&self) -> Vec<u8> {
        let bytes = self.output.metadata().map_or(0, |file| file.len());
        let mut tail = vec![0; TAIL_BYTES];
        let read = self.output.read_at(&mut tail, bytes.saturating_sub(TAIL_BYTES as u64));
        tail.truncate(read.unwrap_or(0));
        tail
    }

    fn failure(&self, status: ExitStatus) -> String {
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
    fn last_line(&self) -> Option<String> {
        let last = [&self.dropped[..], &self.tail()].concat();
        let text = String::from_utf8_lossy(&last);
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
    fn the_output_of_a_command_without_end_is_bounded() {
        let mut started =
            start(sh("head -c 3000000 /dev/zero; echo; echo two; kill -STOP $$; exit 3")).unwrap();
        let pid = started.child.id();
        // It stands still when it has printed all (`T` in `proc_pid_stat(5)`).
        let stands = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
        while !stands() {
            std::thread::yield_now();
        }
        started.bound_output();
        assert_eq!(started.output.metadata().unwrap().len(), 0);
        process::signal_group(pid, Signal::Continue).unwrap();
        assert_eq!(started.wait(&Over::default()), Err("it ended with status 3: two".into()));
    }

    #[test]
    fn a_command_that_cannot_be_started_is_an_error() {
        assert!(start(Command::new("/nonexistent/program")).is_err());
    }
}
