//! Names of network namespaces as `ip netns` has them: a file in `/run/netns` on which the namespace is mounted
//! (ip-netns(8)). A name keeps its namespace alive until it is removed, whatever becomes of the process that gave it.
//!
//! The first name makes the folder, and mounts the folder on itself, as `ip netns add` does. Both stay until the host is
//! started again.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{self, MountPropagationFlags, UnmountFlags};

use super::NetNs;
use super::veth::explained;

/// The folder of names.
const FOLDER: &str = "/run/netns";

/// The longest name, in bytes.
const NAME_BYTES: usize = 64;

/// A name. Dropping it removes the name; the namespace ends with its last process and socket.
#[derive(Debug)]
pub struct Name(PathBuf);

impl Name {
    /// Gives a namespace this name. Requires `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    ///
    /// If the name is taken (`AlreadyExists`) or is none: it has 1 to 64 letters, digits, `.`, `_` or `-`, and begins with
    /// a letter or a digit.
    pub fn give(namespace: &NetNs, name: &str) -> io::Result<Self> {
        let path = path(name)?;
        share_folder().map_err(|error| explained(&format!("sharing {FOLDER}"), &error))?;
        let made = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        made.map_err(|error| explained(&format!("making {}", path.display()), &error))?;
        // From here on the file is removed if the mount fails.
        let named = Self(path);
        let source = format!("/proc/self/fd/{}", namespace.as_fd().as_raw_fd());
        let mounted = mount::mount_bind(source, &named.0).map_err(io::Error::from);
        mounted.map_err(|error| explained("naming a network namespace", &error))?;
        Ok(named)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = remove_path(&self.0);
    }
}

/// Checks whether a text can be a name.
///
/// # Errors
///
/// As those of [`Name::give`] for a text that is no name.
pub fn check(name: &str) -> io::Result<()> {
    path(name).map(drop)
}

/// Whether a name has a file and no namespace. A process leaves such a file if it ends between making the file and mounting
/// the namespace; another program leaves one if it unmounts the namespace alone.
pub fn is_empty(name: &str) -> bool {
    let is_empty = |file: fs::Metadata| file.is_file() && file.len() == 0;
    // The file of a mounted namespace is on a file system of namespaces, and not on that of the folder.
    let device = |path: &Path| path.symlink_metadata().map(|file| file.dev());
    path(name).is_ok_and(|path| {
        let is_mounted = device(&path).ok() != device(Path::new(FOLDER)).ok();
        path.symlink_metadata().is_ok_and(is_empty) && !is_mounted
    })
}

/// The namespace of this name.
pub fn open(name: &str) -> io::Result<NetNs> {
    fs::File::open(path(name)?).map(NetNs)
}

/// Removes a name that a process left behind.
pub fn remove(name: &str) -> io::Result<()> {
    remove_path(&path(name)?)
}

fn remove_path(path: &Path) -> io::Result<()> {
    match mount::unmount(path, UnmountFlags::DETACH) {
        // The process ended between making the file and the mount.
        Ok(()) | Err(Errno::INVAL) => fs::remove_file(path),
        Err(error) => Err(error.into()),
    }
}

fn path(name: &str) -> io::Result<PathBuf> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !begins_well || name.len() > NAME_BYTES || !name.chars().all(is_good) {
        let why = format!(
            "`{name}` is no name for a network namespace: it has up to {NAME_BYTES} letters, digits, `.`, `_` or `-`"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(Path::new(FOLDER).join(name))
}

/// Makes the folder, and makes later mounts in it visible in other mount namespaces, as `ip netns add` does. Otherwise a
/// name that was removed here could stay there.
fn share_folder() -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    let share = || mount::mount_change(FOLDER, MountPropagationFlags::REC | MountPropagationFlags::SHARED);
    match share() {
        // It is no mount yet.
        Err(Errno::INVAL) => {
            mount::mount_bind_recursive(FOLDER, FOLDER)?;
            Ok(share()?)
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};

    use super::*;

    #[test]
    fn names_are_plain_words() {
        for name in ["", ".", "..", "a/b", "-a", "a b", &"a".repeat(65)] {
            assert!(path(name).is_err(), "{name}");
        }
        assert_eq!(path("box-1").unwrap(), Path::new("/run/netns/box-1"));
    }

    #[test]
    fn a_name_leads_to_its_namespace_until_it_is_dropped() {
        if let Err(reason) = crate::probe::probe_one("netns") {
            skip(Capability::Networks, reason);
            return;
        }
        let name = format!("kqps-test-{}", std::process::id());
        let namespace = NetNs::new().unwrap();
        let named = Name::give(&namespace, &name).unwrap();
        assert_eq!(open(&name).unwrap().number().unwrap(), namespace.number().unwrap());
        let taken = Name::give(&namespace, &name).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        drop(named);
        assert!(open(&name).is_err());
        // As a process that was killed leaves it.
        std::mem::forget(Name::give(&namespace, &name).unwrap());
        assert!(!is_empty(&name));
        remove(&name).unwrap();
        fs::write(path(&name).unwrap(), "").unwrap();
        assert!(is_empty(&name));
        remove(&name).unwrap();
        assert!(open(&name).is_err() && remove(&name).is_err());
    }
}
