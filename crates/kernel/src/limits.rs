//! Limits of this process on open files, and the memory of the machine.

use std::io;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::system::sysinfo;

/// [`reserve_open_files`] reserves at most this many: such a table takes half a MiB of kernel memory.
pub const RESERVED_MOST: u64 = 1 << 16;

/// Raises the soft limit of open files to the hard limit (`RLIMIT_NOFILE`) and returns it. The usual soft limit of
/// 1024 is meant for programs that call `select`.
pub fn raise_open_files() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Allows this process, and those that it starts from now on, `count` open files. More than the hard limit need
/// `CAP_SYS_RESOURCE` and are at most `fs.nr_open` (setrlimit(2)); if they are refused, the soft limit is the hard one
/// afterwards. Returns the limit.
pub fn allow_open_files(count: u64) -> io::Result<u64> {
    let most = raise_open_files()?;
    if count <= most {
        return Ok(most);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum: Some(count) }) {
        Ok(()) => Ok(count),
        Err(Errno::PERM) => Ok(most),
        Err(error) => Err(error.into()),
    }
}

/// Grows the kernel's table of open files to `count` entries, but not beyond the limit or [`RESERVED_MOST`]. Call it
/// before starting other threads. To grow the table of several threads, the kernel waits until no core can be using
/// the old one (`expand_fdtable`, fs/file.c). That takes tens of milliseconds on a busy host, during which opening a
/// file blocks.
pub fn reserve_open_files(count: u64) -> io::Result<()> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let highest = count.min(most).min(RESERVED_MOST).saturating_sub(1);
    let (file, _) = io::pipe()?;
    // The table never shrinks again.
    drop(fcntl_dupfd_cloexec(&file, highest as i32)?);
    Ok(())
}

/// The memory of this machine in bytes (`sysinfo(2)`).
pub fn machine_bytes() -> u64 {
    let facts = sysinfo();
    facts.totalram * u64::from(facts.mem_unit)
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
    fn the_memory_is_that_of_the_kernel() {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
        let kib: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        assert_eq!(machine_bytes(), kib * 1024);
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
        let shown: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
        assert_eq!(shown, [raised.to_string(), raised.to_string()]);
    }
}
