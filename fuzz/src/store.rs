//! The target for stores: any bytes as the file of a run, such as a damaged disk or a crash leaves.

use std::fs;
use std::path::Path;

use kqps_observation::{Store, StoreError};
use tempfile::TempDir;

/// Linux keeps the files of this folder in memory, where waiting for a disk costs nothing.
const MEMORY: &str = "/dev/shm";

/// Takes any bytes as the file of a run. Reading must change nothing, and return a run or an error with the path.
/// Opening the file to go on must find the same run, or refuse it.
pub fn store(bytes: &[u8]) {
    let folder = folder();
    let path = folder.path().join("run.sqlite");
    fs::write(&path, bytes).expect("a file");
    let read = Store::read(&path);
    assert_eq!(fs::read(&path).expect("the file is still there"), bytes);
    if let Err(error) = &read {
        names(error, folder.path());
    }
    match Store::open(&path) {
        Ok(store) => {
            let run = read.expect("a run that can be continued can be read");
            assert_eq!(store.run().expect("it was read when it was opened"), run);
            for number in [store.next_number(), store.next_start()] {
                match number {
                    Ok(number) => assert!(number > 0),
                    Err(error) => names(&error, folder.path()),
                }
            }
        }
        Err(error) => names(&error, folder.path()),
    }
}

fn folder() -> TempDir {
    let in_memory = Path::new(MEMORY).is_dir();
    let folder = if in_memory { tempfile::tempdir_in(MEMORY) } else { tempfile::tempdir() };
    folder.expect("a folder")
}

/// An error says which file it is about.
fn names(error: &StoreError, folder: &Path) {
    let said = error.to_string();
    assert!(said.contains(&folder.display().to_string()), "{said}");
}
