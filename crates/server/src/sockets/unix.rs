//! Listening on Unix sockets. Their files stay when a server is killed, and such a stale file is replaced. A
//! socket at which a program listens is not replaced, and neither is any other file.

use std::fs::{Metadata, remove_file, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use mio::net::UnixStream;

use super::BindError;

/// The file of a Unix socket. Dropping this value removes the file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// The path of the file, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another program may have replaced the file. If the file cannot be removed, the next server replaces it.
        if symlink_metadata(&self.path).is_ok_and(|now| identity(&now) == self.identity) {
            let _ = remove_file(&self.path);
        }
    }
}

/// Creates a socket file and listens on it.
pub fn listen(path: &Path) -> Result<(UnixListener, SocketFile), BindError> {
    let refused = |reason| BindError { place: path.display().to_string(), reason };
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path).map_err(refused)?;
            UnixListener::bind(path)
        }
        listener => listener,
    };
    let made = listener.and_then(|listener| Ok((listener, identity(&symlink_metadata(path)?))));
    match made {
        Ok((listener, identity)) => Ok((listener, SocketFile { path: path.to_owned(), identity })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(refused("the folder does not exist".to_owned()))
        }
        // The standard library reports this without a system call.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(refused("the path of a Unix socket may have 107 bytes at most, and no zero byte".to_owned()))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Removes a socket's file if no program listens there. The error says why the file stays.
fn remove_stale(path: &Path) -> Result<(), String> {
    let found = symlink_metadata(path).map_err(|error| error.to_string())?;
    if !found.file_type().is_socket() {
        return Err("a file that is not a socket is there; remove it, or choose another path".to_owned());
    }
    // Connecting does not block, even if the listener does not accept.
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            remove_file(path).map_err(|error| format!("cannot remove the file of a dead server: {error}"))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(format!("cannot find out whether another program listens there: {error}"))
        }
        _ => Err("another program listens there; choose another path".to_owned()),
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}
