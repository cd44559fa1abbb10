//! The folder of encoded datasets: `kqps/datasets/` in the user's cache directory. A file's name is a hash of
//! its source's content, of the options that shape it, and of the format's version.
//!
//! A file is written under another name, and renamed when it is whole. So no process reads a partial file,
//! and writers do not disturb each other. If all files together exceed 8 GiB, the files used longest ago are
//! removed. A removed file that is mapped stays readable until it is closed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kqps_files::cache_folder;
use kqps_files::unfinished::Unfinished;
use tempfile::NamedTempFile;

use crate::encoded;

/// The most that all files may use together, in bytes.
const TOTAL_BYTES_MAX: u64 = 8 << 30;
/// A file that has been unfinished for longer than this belongs to a process that has ended.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);
const SUFFIX: &str = "queries";
const UNFINISHED_PREFIX: &str = ".unfinished-";

/// The directory of encoded datasets.
pub(crate) fn directory() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("datasets"))
}

/// The name of the file for a source with this content, shaped by these options.
pub(crate) fn file_name(source_hash: &[u8; 32], shape: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&encoded::VERSION.to_le_bytes()).update(source_hash).update(shape);
    format!("{}.{SUFFIX}", hasher.finalize().to_hex())
}

/// A new file, which is removed unless the caller keeps it.
pub(crate) fn begin(directory: &Path) -> io::Result<(NamedTempFile, Unfinished)> {
    fs::create_dir_all(directory)?;
    Unfinished::made(|| tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempfile_in(directory))
}

/// Records that a file was used, so that it is removed later than files not in use.
pub(crate) fn touch(path: &Path) {
    // Only the order of removal depends on this.
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes files down to the limits above, but never `kept`.
pub(crate) fn tidy(directory: &Path, kept: &Path) {
    tidy_to(directory, kept, TOTAL_BYTES_MAX);
}

/// Ignores failures. Another process may have removed the same file, and a growing cache is no reason not to
/// measure.
fn tidy_to(directory: &Path, kept: &Path, bytes_max: u64) {
    let mut finished = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(facts) = entry.metadata() else { continue };
        let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let path = entry.path();
        if path.extension() == Some(OsStr::new(SUFFIX)) {
            finished.push((used, facts.len(), path));
        } else if entry.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX)
            && used.elapsed().is_ok_and(|age| age > ABANDONED_AFTER)
        {
            let _ = fs::remove_file(path);
        }
    }
    finished.sort();
    let mut total_bytes: u64 = finished.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in finished {
        if total_bytes <= bytes_max {
            break;
        }
        if path != kept && fs::remove_file(path).is_ok() {
            total_bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(directory: &Path, name: &str, bytes: usize, age: Duration) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, vec![0; bytes]).unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
        path
    }

    #[test]
    fn what_was_used_longest_ago_is_removed_first() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let hour = Duration::from_hours(1);
        let oldest = file(at, "a.queries", 100, hour * 4);
        let old = file(at, "b.queries", 100, hour * 3);
        let new = file(at, "c.queries", 100, hour);
        let other = file(at, "notes.txt", 100, hour * 9);
        touch(&oldest);
        tidy_to(at, &new, 250);
        assert!(oldest.exists() && !old.exists() && new.exists() && other.exists());
        tidy_to(at, &new, 0);
        assert!(!oldest.exists() && new.exists() && other.exists());
    }

    #[test]
    fn what_a_dead_process_left_is_removed_after_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let dead = file(at, ".unfinished-a", 1, Duration::from_hours(25));
        let alive = file(at, ".unfinished-b", 1, Duration::from_hours(1));
        tidy_to(at, at, 1000);
        assert!(!dead.exists() && alive.exists());
    }
}
