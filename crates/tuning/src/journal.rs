//! The journal of what was changed on this host since it booted: a file for each change, on disk before the change is
//! made. The folder is that of the boot, since another boot has nothing to undo.

mod place;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::setting::{Change, Setting};
use crate::system::Identity;

/// The end of the names of records.
const RECORD: &str = ".json";

/// The end of the name of a record that is being written.
const UNFINISHED: &str = ".unfinished";

/// The name of the file that a process locks while it changes settings or the journal.
const LOCK: &str = "lock";

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the journal of host settings, {path}: {error}", path = .path.display())]
pub struct JournalError {
    /// The file or folder.
    pub path: PathBuf,
    /// The error of the system.
    pub error: io::Error,
}

/// A change with everything that undoing it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number in the journal. Later changes have greater ones.
    #[serde(skip)]
    pub number: u64,
    /// The change as it was asked for.
    pub change: Change,
    /// The single settings that were changed, in their order.
    pub parts: Vec<Part>,
    /// The settings that the driver may have changed beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Part>,
    /// The process whose end undoes it; `None` if it stays until it is undone.
    pub owner: Option<Owner>,
    /// The network namespace in which it was made; `None` if all of it is of the whole host.
    #[serde(default)]
    pub network: Option<u64>,
    /// Whether that namespace ends with the owner, who made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_private: bool,
    /// Whether all of it was made. If not, the program may have ended at any point of it.
    pub is_made: bool,
}

impl Record {
    /// Whether it can be undone from a network namespace.
    pub fn is_in(&self, network: u64) -> bool {
        self.network.is_none_or(|made_in| made_in == network)
    }
}

/// A single setting of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The setting.
    pub setting: Setting,
    /// The value before.
    pub old: String,
    /// The value that was asked for; of a setting that changed by itself, that before.
    pub wanted: String,
    /// The value that was read back; `None` until then.
    pub found: Option<String>,
    /// The device of the setting.
    #[serde(default)]
    pub identity: Identity,
    /// Why undoing left it as it is; `None` if it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// The journal of this boot.
pub struct Journal {
    folder: PathBuf,
    /// Called after every step, so that tests can end the program there.
    #[cfg(test)]
    pub(crate) after_step: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Journal {
    /// The journal of this boot for changes: in `$KQPS_STATE`, else in `/var/lib/kqps` if this process has the right to
    /// write there, else in the user's folder of state. Journals of this machine's other boots beside it are removed.
    pub fn of_this_boot() -> Result<Self, JournalError> {
        let folder = place::to_write();
        let journal = Self::at(&folder)?;
        place::remove_other_boots(&folder);
        Ok(journal)
    }

    /// All journals of this boot that this process may have to undo, at least one: that in `$KQPS_STATE`, or those in
    /// `/var/lib/kqps` and in the user's folder of state. None is made.
    pub fn all_of_this_boot() -> Vec<Self> {
        place::to_read().into_iter().map(Self::in_folder).collect()
    }

    /// The journal in a folder, which is made if it is missing.
    pub fn at(folder: &Path) -> Result<Self, JournalError> {
        fs::create_dir_all(folder).map_err(|error| JournalError { path: folder.to_owned(), error })?;
        Ok(Self::in_folder(folder.to_owned()))
    }

    /// The journal in a folder that may be missing, which is then empty.
    fn in_folder(folder: PathBuf) -> Self {
        Self {
            folder,
            #[cfg(test)]
            after_step: None,
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All records, the oldest first, but for those of [`Self::unreadable`].
    pub fn records(&self) -> Result<Vec<Record>, JournalError> {
        Ok(self.read()?.0)
    }

    /// Why some records cannot be read. What they say cannot be undone.
    pub fn unreadable(&self) -> Result<Vec<JournalError>, JournalError> {
        Ok(self.read()?.1)
    }

    /// The records, and why others cannot be read.
    pub(crate) fn read(&self) -> Result<(Vec<Record>, Vec<JournalError>), JournalError> {
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for number in self.numbers()? {
            let path = self.path(number);
            let text = match fs::read(&path) {
                Ok(text) => text,
                // Another process undid it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    unreadable.push(JournalError { path, error });
                    continue;
                }
            };
            match serde_json::from_slice::<Record>(&text) {
                Ok(record) => records.push(Record { number, ..record }),
                Err(error) => unreadable.push(JournalError { path, error: io::Error::other(error) }),
            }
        }
        Ok((records, unreadable))
    }

    /// Whether it has no record.
    pub(crate) fn is_empty(&self) -> Result<bool, JournalError> {
        Ok(self.numbers()?.is_empty())
    }

    /// Makes changes stay until they are undone, whatever becomes of their process.
    pub fn keep(&self, numbers: &[u64]) -> Result<(), JournalError> {
        let _lock = self.lock()?;
        for record in self.records()?.into_iter().filter(|record| numbers.contains(&record.number)) {
            self.write(&Record { owner: None, ..record })?;
        }
        Ok(())
    }

    /// Removes settings from their records without undoing them.
    pub fn forget(&self, over: &[(u64, Setting)]) -> Result<(), JournalError> {
        if over.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        for mut record in self.records()? {
            let (number, before) = (record.number, record.parts.len());
            record.parts.retain(|part| !over.contains(&(number, part.setting.clone())));
            if record.parts.is_empty() {
                self.remove(number)?;
            } else if record.parts.len() < before {
                self.write(&record)?;
            }
        }
        Ok(())
    }

    /// Waits until no other process changes settings, and keeps others from it as long as the file lives. That works on a
    /// disk that has become full or read-only, too.
    pub(crate) fn lock(&self) -> Result<File, JournalError> {
        let path = self.folder.join(LOCK);
        let open = || -> io::Result<File> {
            let made = File::options().create(true).truncate(false).write(true).open(&path);
            let file = made.or_else(|error| File::open(&path).map_err(|_| error))?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|error| JournalError { path: path.clone(), error })
    }

    /// Adds a record. It is on disk when the call returns.
    pub(crate) fn add(&self, record: &mut Record) -> Result<(), JournalError> {
        record.number = self.numbers()?.last().map_or(1, |last| last + 1);
        self.write(record)
    }

    /// Writes a record, whole or not at all. It is on disk when the call returns.
    pub(crate) fn write(&self, record: &Record) -> Result<(), JournalError> {
        let path = self.path(record.number);
        let unfinished = path.with_extension(UNFINISHED.trim_start_matches('.'));
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            self.step();
            self.sync(&file)?;
            self.step();
            fs::rename(&unfinished, &path)?;
            self.step();
            self.sync(&File::open(&self.folder)?)
        };
        write().map_err(|error| JournalError { path: path.clone(), error })?;
        self.step();
        Ok(())
    }

    /// Removes a record. That it is gone is on disk when the call returns.
    pub(crate) fn remove(&self, number: u64) -> Result<(), JournalError> {
        let path = self.path(number);
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                self.step();
                File::open(&self.folder).and_then(|folder| self.sync(&folder))
            }
        };
        removed.map_err(|error| JournalError { path, error })
    }

    /// Marks the end of a step, after which the program may be killed.
    #[cfg_attr(not(test), allow(clippy::unused_self))]
    pub(crate) fn step(&self) {
        #[cfg(test)]
        if let Some(after_step) = &self.after_step {
            after_step();
        }
    }

    #[cfg_attr(not(test), allow(clippy::unused_self))]
    fn sync(&self, file: &File) -> io::Result<()> {
        // Tests kill the program and not the machine, some ten thousand times.
        #[cfg(test)]
        if self.after_step.is_some() {
            return Ok(());
        }
        file.sync_all()
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}{RECORD}"))
    }

    fn numbers(&self) -> Result<Vec<u64>, JournalError> {
        let failed = |error| JournalError { path: self.folder.clone(), error };
        let mut numbers = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let number: Option<u64> = name.to_str().and_then(|name| name.strip_suffix(RECORD)?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}
