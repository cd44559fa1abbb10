//! Folders whose content decides what this program does: only their owner may write there. `kqps run --push` checks the
//! folders of another host by the same rule, in a shell's words (`crates/fleet/src/push.rs`).

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// The bits of a mode by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;

/// The number of the user root.
pub const ROOT: u32 = 0;

/// The fault of a folder with this owner and mode, for a process of a user; `None` for nothing. Root may write anywhere.
pub fn objection(owner: u32, mode: u32, user: u32) -> Option<String> {
    if owner != user && owner != ROOT {
        return Some(format!("the folder is that of user {owner}, and this process is of user {user}"));
    }
    (mode & OTHERS_WRITE != 0).then(|| "others than its owner may write there (chmod go-w)".to_owned())
}

/// Makes a folder of the user with this number, and those above it. Whatever the umask is, others can neither write in
/// it nor enter it. If the folder is there, others lose the right to write.
///
/// # Errors
///
/// If it cannot be made, is a link or no folder, or is another user's.
pub fn make_own(folder: &Path, user: u32) -> io::Result<()> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let above = folder.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return refused("it is a link or no folder".into());
    }
    if found.uid() != user {
        return refused(format!("it is that of user {}, and this process is of user {user}", found.uid()));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o7777 & !OTHERS_WRITE))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_user_or_that_others_may_write_is_not_obeyed() {
        for (owner, mode, user, is_obeyed) in [
            (1000, 0o40755, 1000, true),
            (1000, 0o40755, 0, false),
            (1000, 0o40755, 1001, false),
            (0, 0o40755, 1000, true),
            (0, 0o41777, 0, false),
            (1000, 0o40775, 1000, false),
        ] {
            assert_eq!(objection(owner, mode, user).is_none(), is_obeyed, "{owner} {mode:o} {user}");
        }
    }

    #[test]
    fn a_folder_becomes_the_users_own_or_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let user = fs::metadata(home.path()).unwrap().uid();
        let mode = |folder: &Path| fs::metadata(folder).unwrap().mode() & 0o7777;
        let folder = home.path().join("cache/agent");
        make_own(&folder, user).unwrap();
        assert_eq!(mode(&folder), 0o700);
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        make_own(&folder, user).unwrap();
        assert_eq!(mode(&folder), 0o755);
        assert!(make_own(&folder, user + 1).unwrap_err().to_string().contains("it is that of user"));
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert_eq!(make_own(&link, user).unwrap_err().to_string(), "it is a link or no folder");
    }
}
