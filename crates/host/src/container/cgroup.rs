//! The limits of a process's cgroup and of those above it: `cpu.max` and `memory.max` (cgroup v2), and the files of v1 that
//! mean the same.

use std::path::Path;

use crate::files::Root;

/// Where cgroups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// No cgroup of v1 has less than this many bytes free when it has no limit.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The least of the limits on the way up.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// Cores' worth of CPU time.
    pub(super) cores: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
}

impl Limits {
    /// Reads the limits of the cgroups in `/proc/self/cgroup`, whose lines are `NUMBER:CONTROLLERS:PATH`.
    pub(super) fn read(root: &Root, cgroups: &str) -> Self {
        let mut least = Self::default();
        for line in cgroups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let folder =
                if controllers.is_empty() { MOUNT.to_owned() } else { format!("{MOUNT}/{controllers}") };
            for above in Path::new(path).ancestors() {
                let above = above.display().to_string();
                least.take(root, format!("{folder}{above}").trim_end_matches('/'));
            }
        }
        least
    }

    /// Takes the limits of a folder, if they are less.
    fn take(&mut self, root: &Root, folder: &str) {
        let text = |file: &str| root.text(&format!("{folder}/{file}")).ok();
        let second = text("cpu.max").and_then(|text| cores(&text));
        let first = text("cpu.cfs_quota_us").zip(text("cpu.cfs_period_us"));
        let first = first.and_then(|(quota, period)| cores(&format!("{quota} {period}")));
        for found in [second, first].into_iter().flatten() {
            self.cores = Some(self.cores.map_or(found, |least| least.min(found)));
        }
        let bytes = text("memory.max").or_else(|| text("memory.limit_in_bytes"));
        let bytes = bytes.and_then(|text| text.parse().ok()).filter(|&bytes: &u64| bytes < NO_LIMIT_BYTES);
        if let Some(found) = bytes {
            self.memory_bytes = Some(self.memory_bytes.map_or(found, |least| least.min(found)));
        }
    }
}

/// The cores of `QUOTA PERIOD`, both in microseconds. `None` without a limit, which is `max` in v2 and -1 in v1.
fn cores(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_quota_of_a_period() {
        assert_eq!(cores("150000 100000"), Some(1.5));
        assert_eq!(cores("max 100000"), None);
        assert_eq!(cores("-1 100000"), None);
        assert_eq!(cores("100000 0"), None);
    }
}
