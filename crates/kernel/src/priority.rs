//! Scheduling priority of a thread.

use std::io;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::write;
use rustix::process::setpriority_process;

use crate::sys::check;

/// The niceness of threads that yield least.
const FAVOURED: i32 = -20;

/// Makes the calling thread run before all ordinary threads of its core whenever it has work (`SCHED_FIFO` at the
/// lowest priority, sched(7)). Threads and processes that it starts are ordinary. Requires `CAP_SYS_NICE` or a limit
/// of `RLIMIT_RTPRIO`. A thread that uses more than 95 % of a second is stopped for the rest of that second, even if
/// no other thread wants the core (`sched_rt_runtime_us`).
pub fn run_first() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, 1)
}

/// Makes the calling thread an ordinary one again, with niceness -20 if it may set that (`CAP_SYS_NICE`, or a limit
/// of `RLIMIT_NICE`). Threads and processes that it starts have the default niceness.
pub fn yield_least() -> io::Result<()> {
    // A thread that may use SCHED_FIFO by a limit of RLIMIT_RTPRIO need not be allowed to set its niceness. It then
    // keeps its niceness.
    let _ = setpriority_process(None, FAVOURED);
    set_policy(libc::SCHED_OTHER, 0)
}

/// Makes the calling thread an ordinary one again, with the niceness that it had.
pub fn run_as_usual() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0)
}

/// Makes other ordinary programs wait for the calling process: niceness -20, for the process and for its session if it
/// leads one, since the kernel shares cores between sessions first (sched(7), "The autogroup feature"). All that it
/// starts inherits both. Takes `CAP_SYS_NICE`, and for the session the right to write to the process's files in `/proc`,
/// which a program with capabilities of its file lacks. Programs in another control group are not concerned. May be
/// called between fork and exec.
pub(crate) fn favour() {
    let _ = setpriority_process(None, FAVOURED);
    write_session("/proc/self/autogroup", b"-20");
}

/// Sets the niceness of the session that a process leads, if the kernel has one for it and allows it.
pub fn set_session_niceness(leader: u32, niceness: i32) {
    write_session(&format!("/proc/{leader}/autogroup"), niceness.to_string().as_bytes());
}

fn write_session(path: &str, niceness: &[u8]) {
    let session = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    // A kernel without the feature has no such file.
    let _ = session.map(|file| write(file, niceness));
}

/// Makes the calling thread run only when ordinary threads of its core leave time: niceness 19 (sched(7)). Threads and
/// processes that it starts inherit this.
pub fn run_last() -> io::Result<()> {
    setpriority_process(None, 19).map(drop).map_err(io::Error::from)
}

fn set_policy(policy: i32, sched_priority: i32) -> io::Result<()> {
    let policy = policy | libc::SCHED_RESET_ON_FORK;
    // The kernel's parameters are this one integer. musl has no such call: its function only returns an error.
    // SAFETY: the pointer is to a live integer; 0 is the calling thread.
    let returned =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const sched_priority) };
    check(returned as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};

    use super::*;

    fn policy() -> i32 {
        // SAFETY: the call takes a number and touches no memory.
        unsafe { libc::sched_getscheduler(0) }
    }

    fn niceness() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[test]
    fn a_thread_that_ran_first_yields_least_and_those_that_it_starts_are_ordinary() {
        let run = || {
            let was_first = run_first().is_ok();
            yield_least().unwrap();
            assert_eq!(policy(), libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK);
            // The right to SCHED_FIFO may come from a limit that does not cover niceness; root has both rights.
            let is_root = rustix::process::geteuid().is_root();
            if was_first && is_root {
                assert_eq!(niceness(), -20);
            } else {
                let capability = if is_root { Capability::RealTime } else { Capability::Root };
                skip(capability, "how little it yields, which only root may choose");
            }
            let started = std::thread::spawn(|| (policy(), niceness())).join().unwrap();
            assert_eq!(started, (libc::SCHED_OTHER, 0));
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn a_thread_that_runs_last_has_the_highest_niceness_and_no_other_thread_has() {
        let own = niceness();
        let last = std::thread::spawn(|| {
            run_last().unwrap();
            niceness()
        });
        assert_eq!((last.join().unwrap(), niceness()), (19, own));
    }

    #[test]
    fn a_thread_runs_first_where_it_may_and_those_that_it_starts_do_not() {
        let run = || match run_first() {
            Ok(()) => {
                assert_eq!(policy(), libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
                let started = std::thread::spawn(policy).join().unwrap();
                assert_eq!(started, libc::SCHED_OTHER);
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert_eq!(policy(), libc::SCHED_OTHER);
            }
        };
        std::thread::spawn(run).join().unwrap();
    }
}
