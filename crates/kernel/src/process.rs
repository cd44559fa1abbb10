//! Child processes that cannot outlive their parent, and descriptors that they inherit.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, getpgrp, getpid, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, setpriority_pgrp, setsid, test_kill_process,
};

use crate::priority;
use crate::sys::owned;

/// The variable in the environment of a child of [`tie_kqps`] that has the ID of the parent.
const TIED_TO: &str = "KQPS_TIED_TO";

/// Signals that this crate can send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, as from Ctrl-C.
    Interrupt,
    /// SIGTERM: a request to end.
    Terminate,
    /// SIGKILL: ends the process at once.
    Kill,
    /// SIGSTOP: suspends the process.
    Stop,
    /// SIGCONT: resumes the process.
    Continue,
    /// SIGHUP: makes most daemons reload their files.
    HangUp,
    /// SIGUSR1: its meaning is the program's own.
    User1,
    /// SIGUSR2: its meaning is the program's own.
    User2,
}

impl Signal {
    fn of_kernel(self) -> rustix::process::Signal {
        match self {
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
            Self::Stop => rustix::process::Signal::STOP,
            Self::Continue => rustix::process::Signal::CONT,
            Self::HangUp => rustix::process::Signal::HUP,
            Self::User1 => rustix::process::Signal::USR1,
            Self::User2 => rustix::process::Signal::USR2,
        }
    }

    /// The signal's number (signal(7)).
    pub fn number(self) -> i32 {
        self.of_kernel().as_raw()
    }
}

/// The number of the user whose rights this process has (`geteuid(2)`).
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes the child the leader of a new process group, so that it and its children can be signalled together.
/// The kernel kills the child when the thread that started it ends.
pub fn tie(command: &mut Command) -> &mut Command {
    command.process_group(0);
    end_with_parent(command)
}

fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec the closure calls only signal, prctl and getppid, which are plain system
    // calls.
    unsafe {
        command.pre_exec(move || {
            // A program started under nohup ignores SIGHUP. Its children inherit that, and a shell could not
            // trap the signal.
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            die_with_parent()?;
            // The parent may have died before that call.
            if parent_id() != parent {
                return Err(Errno::SRCH.into());
            }
            Ok(())
        })
    }
}

/// Ties a child that may be this program, as [`tie`] does. Such a child calls [`stay_tied`] when it begins: if its file
/// has capabilities and the user is not root, the kernel forgets the tie when it executes the file (prctl(2),
/// `PR_SET_PDEATHSIG`).
pub fn tie_kqps(command: &mut Command) -> &mut Command {
    command.env(TIED_TO, std::process::id().to_string());
    tie(command)
}

/// Ties a child whose speed is measured, as [`tie_kqps`] does. The child leads a session of its own, and where this
/// process has the right to it ([`priority::favour`]), other programs wait for the child and not the child for them.
pub fn tie_measured(command: &mut Command) -> &mut Command {
    command.env(TIED_TO, std::process::id().to_string());
    // SAFETY: between fork and exec the closure calls only setsid and calls of `favour`, which are plain system calls.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            priority::favour();
            Ok(())
        })
    };
    end_with_parent(command)
}

/// Ties this process to its parent again if the parent started it by [`tie_kqps`]. Fails if the parent has ended.
pub fn stay_tied() -> io::Result<()> {
    let parent = std::env::var(TIED_TO).ok().and_then(|text| text.parse::<u32>().ok());
    let Some(parent) = parent else { return Ok(()) };
    if parent_id() == parent {
        die_with_parent()?;
        // The parent may have died before that call.
        if parent_id() == parent {
            return Ok(());
        }
    } else if !leads_its_group() || lives(parent) {
        // Another program was started so, and it started this one.
        return Ok(());
    }
    Err(io::Error::other("the process that started this one has ended"))
}

/// Makes the kernel kill this process when the thread that started it ends.
fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::Kill.of_kernel()))?)
}

/// Whether this process leads its group, as a tied child does. The children of a tied child usually do not.
fn leads_its_group() -> bool {
    getpgrp() == getpid()
}

/// Whether there is a process with this ID.
fn lives(process: u32) -> bool {
    Pid::from_raw(process as i32).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Makes the child start with no signal blocked. A server that reads its signals from a descriptor blocks them
/// ([`crate::signal::Signals`]), and a child would inherit that.
pub fn unblock_signals(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec the closure calls only functions that are safe in a signal handler.
    unsafe {
        command.pre_exec(|| {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            Ok(())
        })
    }
}

/// Makes the child inherit a descriptor, open under the number returned. The command holds a copy, which is
/// closed with the command.
pub fn hand_down(command: &mut Command, descriptor: impl AsFd) -> io::Result<RawFd> {
    let copy = descriptor.as_fd().try_clone_to_owned()?;
    let number = copy.as_raw_fd();
    // SAFETY: between fork and exec the closure calls only fcntl, on a descriptor that it keeps open.
    unsafe {
        command.pre_exec(move || {
            // Clears all flags, close-on-exec among them.
            Ok(fcntl_setfd(&copy, FdFlags::empty())?)
        })
    };
    Ok(number)
}

/// Takes a descriptor inherited from the parent. Returns a copy, because the number may be in use elsewhere in
/// this process.
pub fn handed_down(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory, and fails on a number that is not open.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    owned(copy.into())
}

/// Sends a signal to one process. Fails if no such process exists.
pub fn signal(process: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process(pid(process)?, signal.of_kernel())?)
}

/// Whether this process may send signals to a process (`kill(2)` with the signal 0); the kernel's error otherwise.
pub fn check_signal(process: u32) -> io::Result<()> {
    Ok(test_kill_process(pid(process)?)?)
}

/// Sends a signal to a process that was found by its number, if `is_it` recognises the process that has this number
/// now. The kernel's handle is opened before `is_it` reads anything (`pidfd_open(2)`), so the signal cannot reach a later
/// process with the same number. A kernel without such handles (before 5.3) gets the signal right after the check.
///
/// Returns whether the process was recognised. Fails if there is no such process.
pub fn signal_if(process: u32, signal: Signal, is_it: impl FnOnce() -> bool) -> io::Result<bool> {
    let pid = pid(process)?;
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        // A filter of system calls that does not know the call forbids it.
        Err(Errno::NOSYS | Errno::PERM) => None,
        Err(error) => return Err(error.into()),
    };
    if !is_it() {
        return Ok(false);
    }
    match handle {
        Some(handle) => pidfd_send_signal(handle, signal.of_kernel())?,
        None => kill_process(pid, signal.of_kernel())?,
    }
    Ok(true)
}

/// Sends a signal to every process of a group, by the process ID of its leader.
pub fn signal_group(leader: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process_group(pid(leader)?, signal.of_kernel())?)
}

/// Sets the niceness of every thread of a process group (setpriority(2)), -20 to 19; the kernel clamps other
/// values. Lowering it requires `CAP_SYS_NICE`.
pub fn set_group_niceness(leader: u32, niceness: i32) -> io::Result<()> {
    Ok(setpriority_pgrp(Some(pid(leader)?), niceness)?)
}

/// Checks a process ID. 0 and 1 are errors: negated, they would mean "my group" and "all processes".
fn pid(process: u32) -> io::Result<Pid> {
    i32::try_from(process)
        .ok()
        .filter(|&pid| pid > 1)
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("no process {process} to signal")))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_group_is_signalled_together() {
        // The inner sleep is also in the group, and keeps the pipe open until it ends.
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
    fn a_process_is_signalled_only_if_it_is_recognised() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        assert!(!signal_if(pid, Signal::Kill, || false).unwrap());
        assert!(lives(pid) && child.try_wait().unwrap().is_none());
        // A process that ends while it is checked is not confused with its successor: its handle finds nobody.
        let gone = signal_if(pid, Signal::Kill, || {
            signal(pid, Signal::Kill).unwrap();
            child.wait().unwrap();
            true
        });
        assert_eq!(gone.unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(check_signal(pid).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(check_signal(child.id()).is_ok());
        assert!(signal_if(child.id(), Signal::Kill, || true).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(signal_if(1, Signal::Kill, || true).is_err());
    }

    #[test]
    fn a_group_is_made_nice_together() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 60 & wait"]);
        let mut child = tie(&mut command).spawn().unwrap();
        set_group_niceness(child.id(), 7).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        // The 19th field (proc(5)). The second field, the name, is in brackets.
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
    fn a_child_obeys_sighup_whatever_its_parent_ignores() {
        // SAFETY: no handler is installed, and no other test of this process uses SIGHUP.
        let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let mut child = tie(Command::new("sleep").arg("60")).spawn().unwrap();
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGHUP, before) };
        signal(child.id(), Signal::HangUp).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGHUP));
    }

    #[test]
    fn a_child_gets_signals_that_its_parent_blocks() {
        let blocked_in = |command: &mut Command| {
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            u64::from_str_radix(text.trim().trim_start_matches("SigBlk:").trim(), 16).unwrap()
        };
        std::thread::spawn(move || {
            let _signals = crate::signal::Signals::take(true).unwrap();
            let read = || {
                let mut command = Command::new("grep");
                command.args(["SigBlk", "/proc/self/status"]);
                command
            };
            assert_ne!(blocked_in(&mut read()), 0, "children inherit it");
            assert_eq!(blocked_in(unblock_signals(&mut read())), 0);
        })
        .join()
        .unwrap();
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
