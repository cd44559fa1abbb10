//! Where the journal is: in a folder of this machine and this boot. Several machines may share a folder of state.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use kqps_files::own::objection;
use kqps_kernel::process::effective_user;

/// The folder of state of the system's programs (FHS 3.0, section 5.8).
pub(super) const SYSTEM: &str = "/var/lib/kqps";

/// The folder of a machine that has no identity.
const UNKNOWN: &str = "unknown-machine";

/// The mode of the folders of a journal. Everybody may read what was set.
const MODE: u32 = 0o755;

/// The folder of this boot's journal.
#[derive(Debug)]
pub(super) struct Place {
    /// The folder of state that it is in.
    state: PathBuf,
    pub(super) folder: PathBuf,
}

impl Place {
    fn within(state: PathBuf) -> Self {
        Self { folder: within(&state), state }
    }

    /// Why this process does not do what a journal there says; `None` if it does. The writer of a journal decides
    /// what this process writes to the host, with all the rights that it has.
    pub(super) fn why_refused(&self) -> Option<String> {
        self.why_refused_to(effective_user())
    }

    fn why_refused_to(&self, user: u32) -> Option<String> {
        if self.state == Path::new(SYSTEM) {
            return None;
        }
        let folders = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.state));
        let refused = folders.filter_map(|folder| {
            let why = match fs::metadata(folder) {
                Ok(found) => objection(found.uid(), found.mode(), user)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                Err(error) => error.to_string(),
            };
            Some(format!("the journal in {} counts for nothing: {why}", folder.display()))
        });
        // The uppermost one is the cause.
        refused.last()
    }
}

/// The folder of this boot's journal, for a process that changes settings. Another user's folder is chosen only if this
/// process has no right to write that of the system; a full disk is an error that the caller finds.
pub(super) fn to_write() -> io::Result<Place> {
    let of_system = || may_write(Path::new(SYSTEM)).then(|| PathBuf::from(SYSTEM));
    let state = of_environment().or_else(of_system).or_else(of_user);
    let none = "this process may not write there, and has no HOME: name another folder by KQPS_STATE";
    state.map(Place::within).ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, none))
}

/// The folders of this boot's journals that there may be, for a process that reads them: the system's and the user's. A
/// folder that cannot be read is among them. Beside them, why others are left out.
pub(super) fn to_read() -> (Vec<PathBuf>, Vec<String>) {
    let states = match of_environment() {
        Some(state) => vec![state],
        None => [Some(SYSTEM.into()), of_user()].into_iter().flatten().collect(),
    };
    there(states, effective_user())
}

/// The folders that exist or may exist, the first one if none does, and why others are left out.
fn there(states: Vec<PathBuf>, user: u32) -> (Vec<PathBuf>, Vec<String>) {
    let is_missing =
        |folder: &Path| fs::metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let places: Vec<Place> = states.into_iter().map(Place::within).collect();
    let first = places.first().map(|place| place.folder.clone());
    let (mut folders, mut refused) = (Vec::new(), Vec::new());
    for place in places {
        match place.why_refused_to(user) {
            Some(why) => refused.push(why),
            None if is_missing(&place.folder) => {}
            None => folders.push(place.folder),
        }
    }
    if folders.is_empty() && refused.is_empty() {
        folders.extend(first);
    }
    (folders, refused)
}

/// Makes a folder of a journal and those above it, which only their owner may write.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(MODE).create(folder)
}

/// The folder that the user names by `KQPS_STATE`.
fn of_environment() -> Option<PathBuf> {
    absolute("KQPS_STATE")
}

/// The user's folder of state; `None` without a home. A folder that everybody may write is none of theirs.
fn of_user() -> Option<PathBuf> {
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|state| state.join("kqps"))
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
    let made = make(&folder).and_then(|()| fs::write(&path, b""));
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

/// Removes the journals of this machine's other boots, beside that of a place. What they say has no effect any more. It
/// does so only in the folder of the `system`, which is this machine's own. In a shared one they may be those of a
/// running clone of this machine.
pub(super) fn remove_other_boots(place: &Place, system: &Path) {
    let Place { state, folder } = place;
    let Some(parent) = folder.parent().filter(|_| state == system) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_other = entry.path() != *folder && entry.file_name().to_str().is_some_and(is_boot);
        if is_other {
            // It may be another process that removes it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use kqps_files::own::ROOT;

    use super::*;

    const BOOTS: [&str; 2] = ["11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"];

    fn place(state: &Path, machine: &str, boot: &str) -> Place {
        Place { state: state.to_owned(), folder: state.join("tuning").join(machine).join(boot) }
    }

    #[test]
    fn journals_of_other_boots_are_removed_and_nothing_else() {
        let state = tempfile::tempdir().unwrap();
        let [ours, other, file] = [BOOTS[0], BOOTS[1], "notes"].map(|name| place(state.path(), "m", name));
        for place in [&ours, &other, &file] {
            fs::create_dir_all(&place.folder).unwrap();
            fs::write(place.folder.join("00000001.json"), b"{}").unwrap();
        }
        remove_other_boots(&ours, state.path());
        assert!(ours.folder.exists() && file.folder.exists() && !other.folder.exists());
        assert!(is_boot(&boot()), "this host has an identity of its boot");
    }

    #[test]
    fn a_machine_that_shares_the_folder_keeps_its_journal_also_if_it_is_a_clone() {
        let state = tempfile::tempdir().unwrap();
        let machine = "a".repeat(32);
        let (ours, clone) =
            (place(state.path(), &machine, BOOTS[0]), place(state.path(), &machine, BOOTS[1]));
        let another = place(state.path(), &"b".repeat(32), BOOTS[1]);
        for place in [&ours, &clone, &another] {
            fs::create_dir_all(&place.folder).unwrap();
        }
        remove_other_boots(&ours, Path::new(SYSTEM));
        assert!(clone.folder.exists() && another.folder.exists());
        remove_other_boots(&ours, state.path());
        assert!(!clone.folder.exists() && another.folder.exists());
        let parent = within(state.path()).parent().unwrap().to_owned();
        let name = super::machine().unwrap_or_else(|| UNKNOWN.to_owned());
        assert_eq!(parent.file_name().unwrap().to_str().unwrap(), name);
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
        let states = || ["system", "user"].map(|name| state.path().join(name)).to_vec();
        let [system, user] = ["system", "user"].map(|name| within(&state.path().join(name)));
        let there = || there(states(), effective_user());
        assert_eq!(there(), (vec![system.clone()], vec![]));
        make(&user).unwrap();
        assert_eq!(there(), (vec![user.clone()], vec![]));
        make(&system).unwrap();
        assert_eq!(there(), (vec![system, user], vec![]));
    }

    #[test]
    fn a_folder_that_others_may_have_written_is_named_and_not_read() {
        let state = tempfile::tempdir().unwrap();
        let states = ["theirs", "ours"].map(|name| state.path().join(name)).to_vec();
        let folders = [within(&states[0]), within(&states[1])];
        for folder in &folders {
            make(folder).unwrap();
        }
        let tuning = states[0].join("tuning");
        fs::set_permissions(&tuning, fs::Permissions::from_mode(0o777)).unwrap();
        let (read, refused) = there(states.clone(), effective_user());
        assert_eq!(read, folders[1..]);
        assert!(refused.len() == 1 && refused[0].contains(&tuning.display().to_string()), "{refused:?}");
        // Nothing is read in place of the only journal.
        assert!(there(states[..1].to_vec(), effective_user()).0.is_empty());
        assert!(Place::within(states[0].clone()).why_refused().unwrap().contains("go-w"));
        assert_eq!(Place::within(states[1].clone()).why_refused(), None);
    }

    #[test]
    fn a_folder_of_another_user_is_not_obeyed() {
        let state = tempfile::tempdir().unwrap();
        make(&within(state.path())).unwrap();
        let owner = fs::metadata(state.path()).unwrap().uid();
        // Root may give it away, if it has all rights.
        let is_given = owner == ROOT && std::os::unix::fs::chown(state.path(), Some(4711), None).is_ok();
        if is_given || owner != ROOT {
            let user = if is_given { ROOT } else { owner + 1 };
            let (read, refused) = there(vec![state.path().to_owned()], user);
            assert_eq!((read.len(), refused.len()), (0, 1));
            assert!(refused[0].contains("the folder is that of user"), "{refused:?}");
        }
    }
}
