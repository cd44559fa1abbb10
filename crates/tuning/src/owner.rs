//! The process that holds settings: they are undone when it ends.

use std::fmt;
use std::fs;
use std::io;
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

    /// Whether it still runs. Of a process in another namespace of numbers, whether anything may run there.
    pub fn lives(&self) -> bool {
        if self.namespace != own_namespace("pid") {
            return is_inhabited("pid", self.namespace) != Some(false);
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

/// Whether any process that this one can see is in a namespace; `None` if this one has no right to know of all of them
/// (ptrace(2)).
fn is_inhabited(kind: &str, number: u64) -> Option<bool> {
    let namespace = |pid| fs::metadata(format!("/proc/{pid}/ns/{kind}")).map(|metadata| metadata.ino());
    is_among(number, kqps_host::processes().map(namespace))
}

/// Whether a namespace is among those of processes. A process that has ended meanwhile is in none.
fn is_among(number: u64, namespaces: impl Iterator<Item = io::Result<u64>>) -> Option<bool> {
    let mut are_all_known = true;
    for namespace in namespaces {
        match namespace {
            Ok(found) if found == number => return Some(true),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => are_all_known = false,
            _ => {}
        }
    }
    are_all_known.then_some(false)
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
        // Nothing runs there, as far as this process may know.
        let is_unknown = is_inhabited("pid", u64::MAX).is_none();
        assert_eq!(Owner { namespace: u64::MAX, ..this }.lives(), is_unknown);
        assert_eq!(is_inhabited("net", own_namespace("net")), Some(true));
    }

    #[test]
    fn a_process_that_may_not_be_looked_at_may_be_in_any_namespace() {
        let error = |kind: io::ErrorKind| Err(io::Error::from(kind));
        let gone = || error(io::ErrorKind::NotFound);
        let secret = || error(io::ErrorKind::PermissionDenied);
        assert_eq!(is_among(7, [Ok(5), gone()].into_iter()), Some(false));
        assert_eq!(is_among(7, [Ok(5), secret()].into_iter()), None);
        assert_eq!(is_among(7, [secret(), Ok(7)].into_iter()), Some(true));
    }
}
