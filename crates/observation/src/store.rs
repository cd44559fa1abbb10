//! The file that holds a run: SQLite with a write-ahead log, one row and one transaction per trial. Every row is a JSON
//! record with its schema version. A trial whose commit returned survives the death of the process and of the machine.
//! Any other trial is either whole or absent.

mod claim;
mod error;
mod older;
mod record;
mod table;

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

pub use claim::Claim;
pub use error::StoreError;

use crate::Cell;
use crate::SCHEMA;
use crate::run::{Run, RunTrial};
use crate::run_host::RunHost;
use claim::Lock;
use record::{read_records, write_record};
use table::Table;

/// Marks an SQLite file as a store: "kqps" in ASCII. <https://www.sqlite.org/pragma.html#pragma_application_id>
const APPLICATION_ID: i32 = 0x6b71_7073;

/// The version of the tables below, apart from the schema of the records in them.
const LAYOUT: i32 = 1;

const TABLES: &str = "
    CREATE TABLE runs   (number INTEGER PRIMARY KEY, schema INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE TABLE cells  (number INTEGER PRIMARY KEY, schema INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE TABLE trials (number INTEGER PRIMARY KEY, schema INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
";

/// The run's own row in the table `runs`.
const THE_RUN: u64 = 1;

/// A run that is being written. Holds an exclusive lock on its folder, so that no second kqps writes there.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    cells: u32,
    _folder: Lock,
}

impl Store {
    /// Makes a new store of a run and its cells, if [`Claim::new`] can claim the path.
    pub fn create(path: &Path, run: &Run) -> Result<Self, StoreError> {
        Claim::new(path)?.create(run)
    }

    fn create_in(path: PathBuf, folder: Lock, run: &Run) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = connect(&path, flags)?;
        // If there is a journal, this query rolls back an interrupted transaction. The file is empty again if
        // nothing else was in it.
        let tables =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, u32>(0));
        if !matches!(tables, Ok(0)) {
            return Err(StoreError::Exists { path });
        }
        let cells = u32::try_from(run.cells.len()).unwrap_or(u32::MAX);
        let store = Self { path, connection, cells, _folder: folder };
        // Before there is a log, so that a process killed in here leaves an empty file.
        store.transact(|transaction| {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", LAYOUT)?;
            let alone = Run { schema: SCHEMA, cells: Vec::new(), trials: Vec::new(), ..run.clone() };
            write_record(transaction, Table::Runs, THE_RUN, &alone)?;
            for (number, cell) in (0..).zip(&run.cells) {
                write_record(transaction, Table::Cells, number, cell)?;
            }
            Ok(())
        })?;
        store.prepare_for_writing()?;
        Ok(store)
    }

    /// Opens a store to continue its run. Fails if another kqps writes it, or if it is not a store.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        must_be_a_file(path)?;
        let folder = Lock::new(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        must_be_a_store(path, &connection)?;
        let cells = connection
            .query_row("SELECT count(*) FROM cells", [], |row| row.get(0))
            .map_err(|error| StoreError::from_database(path, error))?;
        let store = Self { path: path.into(), connection, cells, _folder: folder };
        store.prepare_for_writing()?;
        store.run()?;
        Ok(store)
    }

    /// Reads a run that is finished, unfinished, or being written by another process. Needs no right to write.
    pub fn read(path: &Path) -> Result<Run, StoreError> {
        read_run(path, &open_to_read(path)?)
    }

    /// The number of trials that a run has committed so far. As [`Self::read`], in a time that does not grow with the
    /// size of their records.
    pub fn count_trials(path: &Path) -> Result<u64, StoreError> {
        open_to_read(path)?
            .query_row("SELECT count(*) FROM trials", [], |row| row.get(0))
            .map_err(|error| StoreError::from_database(path, error))
    }

    /// Commits one trial. When this returns `Ok`, the trial is on disk. On any error nothing has changed, and
    /// the store can still be used.
    pub fn commit(&self, trial: &RunTrial) -> Result<(), StoreError> {
        if trial.cell >= self.cells {
            return Err(StoreError::NoSuchCell {
                path: self.path.clone(),
                cell: trial.cell,
                cells: self.cells,
            });
        }
        self.transact(|transaction| write_record(transaction, Table::Trials, trial.number, trial))
            .map_err(|error| error.or_duplicate(trial.number))
    }

    /// The number of the next trial: one more than that of the last committed trial, 1 in a new run.
    pub fn next_number(&self) -> Result<u64, StoreError> {
        self.one_more_than("SELECT coalesce(max(number), 0) FROM trials")
    }

    /// The number of the subject's next start, counted like [`Self::next_number`]. An interrupted start keeps
    /// its number, since its trials were made in it.
    pub fn next_start(&self) -> Result<u64, StoreError> {
        self.one_more_than("SELECT coalesce(max(json_extract(record, '$.start')), 0) FROM trials")
    }

    /// Records that something was left out, and why.
    pub fn add_skipped(&self, what: &str, reason: &str) -> Result<(), StoreError> {
        self.transact(|transaction| {
            record::change(transaction, Table::Runs, THE_RUN, |run: &mut Run| {
                run.skipped.insert(what.to_owned(), reason.to_owned());
            })
        })
    }

    /// Removes an entry of [`Self::add_skipped`].
    pub fn remove_skipped(&self, what: &str) -> Result<(), StoreError> {
        self.transact(|transaction| {
            record::change(transaction, Table::Runs, THE_RUN, |run: &mut Run| {
                run.skipped.remove(what);
            })
        })
    }

    /// Changes the number of blocks of the run.
    pub fn set_blocks(&self, blocks: u32) -> Result<(), StoreError> {
        self.transact(|transaction| {
            record::change(transaction, Table::Runs, THE_RUN, |run: &mut Run| {
                run.blocks = blocks;
            })
        })
    }

    /// Replaces the facts of the hosts that the run is played over.
    pub fn set_hosts(&self, hosts: &[RunHost]) -> Result<(), StoreError> {
        self.transact(|transaction| {
            record::change(transaction, Table::Runs, THE_RUN, |run: &mut Run| {
                run.hosts = hosts.to_vec();
            })
        })
    }

    /// Replaces the plan of a cell, by its number from 0.
    pub fn set_cell(&self, number: usize, cell: &Cell) -> Result<(), StoreError> {
        self.transact(|transaction| {
            record::change(transaction, Table::Cells, number as u64, |stored: &mut Cell| {
                stored.clone_from(cell);
            })
        })
    }

    /// Marks the run as finished and merges the log into the file, so that the file can be moved alone, or to a
    /// read-only place.
    pub fn finish(&self, unix_ms: u64) -> Result<(), StoreError> {
        self.transact(|transaction| {
            record::change(transaction, Table::Runs, THE_RUN, |run: &mut Run| {
                run.finished_unix_ms = Some(unix_ms);
            })
        })?;
        // A reader that is using the log keeps it. The store is then as good with it.
        self.connection.pragma_update(None, "journal_mode", "DELETE").ok();
        Ok(())
    }

    /// The whole run, with every committed trial, in the order of their numbers.
    pub fn run(&self) -> Result<Run, StoreError> {
        read_run(&self.path, &self.connection)
    }

    /// The path of the store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn prepare_for_writing(&self) -> Result<(), StoreError> {
        self.connection
            .pragma_update(None, "journal_mode", "WAL")
            .and_then(|()| self.connection.pragma_update(None, "synchronous", "FULL"))
            .map_err(|error| StoreError::from_database(&self.path, error))
    }

    /// Commits all of `work` or nothing.
    fn transact(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<(), record::Refused>,
    ) -> Result<(), StoreError> {
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(|error| StoreError::from_database(&self.path, error))?;
        // Dropping the transaction without a commit rolls it back.
        work(&transaction).map_err(|refused| refused.at(&self.path))?;
        transaction.commit().map_err(|error| StoreError::from_database(&self.path, error))
    }

    fn one_more_than(&self, query: &str) -> Result<u64, StoreError> {
        let last: u64 = self
            .connection
            .query_row(query, params![], |row| row.get(0))
            .map_err(|error| StoreError::from_database(&self.path, error))?;
        Ok(last + 1)
    }
}

/// Opens a store of which another process may be the writer.
fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    must_be_a_file(path)?;
    match connect_to_read(path, "mode=ro") {
        // SQLite cannot open a log without the right to write the folder, or without room there. If the log is empty,
        // the file itself is whole.
        Err(error) if beside(path, "-wal").metadata().is_ok_and(|log| log.len() > 0) => Err(error),
        Err(_) => connect_to_read(path, "immutable=1"),
        connected => connected,
    }
}

fn read_run(path: &Path, connection: &Connection) -> Result<Run, StoreError> {
    // A single transaction, so that cells and trials are of the same moment while another process writes.
    let moment =
        connection.unchecked_transaction().map_err(|error| StoreError::from_database(path, error))?;
    let runs: Vec<Run> = read_records(path, &moment, Table::Runs)?;
    let Some(run) = runs.into_iter().next() else {
        return Err(StoreError::NotAStore { path: path.into(), reason: "it holds no run".into() });
    };
    let cells: Vec<Cell> = read_records(path, &moment, Table::Cells)?;
    let trials: Vec<RunTrial> = read_records(path, &moment, Table::Trials)?;
    if let Some(trial) = trials.iter().find(|trial| trial.cell as usize >= cells.len()) {
        return Err(StoreError::Damaged {
            path: path.into(),
            record: Table::Trials.row(trial.number),
            reason: format!("it is of cell {}, and the run has {} cells", trial.cell, cells.len()),
        });
    }
    Ok(Run { cells, trials, ..run })
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| StoreError::from_database(path, error))
}

fn connect_to_read(path: &Path, how: &str) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = connect(Path::new(&format!("file:{}?{how}", percent_encoded(path))), flags)
        .map_err(|error| error.named(path))?;
    must_be_a_store(path, &connection)?;
    Ok(connection)
}

/// Encodes a path for a file's URI, in which `%`, `?` and `#` have a meaning, and bytes that are not UTF-8
/// would be lost (<https://www.sqlite.org/uri.html>).
fn percent_encoded(path: &Path) -> String {
    let encoded = |&byte: &u8| match byte {
        b'%' | b'?' | b'#' | 0x80.. => format!("%{byte:02x}"),
        byte => char::from(byte).to_string(),
    };
    path.as_os_str().as_bytes().iter().map(encoded).collect()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn must_be_a_file(path: &Path) -> Result<(), StoreError> {
    let found = path.metadata().map_err(|error| StoreError::Io { path: path.into(), error })?;
    if found.is_dir() {
        return Err(StoreError::Directory { path: path.into() });
    }
    Ok(())
}

fn must_be_a_store(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let foreign = |reason: &str| StoreError::NotAStore { path: path.into(), reason: reason.into() };
    let id = pragma("application_id").map_err(|error| StoreError::from_database(path, error))?;
    let layout = pragma("user_version").map_err(|error| StoreError::from_database(path, error))?;
    match (id, layout) {
        (APPLICATION_ID, LAYOUT) => Ok(()),
        (APPLICATION_ID, newer) => {
            let [found, known] = [newer, LAYOUT].map(i32::cast_unsigned);
            Err(StoreError::Newer { path: path.into(), found, known })
        }
        (0, 0) if path.metadata().is_ok_and(|file| file.len() == 0) => {
            Err(foreign("it is empty, its run never began"))
        }
        _ => Err(foreign("it is a database of another program")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Outcome, Purpose};

    #[test]
    fn a_store_whose_making_was_cut_off_can_be_made_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let [begun, cut] = ["begun", "cut"].map(|name| folder.path().join(name));
        let connection = Connection::open(&begun).unwrap();
        // Without a cache, SQLite writes the pages before the commit.
        connection.execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE runs (text TEXT);").unwrap();
        for _ in 0..50 {
            connection.execute("INSERT INTO runs VALUES (?)", ["x".repeat(10_000)]).unwrap();
        }
        std::fs::copy(&begun, &cut).unwrap();
        std::fs::copy(beside(&begun, "-journal"), beside(&cut, "-journal")).unwrap();
        assert!(cut.metadata().unwrap().len() > 0);
        assert_eq!(Store::create(&cut, &Run::default()).unwrap().run().unwrap().trials, []);

        drop(Store::create(&folder.path().join("empty"), &Run::default()).unwrap());
        assert!(matches!(Claim::new(&folder.path().join("empty")), Err(StoreError::Exists { .. })));
        // Another program's database stays as it is.
        let other = folder.path().join("other");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (text TEXT);").unwrap();
        assert!(matches!(Store::create(&other, &Run::default()), Err(StoreError::Exists { .. })));
    }

    #[test]
    fn what_hosts_reported_is_in_the_run_and_nothing_else_changes() {
        let folder = tempfile::TempDir::new().unwrap();
        let run = Run { study: "study".into(), cells: vec![Cell::default()], ..Run::default() };
        let store = Store::create(&folder.path().join("run.sqlite"), &run).unwrap();
        let mut host = RunHost {
            name: "ns1".into(),
            role: crate::run_host::HostRole::Server,
            address: [192, 0, 2, 1].into(),
            fingerprint: crate::Fingerprint::default(),
            kqps: crate::fingerprint::BinaryFacts::default(),
        };
        host.fingerprint.binaries.insert("nsd".into(), crate::fingerprint::BinaryFacts::default());
        store.set_hosts(std::slice::from_ref(&host)).unwrap();
        assert_eq!(store.run().unwrap(), Run { hosts: vec![host], schema: SCHEMA, ..run });
    }

    #[test]
    fn a_commit_that_does_not_fit_changes_nothing() {
        let folder = tempfile::TempDir::new().unwrap();
        let run = Run { cells: vec![Cell::default()], ..Run::default() };
        let store = Store::create(&folder.path().join("run.sqlite"), &run).unwrap();
        let trial = |number| RunTrial {
            number,
            cell: 0,
            block: 0,
            start: 1,
            purpose: Purpose::Search,
            outcome: Outcome::Failed { reason: "x".repeat(20_000), output: Vec::new() },
        };
        store.commit(&trial(1)).unwrap();
        let limit = |pages: u32| {
            store.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        };
        limit(1);
        assert!(matches!(store.commit(&trial(2)), Err(StoreError::Full { .. })));
        assert_eq!(store.run().unwrap().trials, [trial(1)]);
        limit(1000);
        store.commit(&trial(2)).unwrap();
        assert_eq!(store.run().unwrap().trials, [trial(1), trial(2)]);
    }
}
