//! A control group that gives its processes a small part of one core, if this host permits one: of version 2
//! if its `cpu` controller is delegated from the root, or else of version 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::scratch::Scratch;

/// The beginning of the group's name. The rest is the ID of the process that made it.
const NAME: &str = "kqps-starved-";

/// The period of the quota, microseconds.
const PERIOD_US: u64 = 100_000;

/// How often the removal is tried, since the kernel takes a moment to notice that a group is empty.
const REMOVALS: u32 = 100;
const REMOVAL_NAP: Duration = Duration::from_millis(10);

/// The group. Dropping it removes it; its processes must have ended by then.
pub(super) struct Quota(Scratch);

impl Quota {
    /// Makes a group whose processes together get this share of one core. An error says why there can be
    /// none.
    pub(super) fn new(share: f64) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("/proc is needed")?;
        let Some((root, is_v2)) = hierarchy(&mounts) else {
            bail!("no control group here hands down the cpu controller");
        };
        remove_forgotten(&root);
        let quota = Self(Scratch::made_by(|| {
            let folder = root.join(format!("{NAME}{}", std::process::id()));
            fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            Ok((folder.clone(), Remover(folder)))
        })?);
        let quota_us = (share * PERIOD_US as f64) as u64;
        if is_v2 {
            quota.set("cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
        } else {
            quota.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            quota.set("cpu.cfs_quota_us", &quota_us.to_string())?;
        }
        Ok(quota)
    }

    /// A command that runs a program in the group from its first instruction on.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let enter = r#"echo $$ > "$0" && exec "$@""#;
        command.args(["-c", enter]).arg(self.0.path().join("cgroup.procs")).arg(program);
        command
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.0.path().join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {value} to {}", path.display()))
    }
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

/// The folder in which groups with a quota can be made, and whether it is of version 2, by the lines of
/// `/proc/self/mounts` (fstab(5), cgroups(7)).
fn hierarchy(mounts: &str) -> Option<(PathBuf, bool)> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (root, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
        match kind {
            "cgroup" if options.split(',').any(|option| option == "cpu") => Some((root, false)),
            "cgroup2" => {
                let handed_down = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
                handed_down.split_whitespace().any(|name| name == "cpu").then_some((root, true))
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
        let folder = quota.0.path().to_owned();
        drop(quota);
        assert!(!folder.exists());
    }

    #[test]
    fn a_hierarchy_without_the_cpu_controller_is_passed_over() {
        let mounts = "cgroup /a cgroup rw,cpuset 0 0\ncgroup2 /nowhere cgroup2 rw 0 0\ncgroup /c cgroup rw,cpu,cpuacct 0 0\n";
        assert_eq!(hierarchy(mounts), Some((PathBuf::from("/c"), false)));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.subtree_control"), "cpuset cpu io\n").unwrap();
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", folder.path().display());
        assert_eq!(hierarchy(&mounts), Some((folder.path().to_owned(), true)));
    }
}
