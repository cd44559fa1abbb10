//! A program that runs beside a server of kqps for as long as that does, such as a resolver in the server's network. Its
//! output is the user's. It and all that it started die with kqps, however kqps ends.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use kqps_kernel::process::{self, Signal};

use super::guard::Guard;
use super::remains::{self, Remains};

/// The interval at which a program that was asked to end is checked.
const LOOK: Duration = Duration::from_millis(5);

/// A running program. When it is dropped, no process of it is left.
#[derive(Debug)]
pub struct Companion {
    child: Child,
    remains: Remains,
    guard: Option<Guard>,
}

impl Companion {
    /// Starts the program. `folder` marks all processes that it starts, and nothing else has it. `kqps` is the path of
    /// this program. The kernel kills the child when the calling thread ends, so the main thread must call this.
    pub fn spawn(mut command: Command, folder: &Path, kqps: &Path) -> io::Result<Self> {
        command.env(remains::MARK, folder);
        process::tie_kqps(process::unblock_signals(&mut command));
        let child = command.spawn()?;
        let remains = Remains::new(child.id(), folder);
        let mut started = Self { child, remains, guard: None };
        started.guard = Some(Guard::new(started.child.id(), kqps)?);
        Ok(started)
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks its whole group to end, and waits for that for `within` at most. Then kills what is left.
    pub fn stop(mut self, within: Duration) {
        // It may have ended already.
        let _ = process::signal_group(self.child.id(), Signal::Terminate);
        let deadline = Instant::now() + within;
        while Instant::now() < deadline && (matches!(self.ended(), Ok(None)) || self.remains.live()) {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.remains.kill();
        let _ = self.child.wait();
        self.guard = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_program_and_of_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("started");
        let mut command = Command::new("sh");
        // The second sleep leaves the group, and ignores what asks it to end.
        let script = "trap '' TERM; setsid sleep 600 & sleep 600 & touch \"$0\"; wait";
        command.args(["-c", script, file.to_str().unwrap()]);
        let mut companion = Companion::spawn(command, folder.path(), Path::new("/nonexistent/kqps")).unwrap();
        while !file.exists() {
            assert_eq!(companion.ended().unwrap(), None);
            std::thread::sleep(LOOK);
        }
        let own = companion.child.id();
        companion.stop(Duration::from_millis(20));
        assert!(!kqps_host::lives(own));
        let marked = |pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mark = folder.path().as_os_str().as_encoded_bytes();
            environment.windows(mark.len()).any(|part| part == mark)
        };
        assert_eq!(kqps_host::processes().find(|pid| *pid != std::process::id() && marked(*pid)), None);
    }
}
