//! The name of the resolver's network, and a file beside it, in a folder that no environment changes: the next start finds the
//! file of a killed box there, and removes the name.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use kqps_kernel::namespace::{NetNs, named};

use super::files::is_old;
use crate::exit::bad_input;

/// The folder of these files. A file has the name of a network, and holds the number of its namespace.
const FOLDER: &str = "/run/kqps-internet";

/// The beginning of the names of files that are not locked yet. No network has such a name.
const UNFINISHED: &str = ".";

/// The network's name. Dropping it removes the name, and then the file.
pub(super) struct NetworkName {
    name: String,
    _given: named::Name,
    _record: Record,
}

impl NetworkName {
    /// Names a network.
    pub(super) fn give(home: &NetNs, name: &str) -> anyhow::Result<Self> {
        let number = home.number()?;
        // Before the name, so that it is known whenever kqps is killed.
        let record = named::check(name).and_then(|()| Record::write(Path::new(FOLDER), name, number));
        let given = record.and_then(|record| Ok((named::Name::give(home, name)?, record)));
        let (given, record) = given.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => bad_input(format!(
                "--namespace {name}: there is a network of this name already (`ip netns` lists them); choose another"
            )),
            ErrorKind::InvalidInput => bad_input(format!("--namespace: {error}")),
            _ => anyhow!("--namespace {name}: {error}"),
        })?;
        Ok(Self { name: name.to_owned(), _given: given, _record: record })
    }

    /// The name.
    pub(super) fn as_str(&self) -> &str {
        &self.name
    }
}

/// A file that kqps keeps locked while it runs. Dropping it removes the file.
struct Record {
    path: PathBuf,
    _lock: File,
}

impl Record {
    /// Writes a record. Fails with `AlreadyExists` if there is one of this name.
    fn write(folder: &Path, name: &str, number: u64) -> io::Result<Self> {
        let path = folder.join(name);
        // The file is locked before it has its name, so no other start takes it for that of a dead box.
        let written = || {
            fs::create_dir_all(folder)?;
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
            file.as_file().lock()?;
            write!(file, "{number}")?;
            Ok(file.persist_noclobber(&path)?)
        };
        let lock = written().map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("writing {}: {error}", path.display()))
        })?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the names that killed boxes left. What cannot be removed stays.
pub(super) fn remove_left_behind() {
    remove_all_in(Path::new(FOLDER), |name, number| {
        // Another program may have given the name since.
        let is_same = named::open(name).and_then(|found| found.number()).is_ok_and(|found| found == number);
        if is_same || named::is_empty(name) {
            let _ = named::remove(name);
        }
    });
}

/// Removes the records of dead boxes in a folder. `remove` gets the name and the number in each.
fn remove_all_in(folder: &Path, remove: impl Fn(&str, u64)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if is_unfinished && !is_old(&entry.path()) {
            continue;
        }
        // The lock is kept until the file is gone.
        let Ok(file) = File::open(entry.path()) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let number = fs::read_to_string(entry.path()).ok().and_then(|text| text.parse().ok());
        if let (Some(number), Some(name)) = (number, entry.file_name().to_str()) {
            remove(name, number);
        }
        let _ = fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn records_of_dead_boxes_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let living = Record::write(folder.path(), "living", 1).unwrap();
        let taken = Record::write(folder.path(), "living", 2).err().unwrap();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        fs::write(folder.path().join("dead"), "77").unwrap();
        fs::write(folder.path().join(".young"), "").unwrap();
        let removed = RefCell::new(Vec::new());
        let remove = || {
            remove_all_in(folder.path(), |name, number| removed.borrow_mut().push((name.to_owned(), number)));
        };
        remove();
        assert_eq!(removed.take(), [("dead".to_owned(), 77)]);
        let left = || fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left(), 2);
        drop(living);
        assert_eq!(left(), 1);
        remove();
        assert_eq!(removed.take(), []);
    }
}
