//! Rows of a number, a schema version and a JSON record. Every kind of record is read and written here.

use std::fmt;
use std::path::Path;

use rusqlite::{Connection, Transaction, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::table::Table;
use super::{StoreError, older};
use crate::SCHEMA;

/// Why a row was not written. The caller adds the path.
pub(super) enum Refused {
    Record { row: String, reason: String },
    Database(rusqlite::Error),
}

impl Refused {
    fn record(table: Table, number: u64, reason: &impl fmt::Display) -> Self {
        Self::Record { row: table.row(number), reason: reason.to_string() }
    }

    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Record { row, reason } => StoreError::Unwritable { path: path.into(), record: row, reason },
            Self::Database(error) => StoreError::from_database(path, error),
        }
    }
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Adds a row. This first reads back what it will write: a figure that is not a number would be stored as
/// `null`, which no reader accepts as a figure.
pub(super) fn write_record<T: Serialize + DeserializeOwned>(
    transaction: &Transaction<'_>,
    table: Table,
    number: u64,
    record: &T,
) -> Result<(), Refused> {
    let text = encode(table, number, record)?;
    let insert = format!("INSERT INTO {table} (number, schema, record) VALUES (?, ?, ?)");
    transaction.prepare_cached(&insert)?.execute(params![number, SCHEMA, text])?;
    Ok(())
}

/// Reads a row, changes it, and writes it back in the present schema.
pub(super) fn change<T: Serialize + DeserializeOwned>(
    transaction: &Transaction<'_>,
    table: Table,
    number: u64,
    change: impl FnOnce(&mut T),
) -> Result<(), Refused> {
    let select = format!("SELECT schema, record FROM {table} WHERE number = ?");
    let read = transaction.query_row(&select, params![number], |row| Ok((row.get(0)?, row.get(1)?)));
    let (schema, text): (u32, String) = read?;
    let mut record: T =
        decode(table, schema, &text).map_err(|error| Refused::record(table, number, &error))?;
    change(&mut record);
    let text = encode(table, number, &record)?;
    let update = format!("UPDATE {table} SET schema = ?, record = ? WHERE number = ?");
    transaction.execute(&update, params![SCHEMA, text, number])?;
    Ok(())
}

fn encode<T: Serialize + DeserializeOwned>(table: Table, number: u64, record: &T) -> Result<String, Refused> {
    let text = serde_json::to_string(record).map_err(|error| Refused::record(table, number, &error))?;
    serde_json::from_str::<T>(&text).map_err(|error| Refused::record(table, number, &error))?;
    Ok(text)
}

fn decode<T: DeserializeOwned>(table: Table, schema: u32, text: &str) -> serde_json::Result<T> {
    match schema {
        SCHEMA => serde_json::from_str(text),
        older => serde_json::from_value(older::present(table, older, serde_json::from_str(text)?)),
    }
}

/// All rows of a table in the order of their numbers. A row of a newer schema, or one that cannot be parsed,
/// is an error, since a run with a missing row would be judged wrongly.
pub(super) fn read_records<T: DeserializeOwned>(
    path: &Path,
    connection: &Connection,
    table: Table,
) -> Result<Vec<T>, StoreError> {
    let database = |error| StoreError::from_database(path, error);
    let select = format!("SELECT number, schema, record FROM {table} ORDER BY number");
    let mut statement = connection.prepare(&select).map_err(database)?;
    let mut rows = statement.query([]).map_err(database)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next().map_err(database)? {
        let number: u64 = row.get(0).map_err(database)?;
        let schema: u32 = row.get(1).map_err(database)?;
        let text: String = row.get(2).map_err(database)?;
        if schema > SCHEMA {
            return Err(StoreError::Newer { path: path.into(), found: schema, known: SCHEMA });
        }
        let record = decode(table, schema, &text).map_err(|error| StoreError::Damaged {
            path: path.into(),
            record: table.row(number),
            reason: error.to_string(),
        })?;
        records.push(record);
    }
    Ok(records)
}
