//! Before whom a thread runs.

use std::io;

use crate::sys::check;

/// Has the calling thread run before all ordinary ones of its core, as soon as it has something to do (`SCHED_FIFO`
/// at the least priority, sched(7)); threads and processes that it starts are ordinary ones. Fails without the right
/// to it (`CAP_SYS_NICE`, or a limit of `RLIMIT_RTPRIO`).
pub fn run_first() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
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
