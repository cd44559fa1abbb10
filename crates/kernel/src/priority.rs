//! Before whom a thread runs.

use std::io;

use crate::sys::check;

/// Has the calling thread run before all ordinary ones of its core, as soon as it has something to do (`SCHED_FIFO`
/// at the least priority, sched(7)); threads and processes that it starts are ordinary ones. Fails without the right
/// to it (`CAP_SYS_NICE`, or a limit of `RLIMIT_RTPRIO`). A thread that takes more than 95 % of a second is stopped for
/// the rest of that second, whether or not anybody else wants it (`sched_rt_runtime_us`).
pub fn run_first() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, 1)
}

/// Has the calling thread be an ordinary one again, but the one that yields least (niceness -20), where it has the right
/// to that (`CAP_SYS_NICE`, or a limit of `RLIMIT_NICE`); threads and processes that it starts are as others are.
pub fn yield_least() -> io::Result<()> {
    // Who may run first by a limit of RLIMIT_RTPRIO may not always do this, and is an ordinary thread then like any other.
    // SAFETY: the call takes numbers and touches no memory; 0 is the calling thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    set_policy(libc::SCHED_OTHER, 0)
}

fn set_policy(policy: i32, sched_priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority };
    let policy = policy | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to a live structure; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of the calling thread.
    fn policy() -> i32 {
        // SAFETY: the call takes a number and touches no memory.
        unsafe { libc::sched_getscheduler(0) }
    }

    /// The niceness of the calling thread.
    fn niceness() -> i32 {
        // SAFETY: the call takes numbers and touches no memory; 0 is the calling thread.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn a_thread_that_ran_first_yields_least_and_those_that_it_starts_are_ordinary() {
        let run = || {
            let was_first = run_first().is_ok();
            yield_least().unwrap();
            assert_eq!(policy(), libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK);
            // The right to run first may come of a limit, which says nothing of niceness; root has both.
            // SAFETY: the call takes nothing and touches no memory.
            let is_root = unsafe { libc::geteuid() } == 0;
            if was_first && is_root {
                assert_eq!(niceness(), -20);
            } else {
                println!("skipped: how little it yields, which only root may choose");
            }
            let started = std::thread::spawn(|| (policy(), niceness())).join().unwrap();
            assert_eq!(started, (libc::SCHED_OTHER, 0));
        };
        std::thread::spawn(run).join().unwrap();
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
