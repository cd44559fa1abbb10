//! The processes that are left of a subject: those of its group, and those that it started and that left the
//! group, as daemons do. A variable in their inherited environment identifies them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kqps_kernel::process::{self, Signal};

/// The environment variable of a subject with its folder, which no other start has.
pub const MARK: &str = "KQPS_SUBJECT";

/// The longest wait for killed processes. Only one that hangs in the kernel takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The interval at which they are checked.
const LOOK: Duration = Duration::from_millis(5);

/// The processes of one start of a subject.
#[derive(Debug)]
pub(super) struct Remains {
    group: ProcessGroup,
    folder: PathBuf,
}

impl Remains {
    /// The processes of the group, and those with the mark of `folder`. The leader was just started, and nobody has
    /// waited for it yet.
    pub(super) fn new(leader: u32, folder: &Path) -> Self {
        Self { group: ProcessGroup::with_leader(leader), folder: folder.into() }
    }

    /// Whether any of them runs.
    pub(super) fn live(&self) -> bool {
        kqps_host::processes().any(|pid| self.has(pid))
    }

    /// Kills them, and those that they start meanwhile.
    pub(super) fn kill(&self) {
        self.group.kill_at_once();
        kill_until_none(|pid| self.has(pid));
    }

    /// Sends them a signal: the group at once if its leader is there, and then each of the others.
    pub(super) fn signal(&self, signal: Signal) {
        let is_at_once = self.group.signal_at_once(signal);
        for pid in kqps_host::processes() {
            if self.has(pid) && !(is_at_once && self.group.has(pid)) {
                // It may have ended already, and another process may have its number.
                let _ = process::signal_if(pid, signal, || self.has(pid));
            }
        }
    }

    fn has(&self, pid: u32) -> bool {
        self.group.has(pid) || is_marked(pid, &|at| at == self.folder)
    }
}

/// A process group, and not a later one with the same number.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessGroup {
    leader: u32,
    /// When the leader started (`proc_pid_stat(5)`, field 22); `None` if it had ended already.
    started: Option<u64>,
}

impl ProcessGroup {
    /// The group with this leader.
    pub(super) fn with_leader(leader: u32) -> Self {
        Self { leader, started: kqps_host::started(leader) }
    }

    /// Kills all that are left of it.
    pub(super) fn kill(self) {
        self.kill_at_once();
        kill_until_none(|pid| self.has(pid));
    }

    /// Kills the whole group at once if its leader is there, so that a supervisor in it cannot restart a process. Without
    /// its leader, processes are killed one by one, each after it was checked.
    fn kill_at_once(self) {
        self.signal_at_once(Signal::Kill);
    }

    /// Sends a signal to the whole group at once if its leader is there. Returns whether it did.
    fn signal_at_once(self, signal: Signal) -> bool {
        let is_there = self.started.is_some() && kqps_host::started(self.leader) == self.started;
        // It may have ended already.
        is_there && process::signal_group(self.leader, signal).is_ok()
    }

    /// Whether a running process is in it. As long as the group has a process, the kernel gives its number to no other
    /// one. If another process has the number, that process and its group are strangers.
    fn has(self, pid: u32) -> bool {
        kqps_host::group(pid) == Some(self.leader)
            && kqps_host::started(self.leader).is_none_or(|started| Some(started) == self.started)
    }
}

/// Kills the subjects that a killed kqps left under `folder`.
pub fn end_all_under(folder: &Path) {
    kill_until_none(|pid| is_marked(pid, &|at| at.starts_with(folder)));
}

/// Kills every process that `is_mine` recognises, until there is none.
fn kill_until_none(is_mine: impl Fn(u32) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let living: Vec<u32> = kqps_host::processes().filter(|&pid| is_mine(pid)).collect();
        if living.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in living {
            // It may have ended already, and another process may have its number.
            let _ = process::signal_if(pid, Signal::Kill, || is_mine(pid));
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether a process has a mark with a wanted folder. A process that has ended has no environment.
fn is_marked(pid: u32, is_wanted: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|&byte| byte == 0).any(|variable| {
        let folder = variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        folder.is_some_and(|folder| is_wanted(Path::new(std::ffi::OsStr::from_bytes(folder))))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_whose_number_has_another_process_now_is_left_alone() {
        let mut child = process::tie(Command::new("sleep").arg("60")).spawn().unwrap();
        let group = ProcessGroup::with_leader(child.id());
        assert!(group.has(child.id()));
        // Its number is that of a process which started later, or which was never known.
        for started in [group.started.map(|started| started - 1), None] {
            let earlier = ProcessGroup { started, ..group };
            assert!(!earlier.has(child.id()));
            earlier.kill();
            let folder = tempfile::tempdir().unwrap();
            Remains { group: earlier, folder: folder.path().into() }.kill();
            assert!(child.try_wait().unwrap().is_none(), "it is not killed");
        }
        group.kill();
        child.wait().unwrap();
        assert!(!group.has(child.id()) && !group.signal_at_once(Signal::Kill));
    }
}
