//! A guard of processes that kqps suspends: it waits for the end of kqps, whatever the cause, and then resumes them. A
//! server that kqps did not start would stand still for good otherwise. It is a shell or kqps again, as
//! [`super::guard`] is.

use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::process::Command;

use kqps_kernel::process::{self, Signal};

use super::guard::Guard;
use super::programs;

/// Reads lines, each with the number of a process and its start (`proc_pid_stat(5)`, field 22), until its standard input
/// is closed, which the kernel does when kqps ends. The empty line says that the guard stands.
const SCRIPT: &str = "trap '' TERM INT HUP; \
    started() { read -r line 2>/dev/null </proc/$1/stat && line=${line##*) } && set -- $line && echo ${20}; }; \
    echo; while read -r pid began; do set -- \"$@\" \"$pid $began\"; done; \
    for one; do [ \"$(started ${one% *})\" = \"${one#* }\" ] && kill -s CONT ${one% *}; done; true";

/// A guard of suspended processes. Dropping it ends the guard, and resumes none.
pub(crate) struct Resumer(Guard);

impl Resumer {
    /// A guard of no process yet, once it stands. `kqps` is the path of this program.
    ///
    /// # Errors
    ///
    /// If the guard cannot be started, or ends before it stands.
    pub(crate) fn new(kqps: &Path) -> io::Result<Self> {
        let command = if let Some(shell) = programs::find("sh") {
            let mut command = Command::new(shell);
            command.args(["-c", SCRIPT]);
            command
        } else {
            let mut command = Command::new(kqps);
            command.args(["agent", "--guard-suspended"]);
            command
        };
        Guard::start(command).map(Self)
    }

    /// Adds a process by its number and its start.
    ///
    /// # Errors
    ///
    /// If the guard has ended.
    pub(crate) fn add(&mut self, pid: u32, started: u64) -> io::Result<()> {
        self.0.write_line(&format!("{pid} {started}"))
    }

    /// Does as the end of kqps does, and waits for the end of the guard.
    #[cfg(test)]
    pub(crate) fn close(mut self) {
        self.0.close();
    }
}

/// Prints an empty line, and reads processes until the end of standard input, which the kernel closes when the kqps that
/// suspends them ends. Then resumes them. The caller has blocked signals.
///
/// # Errors
///
/// If a line has no process, or if standard input or output fails.
#[allow(clippy::disallowed_methods)] // a write that fails ends the guard with its error
pub fn stand_for_suspended() -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(b"\n")?;
    output.flush()?;
    let mut suspended = Vec::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let numbers =
            line.split_once(' ').and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)));
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, format!("`{line}` is no process and its start"));
        suspended.push(numbers.ok_or_else(wrong)?);
    }
    for (pid, started) in suspended {
        // It may have ended already.
        let _ = process::signal_if(pid, Signal::Continue, || kqps_host::started(pid) == Some(started));
    }
    Ok(())
}
