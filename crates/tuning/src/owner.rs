//! The process that holds settings: they are undone when it ends.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

/// A process, and not a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// When it started, ticks since boot (`proc_pid_stat(5)`, field 22).
    pub started: u64,
    /// The namespace of process numbers in which it has this number.
    pub namespace: u64,
}

impl Owner {
    /// The calling process.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Self { pid, started: kqps_host::started(pid).unwrap_or_default(), namespace: own_namespace("pid") }
    }

    /// Whether it still runs. Of a process in another namespace of numbers, whether anything runs there.
    pub fn lives(&self) -> bool {
        if self.namespace != own_namespace("pid") {
            return is_inhabited("pid", self.namespace);
        }
        kqps_host::lives(self.pid) && kqps_host::started(self.pid) == Some(self.started)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

/// The number of a namespace of this process: `pid`, `net`. 0 if it cannot be read.
pub(crate) fn own_namespace(kind: &str) -> u64 {
    fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |metadata| metadata.ino())
}

/// Whether any process that this one can see is in a namespace.
pub(crate) fn is_inhabited(kind: &str, number: u64) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.any(|pid| {
        fs::metadata(format!("/proc/{pid}/ns/{kind}")).is_ok_and(|metadata| metadata.ino() == number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_ends_and_another_start_is_another_process() {
        let this = Owner::this_process();
        assert!(this.lives());
        assert!(!Owner { started: this.started + 1, ..this }.lives());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let other = Owner { pid, started: kqps_host::started(pid).unwrap(), ..this };
        assert!(other.lives());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!other.lives());
        assert!(!Owner { namespace: u64::MAX, ..this }.lives(), "nothing runs there");
        assert!(is_inhabited("net", own_namespace("net")));
    }
}
