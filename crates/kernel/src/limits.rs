//! Limits of this process on open files.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::sys::check;

/// [`reserve_open_files`] reserves at most this many: such a table takes half a MiB of kernel memory.
pub const RESERVED_MOST: u64 = 1 << 16;

/// Raises the soft limit of open files to the hard limit (`RLIMIT_NOFILE`) and returns it. The usual soft limit of
/// 1024 is meant for programs that call `select`.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = open_files()?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the pointer is to a live limit, which the call only reads.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// Grows the kernel's table of open files to `count` entries, but not beyond the limit or [`RESERVED_MOST`]. Call it
/// before starting other threads. To grow the table of several threads, the kernel waits until no core can be using
/// the old one (`expand_fdtable`, fs/file.c). That takes tens of milliseconds on a busy host, during which opening a
/// file blocks.
pub fn reserve_open_files(count: u64) -> io::Result<()> {
    let highest = count.min(open_files()?.rlim_cur).min(RESERVED_MOST).saturating_sub(1);
    let (file, _) = io::pipe()?;
    // SAFETY: the call copies a live descriptor to an unused number and touches no memory.
    let copy =
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, highest as libc::c_int) })?;
    // The table never shrinks again.
    // SAFETY: the descriptor was just made, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(copy) });
    Ok(())
}

/// The soft and hard limits of open files.
fn open_files() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live limit, which the call writes.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the table of open files (proc(5), `FDSize`).
    fn table() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn the_table_has_room_for_what_was_reserved() {
        let most = raise_open_files().unwrap();
        reserve_open_files(3000.min(most)).unwrap();
        assert!(table() >= 3000.min(most), "{}", table());
        // Neither 0 nor more than the limit is an error.
        reserve_open_files(0).unwrap();
        reserve_open_files(u64::MAX).unwrap();
    }

    #[test]
    fn the_soft_limit_is_the_hard_one_afterwards() {
        let raised = raise_open_files().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let told: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
        assert_eq!(told, [raised.to_string(), raised.to_string()]);
    }
}
