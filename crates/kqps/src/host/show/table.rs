//! Tables without lines.

use comfy_table::Table;

use crate::table::plain;

/// A setting, its value, and what it means for DNS.
pub(super) type Row = [String; 3];

pub(super) fn row(name: &str, value: String, meaning: &str) -> Row {
    [name.to_owned(), value, meaning.to_owned()]
}

/// A table of settings.
pub(super) fn rows_of(rows: &[Row]) -> Table {
    let mut table = plain();
    for row in rows {
        table.add_row(row);
    }
    table
}
