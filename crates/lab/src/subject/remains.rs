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

#[derive(Debug)]
pub(super) struct Remains {
    group: u32,
    folder: PathBuf,
}

impl Remains {
    /// The processes of the group, and those with the mark of `folder`.
    pub(super) fn of(group: u32, folder: &Path) -> Self {
        Self { group, folder: folder.into() }
    }

    /// Whether any of them runs.
    pub(super) fn live(&self) -> bool {
        !self.living().is_empty()
    }

    /// Kills them, and those that they start meanwhile.
    pub(super) fn kill(&self) {
        // The whole group at once, so that a supervisor in it cannot restart a process.
        let _ = process::signal_group(self.group, Signal::Kill);
        kill_until_none(|| self.living());
    }

    fn living(&self) -> Vec<u32> {
        let is_mine =
            |&pid: &u32| group_of(pid) == Some(self.group) || is_marked(pid, &|at| at == self.folder);
        processes().filter(is_mine).collect()
    }
}

/// Kills the subjects that a killed kqps left under `folder`.
pub fn end_all_under(folder: &Path) {
    kill_until_none(|| processes().filter(|&pid| is_marked(pid, &|at| at.starts_with(folder))).collect());
}

fn kill_until_none(mut living: impl FnMut() -> Vec<u32>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let living = living();
        if living.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in living {
            // It may have ended already.
            let _ = process::signal(pid, Signal::Kill);
        }
        std::thread::sleep(LOOK);
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok())
}

/// The group of a running process (proc(5), `/proc/[pid]/stat`).
fn group_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // State, parent and group follow the name, which is in parentheses and may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let lives = !matches!(fields.next()?, "Z" | "X");
    let group = fields.nth(1)?.parse().ok()?;
    lives.then_some(group)
}

/// Whether a process has a mark with a wanted folder. A process that has ended has no environment.
fn is_marked(pid: u32, is_wanted: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|&byte| byte == 0).any(|variable| {
        let folder = variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        folder.is_some_and(|folder| is_wanted(Path::new(std::ffi::OsStr::from_bytes(folder))))
    })
}
