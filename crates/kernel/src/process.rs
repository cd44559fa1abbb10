//! Child processes that cannot outlive their parent, and descriptors handed down to them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::sys::check;

/// Signals that a controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: what ^C sends.
    Interrupt,
    /// SIGTERM: please end.
    Terminate,
    /// SIGKILL: end.
    Kill,
    /// SIGSTOP: freeze.
    Stop,
    /// SIGCONT: go on.
    Continue,
    /// SIGHUP: read your files again, for those that never end.
    HangUp,
}

impl Signal {
    /// Its number (signal(7)).
    pub fn number(self) -> libc::c_int {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::Kill => libc::SIGKILL,
            Self::Stop => libc::SIGSTOP,
            Self::Continue => libc::SIGCONT,
            Self::HangUp => libc::SIGHUP,
        }
    }
}

/// Makes the child leader of a process group of its own, so that it and its children can be signalled
/// together, and has the kernel kill it when the thread that starts it ends.
pub fn tie(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    command.process_group(0);
    // SAFETY: between fork and exec only signal, prctl and getppid are called, which are plain system calls.
    unsafe {
        command.pre_exec(move || {
            // A program that was started under nohup ignores hang-ups, and a shell that does cannot trap them.
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))?;
            // The parent may have died before the kernel was told.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        })
    }
}

/// Hands a descriptor down: the child finds it open under the number returned. The copy that the command
/// holds is closed with the command.
pub fn hand_down(command: &mut Command, descriptor: impl AsFd) -> io::Result<RawFd> {
    let copy = descriptor.as_fd().try_clone_to_owned()?;
    let number = copy.as_raw_fd();
    // SAFETY: between fork and exec only fcntl is called, on a descriptor that the closure keeps open.
    unsafe {
        command.pre_exec(move || {
            // All flags off, close-on-exec among them.
            check(libc::fcntl(copy.as_raw_fd(), libc::F_SETFD, 0)).map(drop)
        })
    };
    Ok(number)
}

/// A descriptor that the parent handed down, as one of our own: a copy, since nobody can promise that the
/// number is not used elsewhere.
pub fn handed_down(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory, and fails on a number that is not open.
    let copy = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the descriptor was just made, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Sends a signal to one process.
pub fn signal(process: u32, signal: Signal) -> io::Result<()> {
    send(pid(process)?, signal)
}

/// Sends a signal to every process of a group.
pub fn signal_group(leader: u32, signal: Signal) -> io::Result<()> {
    send(-pid(leader)?, signal)
}

/// Sets the niceness of every thread of a group (setpriority(2)): -20 to 19, beyond which the kernel takes the
/// nearest. Less than it was needs the right to (`CAP_SYS_NICE`).
pub fn set_group_niceness(leader: u32, niceness: i32) -> io::Result<()> {
    let group = pid(leader)? as libc::id_t;
    // SAFETY: the call touches no memory.
    check(unsafe { libc::setpriority(libc::PRIO_PGRP, group, niceness) }).map(drop)
}

/// A process's number, which must name one: 0 and 1 would mean "my group" and "everybody" when negated.
fn pid(process: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(process)
        .ok()
        .filter(|&pid| pid > 1)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("no process {process} to signal")))
}

fn send(pid: libc::pid_t, signal: Signal) -> io::Result<()> {
    // SAFETY: the call touches no memory.
    check(unsafe { libc::kill(pid, signal.number()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_group_is_signalled_together() {
        // The inner sleep is in the group as well, and holds the pipe open until it ends.
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & wait"]).stdout(Stdio::piped());
        let mut child = tie(&mut command).spawn().unwrap();
        signal_group(child.id(), Signal::Terminate).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        let mut rest = Vec::new();
        child.stdout.unwrap().read_to_end(&mut rest).unwrap();
        assert!(signal_group(1, Signal::Kill).is_err());
        assert!(signal(0, Signal::Kill).is_err());
    }

    #[test]
    fn a_group_is_made_nice_together() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & wait"]);
        let mut child = tie(&mut command).spawn().unwrap();
        set_group_niceness(child.id(), 7).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        // The 19th field (proc(5)); the second, the name, is in brackets.
        let niceness = stat.rsplit(") ").next().unwrap().split(' ').nth(16);
        signal_group(child.id(), Signal::Kill).unwrap();
        child.wait().unwrap();
        assert_eq!(niceness, Some("7"));
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let mut child =
            std::thread::spawn(|| tie(&mut Command::new("sleep")).arg("60").spawn().unwrap()).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_child_can_be_told_to_hang_up_whatever_its_parent_ignores() {
        // SAFETY: no handler is installed, and no other test of this process hangs up.
        let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let mut child = tie(Command::new("sleep").arg("60")).spawn().unwrap();
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGHUP, before) };
        signal(child.id(), Signal::HangUp).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGHUP));
    }

    #[test]
    fn a_descriptor_is_handed_down() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"handed down").unwrap();
        let mut command = Command::new("sh");
        let number = hand_down(&mut command, &file).unwrap();
        command.args(["-c", &format!("wc -c < /proc/self/fd/{number}")]);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "11");
        assert!(handed_down(file.as_raw_fd()).is_ok());
        assert!(handed_down(1_000_000).is_err());
    }
}
