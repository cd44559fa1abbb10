//! A guard of a subject: it waits for the end of kqps, whatever the cause, and then kills the subject's group.
//! The kernel kills only the process that kqps itself started; its children would go on. A guard is a shell, which is the
//! smallest program for it. On a system without a shell, such as a container of kqps alone, it is kqps again.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kqps_kernel::process::{self, Signal};

use super::programs;

/// Reads until its standard input is closed, which the kernel does when kqps ends. A signal that ends all processes of
/// a session must not end the guard first.
const SCRIPT: &str = "trap '' TERM INT HUP; read -r _; kill -s KILL -- \"-$0\"";

/// One guard. Dropping it ends the guard.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// A guard of the process group with this leader. `kqps` is the path of this program.
    pub(super) fn of(leader: u32, kqps: &Path) -> io::Result<Self> {
        let command = match programs::find("sh") {
            Some(shell) => by_shell(&shell, leader),
            None => by_kqps(kqps, leader),
        };
        Self::start(command)
    }

    fn start(mut command: Command) -> io::Result<Self> {
        // In a group of its own, which no ^C reaches.
        command.process_group(0);
        // Every other child closes our end of the pipe, so no other process keeps it open.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
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

/// Waits for the end of standard input, which the kernel closes when the kqps that guards the group ends. Then kills the
/// group with this leader.
///
/// # Errors
///
/// If the number can be no leader's.
pub fn stand_for_group(leader: u32) -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    match process::signal_group(leader, Signal::Kill) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error),
        // A group that has ended needs no signal.
        _ => Ok(()),
    }
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
    use std::time::Instant;

    use kqps_kernel::process::signal;

    use super::*;

    fn guard(leader: u32) -> Guard {
        Guard::of(leader, Path::new("/nonexistent/kqps")).unwrap()
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

    /// Whether a process ignores a signal (proc(5), `SigIgn`).
    fn ignores(pid: u32, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
        u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal.number() - 1)) != 0
    }

    #[test]
    fn a_signal_to_all_processes_leaves_the_guard() {
        let mut sleeper = sleeper();
        let mut guard = guard(sleeper.id());
        let begun = Instant::now();
        for one in [Signal::Terminate, Signal::Interrupt, Signal::HangUp] {
            while !ignores(guard.0.id(), one) {
                assert!(begun.elapsed().as_secs() < 20, "it does not ignore {one:?}");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
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
