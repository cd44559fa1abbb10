//! `/sys` as a network namespace sees it.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::mount::{self, MountFlags, MountPropagationFlags};

use super::NetNs;
use crate::sys::check;

/// Moves the calling thread into a mount namespace of its own, in which `/sys/class/net` shows the devices of the
/// thread's network namespace: it shows those of the namespace in which sysfs was mounted. Requires `CAP_SYS_ADMIN`.
/// The mounts of other threads do not change.
pub fn show_own_devices() -> io::Result<()> {
    // SAFETY: the call touches no memory, and changes the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // The mounts of other namespaces do not change.
    mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    Ok(mount::mount("none", "/sys", "sysfs", MountFlags::empty(), None::<&CStr>)?)
}

/// Whether `/sys` shows the calling thread the devices of this process's network namespace. It does not in a namespace
/// that a program entered without mounting sysfs again. Requires `CAP_SYS_ADMIN`.
pub fn shows_own_devices() -> io::Result<bool> {
    // All mounts of sysfs that were made in one network namespace are one file system, with one number.
    let number = || fs::metadata("/sys").map(|sys| sys.dev());
    let seen = number()?;
    let own = NetNs::of_this_process()?.within(|| {
        show_own_devices()?;
        number()
    })?;
    Ok(seen == own)
}
