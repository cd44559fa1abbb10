//! What this process may have at most.

use std::io;

use crate::sys::check;

/// Raises the number of files that this process may have open to the most that it may ask for
/// (`RLIMIT_NOFILE`, from the soft limit to the hard one), and returns that number. The usual soft limit of
/// 1024 is there for programs that call `select`.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live limit, which the call writes.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the pointer is to a live limit, which the call only reads.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_hard_one_afterwards() {
        let raised = raise_open_files().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let told: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
        assert_eq!(told, [raised.to_string(), raised.to_string()]);
    }
}
