//! `$INCLUDE`: another file's entries at this place (RFC 1035, section 5.1). Its path is relative to the
//! including file. The `$ORIGIN` and the last owner of the included file end with it. Its `$TTL` remains in
//! force, as in BIND and NSD.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::harvest::File;

/// The path and the content of the file with this name, or the reason why it cannot be included.
pub(super) fn open(file: &File<'_>, name: &[u8]) -> Result<(Arc<Path>, Vec<u8>), Box<str>> {
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let path = tidied(&folder.join(OsStr::from_bytes(name)));
    let chain = || std::iter::successors(Some(file), |file| file.includer);
    if chain().any(|file| tidied(&file.path) == path) {
        return Err("it would include itself".into());
    }
    let depth_max = file.options.depth_max;
    if chain().count() > depth_max {
        return Err(format!("files are included {depth_max} deep already").into());
    }
    let content = (file.options.open)(&path).map_err(|error| error.to_string())?;
    Ok((Arc::from(path), content))
}

/// The path without `.` and without `x/..`, so that a file has one name here. Symbolic links need no care,
/// since a loop through them ends at the depth limit.
fn tidied(path: &Path) -> PathBuf {
    let mut tidied = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(tidied.components().next_back(), Some(Component::Normal(_))) => {
                tidied.pop();
            }
            other => tidied.push(other),
        }
    }
    tidied
}
