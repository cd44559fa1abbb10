//! A control group that gives its processes a part of the cores' time and of memory, if this host permits one.
//!
//! It is of version 2 if the root hands down the controllers, and of version 1 otherwise. Version 1 may have a group for
//! each controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::scratch::Scratch;

/// The beginning of the group's name. The rest is the ID of the process that made it.
const NAME: &str = "kqps-starved-";

/// The files with the limit of memory, in versions 2 and 1.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

/// The period of the quota, microseconds.
const PERIOD_US: u64 = 100_000;

/// How often the removal is tried, since the kernel takes a moment to notice that a group is empty.
const REMOVALS: u32 = 100;
const REMOVAL_NAP: Duration = Duration::from_millis(10);

/// The group, or those of several controllers. Dropping it removes it; its processes must have ended by then.
pub(super) struct Quota(Vec<Scratch>);

impl Quota {
    /// Makes a group whose processes together get this share of one core, which may be above 1. An error says why there
    /// can be none.
    pub(super) fn new(share: f64) -> Result<Self> {
        let (group, is_v2) = group("cpu")?;
        let quota_us = (share * PERIOD_US as f64) as u64;
        if is_v2 {
            set(&group, "cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
        } else {
            set(&group, "cpu.cfs_period_us", &PERIOD_US.to_string())?;
            set(&group, "cpu.cfs_quota_us", &quota_us.to_string())?;
        }
        Ok(Self(vec![group]))
    }

    /// Limits the memory of all processes together to this many bytes.
    pub(super) fn with_memory(mut self, bytes: u64) -> Result<Self> {
        // A single hierarchy may have both controllers, in either version.
        let file = |group: &Scratch| LIMITS.into_iter().find(|file| group.path().join(file).exists());
        if file(&self.0[0]).is_none() {
            self.0.push(group("memory")?.0);
        }
        let group = &self.0[self.0.len() - 1];
        set(group, file(group).context("the control group has no limit of memory")?, &bytes.to_string())?;
        Ok(self)
    }

    /// The files that take the ID of a process which enters.
    pub(super) fn entries(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().map(|group| group.path().join("cgroup.procs"))
    }

    /// A command that runs a program in the group from its first instruction on.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let enter = r#"while [ "$1" != -- ]; do echo $$ >"$1" || exit; shift; done; shift; exec "$@""#;
        command.args(["-c", enter, "sh"]).args(self.entries()).arg("--").arg(program);
        command
    }
}

/// Makes a group of the hierarchy with a controller. Returns it, and whether it is of version 2.
fn group(controller: &str) -> Result<(Scratch, bool)> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc is needed")?;
    let Some((root, is_v2)) = hierarchy(&mounts, controller) else {
        bail!("no control group here hands down the {controller} controller");
    };
    remove_forgotten(&root);
    let group = Scratch::made_by(|| {
        let folder = root.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok((folder.clone(), Remover(folder)))
    })?;
    Ok((group, is_v2))
}

fn set(group: &Scratch, file: &str, value: &str) -> Result<()> {
    let path = group.path().join(file);
    fs::write(&path, value).with_context(|| format!("cannot write {value} to {}", path.display()))
}

struct Remover(PathBuf);

impl Drop for Remover {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(REMOVAL_NAP);
        }
        eprintln!("cannot remove {}, which this command made", self.0.display());
    }
}

/// The folder in which groups with a controller can be made, and whether it is of version 2, by the lines of
/// `/proc/self/mounts` (fstab(5), cgroups(7)).
fn hierarchy(mounts: &str, controller: &str) -> Option<(PathBuf, bool)> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (root, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
        match kind {
            "cgroup" if options.split(',').any(|option| option == controller) => Some((root, false)),
            "cgroup2" => {
                let handed_down = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
                handed_down.split_whitespace().any(|name| name == controller).then_some((root, true))
            }
            _ => None,
        }
    })
}

/// Removes groups that killed processes left behind. A group in use cannot be removed.
fn remove_forgotten(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(NAME))
            && !Path::new("/proc").join(pid).exists()
        {
            // Another process may be quicker.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};

    use super::*;

    #[test]
    fn what_runs_in_a_group_is_in_it_and_nothing_stays_behind() {
        let quota = match Quota::new(0.05) {
            Ok(quota) => quota,
            Err(error) => {
                skip(Capability::ControlGroups, format_args!("{error:#}"));
                return;
            }
        };
        let output = quota.command(Path::new("cat")).arg("/proc/self/cgroup").output().unwrap();
        let groups = String::from_utf8(output.stdout).unwrap();
        assert!(groups.contains(&format!("/{NAME}{}", std::process::id())), "{groups}");
        let limited = match quota.with_memory(1 << 30) {
            Ok(limited) => limited,
            Err(error) => {
                skip(Capability::ControlGroups, format_args!("a limit of memory: {error:#}"));
                return;
            }
        };
        let output = limited.command(Path::new("cat")).arg("/proc/self/cgroup").output().unwrap();
        let groups = String::from_utf8(output.stdout).unwrap();
        // Version 1 has one for each controller.
        let count = groups.matches(&format!("/{NAME}{}\n", std::process::id())).count();
        assert_eq!(count, limited.0.len(), "{groups}");
        let folders: Vec<PathBuf> = limited.0.iter().map(|group| group.path().to_owned()).collect();
        drop(limited);
        assert!(folders.iter().all(|folder| !folder.exists()));
    }

    #[test]
    fn a_hierarchy_without_the_cpu_controller_is_passed_over() {
        let mounts = "cgroup /a cgroup rw,cpuset 0 0\ncgroup2 /nowhere cgroup2 rw 0 0\ncgroup /c cgroup rw,cpu,cpuacct 0 0\n";
        assert_eq!(hierarchy(mounts, "cpu"), Some((PathBuf::from("/c"), false)));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.subtree_control"), "cpuset cpu io\n").unwrap();
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", folder.path().display());
        assert_eq!(hierarchy(&mounts, "cpu"), Some((folder.path().to_owned(), true)));
        assert_eq!(hierarchy(&mounts, "memory"), None);
    }
}
