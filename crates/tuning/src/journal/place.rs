//! Where the journal is: in a folder of this machine and this boot. Several machines may share a folder of state.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of state of the system's programs (FHS 3.0, section 5.8).
const SYSTEM: &str = "/var/lib/kqps";

/// The folder of a machine that has no identity.
const UNKNOWN: &str = "unknown-machine";

/// The folder of this boot's journal, for a process that changes settings. Another user's folder is chosen only if this
/// process has no right to write that of the system; a full disk is an error that the caller finds.
pub(super) fn to_write() -> PathBuf {
    let state = of_environment()
        .unwrap_or_else(|| if may_write(Path::new(SYSTEM)) { SYSTEM.into() } else { of_user() });
    within(&state)
}

/// The folders of this boot's journals that there may be, for a process that reads them: the system's and the user's. A
/// folder that cannot be read is among them.
pub(super) fn to_read() -> Vec<PathBuf> {
    match of_environment() {
        Some(state) => vec![within(&state)],
        None => those_there([SYSTEM.into(), of_user()].map(|state: PathBuf| within(&state))),
    }
}

/// The folders that exist or may exist; the first one if none does.
fn those_there(folders: [PathBuf; 2]) -> Vec<PathBuf> {
    let is_missing =
        |folder: &Path| fs::metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let there: Vec<PathBuf> = folders.iter().filter(|folder| !is_missing(folder)).cloned().collect();
    if there.is_empty() { folders.into_iter().take(1).collect() } else { there }
}

/// The folder that the user names by `KQPS_STATE`.
fn of_environment() -> Option<PathBuf> {
    absolute("KQPS_STATE")
}

fn of_user() -> PathBuf {
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.unwrap_or_else(std::env::temp_dir).join("kqps")
}

fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn within(state: &Path) -> PathBuf {
    state.join("tuning").join(machine().unwrap_or_else(|| UNKNOWN.to_owned())).join(boot())
}

/// Whether this process has the right to make files in a folder, which it makes if it is missing.
fn may_write(folder: &Path) -> bool {
    let folder = folder.join("tuning");
    let path = folder.join(format!(".tried-{}", std::process::id()));
    let made = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, b""));
    let _ = fs::remove_file(&path);
    !made.is_err_and(|error| is_forbidden(&error))
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// The identity of this machine (`machine-id(5)`); `None` if it has none.
fn machine() -> Option<String> {
    let text = fs::read_to_string("/etc/machine-id").ok()?;
    let machine = text.trim();
    let is_one = machine.len() == 32 && machine.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| machine.to_owned())
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

/// Removes the journals of this machine's other boots, beside a folder. What they say has no effect any more. Of
/// machines without an identity nothing is removed, since it may be another machine that runs.
pub(super) fn remove_other_boots(folder: &Path) {
    let Some(parent) = folder.parent().filter(|parent| !parent.ends_with(UNKNOWN)) else { return };
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

    const BOOTS: [&str; 2] = ["11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"];

    #[test]
    fn journals_of_other_boots_are_removed_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let [ours, other, file] = [BOOTS[0], BOOTS[1], "notes"].map(|name| state.path().join(name));
        for folder in [&ours, &other, &file] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("00000001.json"), b"{}").unwrap();
        }
        remove_other_boots(&ours);
        assert!(ours.exists() && file.exists() && !other.exists());
        assert!(is_boot(&boot()), "this host has an identity of its boot");
    }

    #[test]
    fn a_machine_that_shares_the_folder_keeps_its_journal() {
        let state = tempfile::tempdir().unwrap();
        let of = |machine: &str, boot: &str| state.path().join("tuning").join(machine).join(boot);
        let (ours, theirs) = (of(&"a".repeat(32), BOOTS[0]), of(&"b".repeat(32), BOOTS[1]));
        let (nameless, other) = (of(UNKNOWN, BOOTS[0]), of(UNKNOWN, BOOTS[1]));
        for folder in [&ours, &theirs, &nameless, &other] {
            fs::create_dir_all(folder).unwrap();
        }
        remove_other_boots(&ours);
        remove_other_boots(&nameless);
        assert!(theirs.exists() && other.exists());
        let parent = within(state.path()).parent().unwrap().to_owned();
        assert_eq!(parent.file_name().unwrap().to_str().unwrap(), machine().as_deref().unwrap_or(UNKNOWN));
    }

    #[test]
    fn only_a_missing_right_moves_the_journal() {
        let error = |kind: io::ErrorKind| io::Error::from(kind);
        assert!(is_forbidden(&error(io::ErrorKind::PermissionDenied)));
        assert!(is_forbidden(&error(io::ErrorKind::ReadOnlyFilesystem)));
        assert!(!is_forbidden(&error(io::ErrorKind::StorageFull)), "a full disk is reported");
        let folder = tempfile::tempdir().unwrap();
        assert!(may_write(folder.path()));
    }

    #[test]
    fn every_journal_that_is_there_is_read() {
        let state = tempfile::tempdir().unwrap();
        let folders = ["system", "user"].map(|name| state.path().join(name));
        let [system, user] = folders.clone();
        assert_eq!(those_there(folders.clone()), std::slice::from_ref(&system));
        fs::create_dir(&user).unwrap();
        assert_eq!(those_there(folders.clone()), std::slice::from_ref(&user));
        fs::create_dir(&system).unwrap();
        assert_eq!(those_there(folders), [system, user]);
    }
}
