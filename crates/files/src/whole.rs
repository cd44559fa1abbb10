//! Files and folders that appear whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::unfinished::Unfinished;

/// The file that a write to `path` replaces. If `path` is a link, it is the target of the link, since otherwise a link
/// such as `/dev/stdout` would be replaced. An existing path that is not a regular file is an error.
pub fn replaced_by(path: &Path) -> io::Result<PathBuf> {
    match fs::metadata(path) {
        Ok(facts) if !facts.is_file() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not a regular file"))
        }
        Ok(_) if path.is_symlink() => path.canonicalize(),
        _ => Ok(path.to_owned()),
    }
}

/// Writes a file under another name beside `path`, and renames it when it is whole. Replaces an existing file. A device, a
/// pipe or a directory is left alone, with an error.
pub fn whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let target = replaced_by(path)?;
    let path = target.as_path();
    let directory = folder_of(path);
    // Servers that run as another user read these files, so the umask decides, as for any file.
    let permissions = Permissions::from_mode(0o666);
    fs::metadata(directory)?;
    let mut name = tempfile::Builder::new();
    name.prefix(".unfinished-").permissions(permissions);
    let made = Unfinished::made(|| name.tempfile_in(directory));
    // The error names the temporary file, which the user does not know.
    let (file, _unfinished) = made.map_err(|error| io::Error::from(error.kind()))?;
    // Through the file itself, since errors of its handle name the temporary file, too.
    let mut out = BufWriter::with_capacity(1 << 18, file.as_file());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    persist(file, path)
}

/// Gives a finished file its name, and replaces an existing file. The content is on disk before the name, and the name
/// when the call returns. After a loss of power, `path` therefore has its old content or the new one, and no part of it.
pub fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder_of(path))
}

/// Renames a finished file within a file system as [`persist`] does.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync_folder(folder_of(to))
}

/// The folder of a path, which is the working folder for a mere name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Brings the names in a folder to disk (fsync(2)). Some file systems over a network keep no names in memory, and have
/// no such call. A folder that may be written and not read cannot be opened for it.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if !is_without_sync(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_without_sync(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

/// Writes `content` as [`whole`] does.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    whole(path, |out| out.write_all(content))
}

/// Makes a folder under another name beside `path`, and renames it when it is whole. `write` gets the path at which the
/// folder is being made, and its final absolute path. If the folder exists, it must be empty.
pub fn whole_folder(path: &Path, write: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let refused = |what| Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    match fs::metadata(path) {
        Ok(facts) if !facts.is_dir() => return refused("it exists and is not a folder"),
        Ok(_) if fs::read_dir(path)?.next().is_some() => return refused("it exists and is not empty"),
        _ => {}
    }
    let absolute = std::path::absolute(path)?;
    let parent = absolute.parent().unwrap_or(Path::new("/"));
    let permissions = Permissions::from_mode(0o777);
    fs::metadata(parent)?;
    let mut name = tempfile::Builder::new();
    name.prefix(".unfinished-").permissions(permissions);
    let made = Unfinished::made(|| name.tempdir_in(parent));
    let (folder, _unfinished) = made.map_err(|error| io::Error::from(error.kind()))?;
    write(folder.path(), &absolute)?;
    // A folder may have many thousands of small files, so the whole file system is synchronised at once.
    rustix::fs::syncfs(File::open(folder.path())?)?;
    fs::rename(folder.path(), path)?;
    // The folder now has its final name, and stays.
    let _ = folder.keep();
    sync_folder(parent)
}
