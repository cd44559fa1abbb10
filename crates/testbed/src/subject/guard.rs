//! A guard of a subject: it waits for the end of kqps, whatever the cause, and then kills the subject's group.
//! The kernel kills only the process that kqps itself started; its children would go on. A guard is a shell, which is the
//! smallest program for it. On a system without a shell, such as a container of kqps alone, it is kqps again.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::programs;
use super::remains::ProcessGroup;

/// Reads until its standard input is closed, which the kernel does when kqps ends. A signal that ends all processes of
/// a session must not end the guard first. The empty line says that the guard stands. If the leader's number has become
/// that of a process with another start time (`proc_pid_stat(5)`, field 22), the group has ended, and nobody is killed.
const SCRIPT: &str = "trap '' TERM INT HUP; \
    started() { read -r line 2>/dev/null </proc/$0/stat && line=${line##*) } && set -- $line && echo ${20}; }; \
    began=$(started); echo; read -r _; now=$(started); \
    [ -z \"$now\" ] || [ \"$now\" = \"$began\" ] || exit 0; kill -s KILL -- \"-$0\"";

/// A guard process. Dropping it ends the guard.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// A guard of the process group with this leader, once it stands. `kqps` is the path of this program. An error if the
    /// guard ends before it stands.
    pub(super) fn new(leader: u32, kqps: &Path) -> io::Result<Self> {
        let command = match programs::find("sh") {
            Some(shell) => by_shell(&shell, leader),
            None => by_kqps(kqps, leader),
        };
        Self::start(command)
    }

    /// Starts a guard, which prints an empty line when it stands. Its standard input is closed when kqps ends.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        // In a group of its own, which no ^C reaches.
        command.process_group(0);
        // Every other child closes our end of the pipe, so no other process keeps it open.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guard = Self(command.spawn()?);
        // Until it ignores signals, one that ends all processes of a session would end it before kqps.
        let mut ready = [0];
        let read = guard.0.stdout.take().map(|mut output| output.read_exact(&mut ready));
        match read {
            Some(Ok(())) => Ok(guard),
            _ => Err(io::Error::other("the guard of a server did not start")),
        }
    }

    /// Writes a line to its standard input.
    pub(super) fn write_line(&mut self, line: &str) -> io::Result<()> {
        let input = self.0.stdin.as_mut();
        input.map_or(Ok(()), |input| input.write_all(format!("{line}\n").as_bytes()))
    }

    /// Closes its standard input, and waits for its end.
    #[cfg(test)]
    pub(super) fn close(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

fn by_shell(shell: &Path, leader: u32) -> Command {
    let mut command = Command::new(shell);
    command.args(["-c", SCRIPT, &leader.to_string()]);
    command
}

fn by_kqps(kqps: &Path, leader: u32) -> Command {
    let mut command = Command::new(kqps);
    command.args(["agent", "--guard-group", &leader.to_string()]);
    command
}

/// Prints an empty line, and waits for the end of standard input, which the kernel closes when the kqps that guards the
/// group ends. Then kills the group with this leader. The caller has blocked signals.
///
/// # Errors
///
/// If the number can be no leader's, or if the leader is a process that the guard's own parent did not start.
#[allow(clippy::disallowed_methods)] // a write that fails ends the guard with its error
pub fn stand_for_group(leader: u32) -> io::Result<()> {
    if leader == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no process group has process 0 as its leader",
        ));
    }
    // A leader that has ended may have left children. When the parent ended, both got the same new one.
    if parent_of(leader).is_some_and(|parent| parent != parent_id()) {
        let reason = format!("process {leader} was not started by the process that started its guard");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let group = ProcessGroup::with_leader(leader);
    let mut output = io::stdout().lock();
    output.write_all(b"\n")?;
    output.flush()?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    group.kill();
    Ok(())
}

/// The parent of a process (`PPid` in `proc_pid_status(5)`); `None` if there is no such process.
fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A guard that cannot be killed has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use kqps_kernel::process::{self, Signal, signal};

    use super::*;

    fn guard(leader: u32) -> Guard {
        Guard::new(leader, Path::new("/nonexistent/kqps")).unwrap()
    }

    fn sleeper() -> Child {
        Command::new("sh").args(["-c", "sleep 600 & wait"]).process_group(0).spawn().unwrap()
    }

    #[test]
    fn the_group_dies_when_the_pipe_is_closed() {
        let mut sleeper = sleeper();
        let mut guard = guard(sleeper.id());
        drop(guard.0.stdin.take());
        assert!(sleeper.wait().unwrap().to_string().contains("SIGKILL"));
    }

    #[test]
    fn a_later_process_with_the_number_of_the_leader_is_left_alone() {
        let mut sleeper = sleeper();
        // As if the leader had another start when the guard began.
        let script = SCRIPT.replace("began=$(started)", "began=1$(started)");
        let mut command = Command::new("sh");
        command.args(["-c", &script, &sleeper.id().to_string()]);
        let mut guard = Guard::start(command).unwrap();
        drop(guard.0.stdin.take());
        assert!(guard.0.wait().unwrap().success());
        assert!(sleeper.try_wait().unwrap().is_none(), "it is not killed");
        process::signal_group(sleeper.id(), Signal::Kill).unwrap();
        sleeper.wait().unwrap();
    }

    /// Whether a process ignores a signal (proc(5), `SigIgn`).
    fn ignores(pid: u32, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal.number() - 1)) != 0
    }

    #[test]
    fn the_group_of_process_0_has_no_guard() {
        let error = stand_for_group(0).unwrap_err();
        assert_eq!(error.to_string(), "no process group has process 0 as its leader");
    }

    #[test]
    fn a_guard_that_ends_at_once_is_an_error() {
        let error = Guard::start(Command::new("true")).unwrap_err();
        assert_eq!(error.to_string(), "the guard of a server did not start");
    }

    #[test]
    fn the_parent_of_a_process_is_known() {
        assert_eq!(parent_of(std::process::id()), Some(parent_id()));
        assert_eq!(parent_of(u32::MAX), None);
    }

    #[test]
    fn a_signal_to_all_processes_leaves_the_guard() {
        let mut sleeper = sleeper();
        let mut guard = guard(sleeper.id());
        for one in [Signal::Terminate, Signal::Interrupt, Signal::HangUp] {
            assert!(ignores(guard.0.id(), one), "it does not ignore {one:?}");
            signal(guard.0.id(), one).unwrap();
        }
        drop(guard.0.stdin.take());
        assert!(sleeper.wait().unwrap().to_string().contains("SIGKILL"));
    }

    #[test]
    fn nothing_happens_when_it_stands_down() {
        let mut sleeper = sleeper();
        drop(guard(sleeper.id()));
        assert!(sleeper.try_wait().unwrap().is_none());
        process::signal_group(sleeper.id(), Signal::Kill).unwrap();
        sleeper.wait().unwrap();
    }
}
