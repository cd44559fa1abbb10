//! The store: runs are added once, all or none, and a file that is no history stays as it is.

use std::fs;

use kqps_history::{Added, Entry, Host, Kind, Store, StoreError};

use crate::records::{around, daily, host, key, reading};

fn entries(count: usize) -> Vec<(Entry, Host)> {
    let key = key("nsd", Kind::Share);
    let records = daily(count, |number| (host("6.1"), vec![reading(&key, Some(around(0.5, number)), None)]));
    records.entries.into_iter().map(|entry| (entry.clone(), records.hosts[&entry.host].clone())).collect()
}

#[test]
fn a_run_is_there_once_and_in_the_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    let mut runs = entries(3);
    runs.reverse();
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.add(&runs).unwrap(), [Added::New; 3]);
    assert_eq!(store.add(&runs).unwrap(), [Added::Known; 3]);
    "/elsewhere/run-0".clone_into(&mut runs[2].0.folder);
    assert_eq!(store.add(&runs).unwrap(), [Added::Known, Added::Known, Added::Renewed]);
    assert_eq!(store.count().unwrap(), 3);
    drop(store);
    let records = Store::read(&path).unwrap();
    let folders: Vec<&str> = records.entries.iter().map(|entry| entry.folder.as_str()).collect();
    assert_eq!(folders, ["/elsewhere/run-0", "/runs/run-1", "/runs/run-2"]);
    assert_eq!((records.hosts.len(), records.entries[0].name()), (1, "run-0"));

    // These runs in another order give the same history.
    let other = folder.path().join("other.sqlite");
    runs.reverse();
    Store::open(&other).unwrap().add(&runs).unwrap();
    assert_eq!(Store::read(&other).unwrap(), records);
}

#[test]
fn what_is_no_history_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(matches!(Store::read(&path("none")), Err(StoreError::Missing { .. })));
    assert!(!path("none").exists());
    assert!(matches!(Store::read(folder.path()), Err(StoreError::Foreign { .. })));
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Foreign { .. })));

    let text = "not a database, but longer than the header of one is, by far, so that SQLite looks at it";
    fs::write(path("text"), text.repeat(9)).unwrap();
    let other = rusqlite::Connection::open(path("other")).unwrap();
    other.execute_batch("CREATE TABLE mine (text TEXT); INSERT INTO mine VALUES ('kept')").unwrap();
    drop(other);
    for name in ["text", "other"] {
        let before = fs::read(path(name)).unwrap();
        assert!(matches!(Store::read(&path(name)), Err(StoreError::Foreign { .. })), "{name}");
        assert!(matches!(Store::open(&path(name)), Err(StoreError::Foreign { .. })), "{name}");
        assert_eq!(fs::read(path(name)).unwrap(), before, "{name}");
    }
}

#[test]
fn a_newer_history_and_a_damaged_record_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    Store::open(&path).unwrap().add(&entries(2)).unwrap();
    let change = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    change("UPDATE runs SET schema = 9 WHERE id = 'run 0001'");
    assert!(matches!(Store::read(&path), Err(StoreError::Newer { .. })));
    change("UPDATE runs SET schema = 1, record = '{\"schema\": 1' WHERE id = 'run 0001'");
    let error = Store::read(&path).unwrap_err().to_string();
    assert!(
        error.contains("the run run 0001 cannot be read") && error.contains("from the runs' folders"),
        "{error}"
    );
    change("PRAGMA user_version = 7");
    assert!(matches!(Store::open(&path), Err(StoreError::Newer { .. })));
}
