//! The folder of a running agent, which ends with it.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kqps_files::own::make_own;
use kqps_files::unfinished::Unfinished;
use kqps_kernel::process::effective_user;
use tempfile::TempDir;

use super::dead::{self, LOCK};
use super::guard::{FolderGuard, HOME};
use super::machine::Machine;
use kqps_testbed::folder::{Folder, FolderError};

/// The folder of an agent. Dropping it removes the folder.
#[derive(Debug)]
pub(super) struct AgentPlace {
    folder: Folder,
    made: Option<TempDir>,
    guard: Option<FolderGuard>,
    _unfinished: Unfinished,
    /// Locked for as long as the agent lives.
    _lock: File,
}

/// The folder of an agent could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PlaceError {
    #[error("there is no place for the agent's files: neither XDG_CACHE_HOME nor HOME is an absolute path")]
    NoCache,
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("starting the guard of the agent's files: {0}")]
    Guard(io::Error),
}

impl AgentPlace {
    /// Makes a folder below `cache`, and removes those that dead agents of this machine left there. `kqps` is this
    /// program.
    pub(super) fn make(cache: &Path, kqps: &Path) -> Result<Self, PlaceError> {
        let home = cache.join(HOME);
        let failed = |act: &'static str, path: &Path| {
            let path = path.to_owned();
            move |error| FolderError { act, path, error }
        };
        make_own(&home, effective_user()).map_err(failed("make", &home))?;
        // Processes are found by their folder's path as the kernel has it.
        let home = home.canonicalize().map_err(failed("read", &home))?;
        let births = home.join(LOCK);
        let one_at_a_time = File::create(&births).map_err(failed("make", &births))?;
        // Without locks, two agents of a machine that begin at once can only remove each other's new folders.
        let _ = one_at_a_time.lock();
        let machine = Machine::read();
        dead::remove_all_in(&home, &machine);
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{}{}-", machine.prefix(), std::process::id());
        // Whatever the umask is: the agent runs what lies there, as root too.
        builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
        let made = Unfinished::made(|| builder.tempdir_in(&home));
        let (made, unfinished) = made.map_err(failed("make", &home))?;
        let path = made.path().join(LOCK);
        let lock = File::create(&path).map_err(failed("make", &path))?;
        let _ = lock.lock();
        drop(one_at_a_time);
        let guard = FolderGuard::start(kqps, made.path()).map_err(PlaceError::Guard)?;
        Ok(Self {
            folder: Folder::open(made.path())?,
            made: Some(made),
            guard: Some(guard),
            _unfinished: unfinished,
            _lock: lock,
        })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// A path in the folder.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Removes the folder. If that fails, the guard tries again when the agent has ended.
    pub(super) fn remove(&mut self) {
        let is_removed = self.made.take().is_none_or(|made| made.close().is_ok());
        if let Some(guard) = self.guard.take().filter(|_| is_removed) {
            guard.stand_down();
        }
    }
}

impl Drop for AgentPlace {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A program that ends at once stands in for the guard.
    fn make(cache: &Path) -> AgentPlace {
        AgentPlace::make(cache, Path::new("/bin/true")).unwrap()
    }

    fn folders(cache: &Path) -> usize {
        let entries = fs::read_dir(cache.join(HOME)).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
    }

    #[test]
    fn a_folder_ends_with_its_agent() {
        let cache = tempfile::tempdir().unwrap();
        let mut place = make(cache.path());
        fs::create_dir(place.at("subjects")).unwrap();
        fs::write(place.at("subjects/file"), "x").unwrap();
        assert_eq!(folders(cache.path()), 1);
        place.remove();
        assert_eq!(folders(cache.path()), 0);
        place.remove();
    }

    #[test]
    fn nobody_else_enters_an_agents_folder_or_writes_beside_it() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let cache = tempfile::tempdir().unwrap();
        let home = cache.path().join(HOME);
        let place = make(cache.path());
        assert_eq!((mode(&home), mode(place.folder().path())), (0o700, 0o700));
        // A folder that an earlier version made under umask 0.
        fs::set_permissions(&home, Permissions::from_mode(0o777)).unwrap();
        drop(make(cache.path()));
        assert_eq!(mode(&home), 0o755);
        let other = tempfile::tempdir().unwrap();
        symlink(&home, other.path().join(HOME)).unwrap();
        let error = AgentPlace::make(other.path(), Path::new("/bin/true")).unwrap_err().to_string();
        assert!(error.contains("a link"), "{error}");
    }

    #[test]
    fn what_a_dead_agent_left_is_removed_and_a_living_one_keeps_its_folder() {
        let cache = tempfile::tempdir().unwrap();
        let living = make(cache.path());
        let home = cache.path().join(HOME);
        // Two dead agents: the first died before it made its lock, the second after it.
        let machine = Machine::read();
        let [born, worked] =
            ["1-born", "2-worked"].map(|name| home.join(format!("{}{name}", machine.prefix())));
        fs::create_dir(born).unwrap();
        fs::create_dir_all(worked.join("subjects")).unwrap();
        fs::write(worked.join(LOCK), "").unwrap();
        let other = make(cache.path());
        assert!(living.folder().path().exists() && other.folder().path().exists());
        assert_eq!(folders(cache.path()), 2);
    }

    #[test]
    fn folders_of_other_machines_stay() {
        let cache = tempfile::tempdir().unwrap();
        // The lock of a living agent, as another machine sees it on a file system that keeps their locks apart.
        let theirs = cache.path().join(HOME).join("0123456789ab-7-living");
        fs::create_dir_all(&theirs).unwrap();
        fs::write(theirs.join(LOCK), "").unwrap();
        drop(make(cache.path()));
        assert!(theirs.exists());
        assert_eq!(folders(cache.path()), 1);
    }

    #[test]
    fn a_cache_that_cannot_be_made_is_named() {
        let cache = tempfile::tempdir().unwrap();
        fs::write(cache.path().join(HOME), "a file").unwrap();
        let error = AgentPlace::make(cache.path(), Path::new("/bin/true")).unwrap_err().to_string();
        assert!(error.contains("cannot make") && error.contains(HOME), "{error}");
    }
}
