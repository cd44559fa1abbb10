//! Where the journal is.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of state of the system's programs (FHS 3.0, section 5.8).
const SYSTEM: &str = "/var/lib/kqps";

/// The folder of this boot's journal.
pub(super) fn folder() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_user = || {
        let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
        state.unwrap_or_else(std::env::temp_dir).join("kqps")
    };
    let state = absolute("KQPS_STATE")
        .unwrap_or_else(|| if may_write(Path::new(SYSTEM)) { SYSTEM.into() } else { of_user() });
    state.join("tuning").join(boot())
}

/// Whether this process may make files in a folder, which it makes if it is missing.
fn may_write(folder: &Path) -> bool {
    let folder = folder.join("tuning");
    fs::create_dir_all(&folder).is_ok() && tempfile_in(&folder)
}

/// Whether a file can be made in a folder. The file is removed.
fn tempfile_in(folder: &Path) -> bool {
    let path = folder.join(format!(".tried-{}", std::process::id()));
    let made = fs::write(&path, b"").is_ok();
    let _ = fs::remove_file(&path);
    made
}

/// The identity of this boot (`proc_sys_kernel(5)`).
fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = text.trim();
    if is_boot(boot) { boot.to_owned() } else { "unknown-boot".into() }
}

/// Whether a name is that of a boot: a UUID (RFC 9562, section 4).
fn is_boot(name: &str) -> bool {
    name.len() == 36 && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Removes the journals of other boots beside a folder. What they say has no effect any more.
pub(super) fn remove_other_boots(folder: &Path) {
    let Some(parent) = folder.parent() else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_other = entry.path() != folder && entry.file_name().to_str().is_some_and(is_boot);
        if is_other {
            // It may be another process that removes it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_of_other_boots_are_removed_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let [ours, other, file] =
            ["11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555", "notes"]
                .map(|name| state.path().join(name));
        for folder in [&ours, &other, &file] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("00000001.json"), b"{}").unwrap();
        }
        remove_other_boots(&ours);
        assert!(ours.exists() && file.exists() && !other.exists());
        assert!(is_boot(&boot()), "this host has an identity of its boot");
    }
}
