//! What is left of a subject: the processes of its group, and those that it started and that left the group, as
//! daemons do. They are known by a variable in the environment that they have from it.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kqps_kernel::process::{self, Signal};

/// In the environment of a subject: its folder, which no other start has.
pub const MARK: &str = "KQPS_SUBJECT";

/// How long killed processes are waited for. Only one that hangs within the kernel takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether they are gone.
const LOOK: Duration = Duration::from_millis(5);

/// The processes of one subject.
#[derive(Debug)]
pub(super) struct Remains {
    group: u32,
    folder: PathBuf,
}

impl Remains {
    /// Those of the group and with the mark of `folder`.
    pub(super) fn of(group: u32, folder: &Path) -> Self {
        Self { group, folder: folder.into() }
    }

    /// Whether any of them lives.
    pub(super) fn live(&self) -> bool {
        !self.living().is_empty()
    }

    /// Kills them, and what they start meanwhile.
    pub(super) fn kill(&self) {
        // The group at once, so that a supervisor in it cannot restart anyone.
        let _ = process::signal_group(self.group, Signal::Kill);
        kill_until_none(|| self.living());
    }

    fn living(&self) -> Vec<u32> {
        let is_mine =
            |&pid: &u32| group_of(pid) == Some(self.group) || is_marked(pid, &|at| at == self.folder);
        processes().filter(is_mine).collect()
    }
}

/// Kills the subjects that a kqps which was killed left under `folder`.
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
            // It may have ended since.
            let _ = process::signal(pid, Signal::Kill);
        }
        std::thread::sleep(LOOK);
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok())
}

/// The group of a process that lives (proc(5), `/proc/[pid]/stat`).
fn group_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // State, parent and group follow the name, which is in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let lives = !matches!(fields.next()?, "Z" | "X");
    let group = fields.nth(1)?.parse().ok()?;
    lives.then_some(group)
}

/// Whether a process bears a mark whose folder is wanted. One that has ended has no environment any more.
fn is_marked(pid: u32, is_wanted: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|&byte| byte == 0).any(|variable| {
        let folder = variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        folder.is_some_and(|folder| is_wanted(Path::new(std::ffi::OsStr::from_bytes(folder))))
    })
}
