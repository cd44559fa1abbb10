//! The folder of a run. It holds all files of the run, so that the run can be read, moved and resumed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kqps_files::write_whole;

/// The folder of one run. Its path is absolute, since subjects run in folders of their own.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// A file or folder of the run could not be made, read, written or used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {path}: {error}", path = .path.display())]
pub struct FolderError {
    /// The failed action, a verb: `make`, `read`, …
    pub act: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The error of the system.
    pub error: io::Error,
}

/// Why a folder has no run to read or resume.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum NoRun {
    #[error("{path} cannot be read ({error}); expected the folder of a run", path = .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{path} is no folder; expected the folder of a run", path = .path.display())]
    NoFolder { path: PathBuf },
    #[error("{path} holds no run: there is no {STORE} in it", path = .path.display())]
    NoStore { path: PathBuf },
    #[error("{path} holds no run itself; name one of the folders in it, such as {run}", path = .path.display(),
        run = .run.display())]
    Above { path: PathBuf, run: PathBuf },
}

/// The file name of the store in a run's folder.
const STORE: &str = "run.sqlite";

/// The path of the store of the run in a folder.
pub fn store_in(folder: &Path) -> Result<PathBuf, NoRun> {
    let path = || folder.to_path_buf();
    let found = folder.metadata().map_err(|error| NoRun::Unreadable { path: path(), error })?;
    if !found.is_dir() {
        return Err(NoRun::NoFolder { path: path() });
    }
    let store = folder.join(STORE);
    match store.try_exists() {
        Ok(true) => Ok(store),
        Ok(false) => Err(match newest_in(folder) {
            Some(run) => NoRun::Above { path: path(), run },
            None => NoRun::NoStore { path: path() },
        }),
        Err(error) => Err(NoRun::Unreadable { path: path(), error }),
    }
}

/// The last run by name in the folders of a folder.
fn newest_in(folder: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    folders.filter(|one| one.join(STORE).is_file()).max()
}

impl Folder {
    /// Makes the folder and its parents if they are missing.
    pub fn make(path: &Path) -> Result<Self, FolderError> {
        did("make", path, fs::create_dir_all(path))?;
        Self::open(path)
    }

    /// Opens a folder that exists.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let absolute = did("read", path, path.canonicalize())?;
        // The path is written into the configuration files of many servers, quoted at best.
        match absolute.to_str() {
            Some(text) if !text.contains(['"', '\\', '\n', ';']) => Ok(Self(absolute)),
            _ => {
                let error = io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the path has a character that configuration files of name servers cannot hold",
                );
                Err(FolderError { act: "use", path: path.into(), error })
            }
        }
    }

    /// A file in the folder that a run would overwrite and that no run has written: there is no store beside
    /// it, not even an incomplete one.
    pub fn foreign(&self) -> Option<PathBuf> {
        if self.store().exists() {
            return None;
        }
        let ours = [self.report(), self.study(), self.dataset(), self.subjects()];
        ours.into_iter().find(|path| path.symlink_metadata().is_ok())
    }

    /// The absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of the store.
    pub fn store(&self) -> PathBuf {
        self.0.join(STORE)
    }

    /// The path of the HTML page.
    pub fn report(&self) -> PathBuf {
        self.0.join("report.html")
    }

    /// The path of the study file, as it was run.
    pub fn study(&self) -> PathBuf {
        self.0.join("study.toml")
    }

    /// The folder of the generated zone and queries.
    pub fn dataset(&self) -> PathBuf {
        self.0.join("dataset")
    }

    /// The path of the copy of the issuers that the user trusts.
    pub fn trusted(&self) -> PathBuf {
        self.dataset().join("trusted.pem")
    }

    /// Keeps the issuers that the user trusts, if there are any, so that the run can be resumed without their file.
    pub fn keep_trusted(&self, ca: Option<&str>) -> Result<(), FolderError> {
        ca.map_or(Ok(()), |ca| self.write(&self.trusted(), ca.as_bytes()))
    }

    /// The issuers that the user trusts, as PEM; `None` if the user named none.
    pub fn read_trusted(&self) -> Result<Option<String>, FolderError> {
        let path = self.trusted();
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => did("read", &path, read).map(Some),
        }
    }

    /// The path of a subject's definition, as it was used.
    pub fn definition(&self, subject: &str) -> PathBuf {
        self.subjects().join(format!("{subject}.toml"))
    }

    /// The work folder of one start of a subject. Its name and number make it unique.
    pub fn work(&self, subject: &str, start: u64) -> PathBuf {
        self.subjects().join(format!("{subject}-{start}"))
    }

    fn subjects(&self) -> PathBuf {
        self.0.join("subjects")
    }

    /// Makes a folder, with its parents, inside this one.
    pub fn make_folder(&self, path: &Path) -> Result<(), FolderError> {
        did("make", path, fs::create_dir_all(path))
    }

    /// Writes a file, whole or not at all.
    pub fn write(&self, path: &Path, content: &[u8]) -> Result<(), FolderError> {
        if let Some(parent) = path.parent() {
            self.make_folder(parent)?;
        }
        did("write", path, write_whole(path, content))
    }
}

fn did<T>(act: &'static str, path: &Path, result: io::Result<T>) -> Result<T, FolderError> {
    result.map_err(|error| FolderError { act, path: path.into(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::make(&temporary.path().join("a/b")).unwrap();
        folder.write(&folder.definition("nsd"), b"name").unwrap();
        assert_eq!(fs::read(folder.definition("nsd")).unwrap(), b"name");

        fs::create_dir(folder.study()).unwrap();
        fs::write(folder.study().join("in the way"), b"").unwrap();
        assert!(folder.write(&folder.study(), b"study").is_err());
        let left = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut left: Vec<String> =
            fs::read_dir(folder.path()).unwrap().map(|entry| left(entry.unwrap())).collect();
        left.sort();
        assert_eq!(left, ["study.toml", "subjects"]);
    }

    #[test]
    fn a_link_leads_to_the_file_that_is_replaced_and_a_device_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, device] = ["file", "link", "device"].map(|name| folder.path().join(name));
        fs::write(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert!(link.is_symlink() && fs::read(&file).unwrap() == b"new");

        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        let error = write_whole(&device, b"new").unwrap_err();
        assert!(error.to_string().contains("not a regular file") && device.is_symlink(), "{error}");
    }

    #[test]
    fn a_path_that_would_break_a_configuration_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let error = Folder::make(&temporary.path().join("a\"b")).unwrap_err();
        assert!(error.to_string().contains("configuration files"), "{error}");
    }
}
