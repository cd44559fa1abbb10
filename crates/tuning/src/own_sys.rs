//! `/sys` as the network namespace of this process sees it. A program that enters a namespace (nsenter(1), unshare(1))
//! without mounting sysfs again sees other devices there than those that its calls reach by the same names.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::OnceLock;

use kqps_kernel::namespace::{NetNs, sysfs};

static IS_OWN: OnceLock<bool> = OnceLock::new();

/// Runs `act` where `/sys/class/net` shows the devices of this process's network namespace: on a thread with a `/sys`
/// of its own, if that of this process shows others.
pub(crate) fn within<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    if *IS_OWN.get_or_init(is_own) {
        return act();
    }
    NetNs::of_this_process()?.within(|| {
        sysfs::show_own_devices()?;
        act()
    })
}

/// Without the rights to mount sysfs, the names of devices decide.
fn is_own() -> bool {
    sysfs::shows_own_devices().unwrap_or_else(|_| {
        let folders = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
        let folders = folders.filter(|entry| entry.path().is_dir());
        let shown: BTreeSet<String> =
            folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        shown == names(&fs::read_to_string("/proc/self/net/dev").unwrap_or_default())
    })
}

/// The names of devices in `/proc/net/dev`: before the colon of each line below the heading.
fn names(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_before_a_colon() {
        let text = "Inter-|   Receive\n face |bytes    packets\n    lo:     720       8\n  eth0: 1296 5\n";
        assert_eq!(names(text), ["eth0", "lo"].map(str::to_owned).into());
    }

    #[test]
    fn what_it_runs_sees_loopback() {
        let index = within(|| fs::read_to_string("/sys/class/net/lo/ifindex")).unwrap();
        assert_eq!(index.trim(), "1");
    }
}
