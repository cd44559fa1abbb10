//! Files that appear whole or not at all.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file under another name beside `path` and renames it when it is whole. A file that is there is
/// replaced; a device, a pipe or a directory is left alone, with an error.
pub(super) fn whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is no regular file"));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Servers that run as another user read these files: the umask decides, as for any file.
    let permissions = Permissions::from_mode(0o666);
    fs::metadata(directory)?;
    let file =
        tempfile::Builder::new().prefix(".unfinished-").permissions(permissions).tempfile_in(directory);
    // What it says names the other file, which the user never heard of.
    let file = file.map_err(|error| io::Error::from(error.kind()))?;
    let mut out = BufWriter::with_capacity(1 << 18, file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.persist(path)?;
    Ok(())
}
