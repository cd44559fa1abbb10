//! The SQLite file of a history, with an entry for each run. It can be made anew from the folders of the runs, so it
//! holds nothing that a run's folder does not.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, ffi, params,
};

use crate::entry::{Entry, SCHEMA};
use crate::host::Host;

/// Marks an SQLite file as a history: "kqph" in ASCII. <https://www.sqlite.org/pragma.html#pragma_application_id>
const APPLICATION_ID: i32 = 0x6b71_7068;

/// The version of the tables, apart from the schema of the records in them.
const LAYOUT: i32 = 1;

const TABLES: &str = "
    CREATE TABLE hosts (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
    CREATE TABLE runs  (id TEXT PRIMARY KEY, schema INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
";

/// How long to wait for another kqps that writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The history of runs in a file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

/// All that a history holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// The runs by the time of their start, the oldest first.
    pub entries: Vec<Entry>,
    /// Identity → host.
    pub hosts: BTreeMap<String, Host>,
}

/// The effect of adding a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The run is new.
    New,
    /// The run was there with the same figures and the same folder.
    Known,
    /// The run was there, and its figures or its folder are others now.
    Renewed,
}

/// Why a history could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum StoreError {
    #[error("{path}: there is no history yet; `kqps history add DIR` makes it", path = .path.display())]
    Missing { path: PathBuf },
    #[error("{path} is not a history: {reason}", path = .path.display())]
    Foreign { path: PathBuf, reason: String },
    #[error("{path} was written by a newer kqps; use that version, or make the history anew from the runs' folders",
            path = .path.display())]
    Newer { path: PathBuf },
    #[error("{path}: {record} cannot be read: {reason}; make the history anew from the runs' folders",
            path = .path.display())]
    Damaged { path: PathBuf, record: String, reason: String },
    #[error("{path}: no space is left; what was stored before is intact", path = .path.display())]
    Full { path: PathBuf },
    #[error("{path}: another kqps is writing it; try again", path = .path.display())]
    Busy { path: PathBuf },
    #[error("{path}: {error}", path = .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{path}: {error}", path = .path.display())]
    Database { path: PathBuf, error: rusqlite::Error },
}

impl Store {
    /// Opens a history to add runs. Makes it if there is no file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        if path.is_dir() {
            return Err(foreign(path, "it is a folder"));
        }
        let store = Self::connect(path, flags)?;
        store.transact(|transaction| {
            let tables: u32 =
                transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if tables == 0 {
                transaction.execute_batch(TABLES)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
                transaction.pragma_update(None, "user_version", LAYOUT)?;
            }
            Ok(())
        })?;
        store.must_be_a_history()?;
        Ok(store)
    }

    /// Reads a whole history.
    pub fn read(path: &Path) -> Result<Records, StoreError> {
        match path.metadata() {
            Ok(found) if found.is_dir() => return Err(foreign(path, "it is a folder")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Missing { path: path.into() });
            }
            Err(error) => return Err(StoreError::Io { path: path.into(), error }),
        }
        let store = Self::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        store.must_be_a_history()?;
        store.records()
    }

    /// Adds runs, all of them or none. Each entry comes with its host.
    pub fn add(&mut self, entries: &[(Entry, Host)]) -> Result<Vec<Added>, StoreError> {
        self.transact(|transaction| {
            entries.iter().map(|(entry, host)| put(transaction, entry, host)).collect()
        })
    }

    /// The number of runs.
    pub fn count(&self) -> Result<u64, StoreError> {
        let count = self.connection.query_row("SELECT count(*) FROM runs", [], |row| row.get(0));
        count.map_err(|error| self.failed(error))
    }

    /// All runs and hosts.
    pub fn records(&self) -> Result<Records, StoreError> {
        let moment = self.connection.unchecked_transaction().map_err(|error| self.failed(error))?;
        let mut hosts = BTreeMap::new();
        for (_, id, text) in
            rows(&moment, "SELECT 0, id, record FROM hosts").map_err(|error| self.failed(error))?
        {
            hosts.insert(id, self.decoded("a host", &text)?);
        }
        let mut entries: Vec<Entry> = Vec::new();
        for (schema, id, text) in
            rows(&moment, "SELECT schema, id, record FROM runs").map_err(|error| self.failed(error))?
        {
            if schema > SCHEMA {
                return Err(StoreError::Newer { path: self.path.clone() });
            }
            entries.push(self.decoded(&format!("the run {id}"), &text)?);
        }
        entries.sort_by(|a, b| (a.started_unix_ms, &a.id).cmp(&(b.started_unix_ms, &b.id)));
        Ok(Records { entries, hosts })
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let failed = |error| of_database(path, error);
        let connection =
            Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        Ok(Self { path: path.into(), connection })
    }

    fn must_be_a_history(&self) -> Result<(), StoreError> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let id = pragma("application_id").map_err(|error| self.failed(error))?;
        let layout = pragma("user_version").map_err(|error| self.failed(error))?;
        match (id, layout) {
            (APPLICATION_ID, LAYOUT) => Ok(()),
            (APPLICATION_ID, _) => Err(StoreError::Newer { path: self.path.clone() }),
            _ => Err(foreign(&self.path, "it is a database of another program, or the store of a run")),
        }
    }

    fn transact<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(|error| self.failed(error))?;
        // Dropping the transaction without a commit rolls it back.
        let done = work(&transaction).map_err(|error| self.failed(error))?;
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(done)
    }

    fn decoded<T: serde::de::DeserializeOwned>(&self, record: &str, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|error| StoreError::Damaged {
            path: self.path.clone(),
            record: record.to_owned(),
            reason: error.to_string(),
        })
    }

    fn failed(&self, error: rusqlite::Error) -> StoreError {
        of_database(&self.path, error)
    }
}

type Row = (u32, String, String);

fn rows(connection: &Connection, select: &str) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare(select)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

fn put(transaction: &Transaction<'_>, entry: &Entry, host: &Host) -> rusqlite::Result<Added> {
    let text = |record: serde_json::Result<String>| {
        record.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    };
    transaction
        .prepare_cached("INSERT OR IGNORE INTO hosts (id, record) VALUES (?, ?)")?
        .execute(params![host.id, text(serde_json::to_string(host))?])?;
    let record = text(serde_json::to_string(entry))?;
    let known: Option<String> = transaction
        .prepare_cached("SELECT record FROM runs WHERE id = ?")?
        .query_row([&entry.id], |row| row.get(0))
        .optional()?;
    let added = match known {
        None => Added::New,
        Some(known) if known == record => return Ok(Added::Known),
        Some(_) => Added::Renewed,
    };
    transaction
        .prepare_cached("INSERT OR REPLACE INTO runs (id, schema, record) VALUES (?, ?, ?)")?
        .execute(params![entry.id, SCHEMA, record])?;
    Ok(added)
}

fn foreign(path: &Path, reason: &str) -> StoreError {
    StoreError::Foreign { path: path.into(), reason: reason.into() }
}

fn of_database(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ffi::ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ffi::ErrorCode::NotADatabase) => foreign(&path, "it is not an SQLite database"),
        Some(ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ffi::ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { path, record: "the database".into(), reason: error.to_string() }
        }
        _ => StoreError::Database { path, error },
    }
}
