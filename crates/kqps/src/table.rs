//! Tables without lines.

use comfy_table::{CellAlignment, Row, Table, presets};

/// A table without a row.
pub(crate) fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// A table of columns with these titles.
pub(crate) fn titled(titles: impl Into<Row>) -> Table {
    let mut table = plain();
    table.set_header(titles);
    table
}

/// The lines of a table, with the values of some columns at the right.
pub(crate) fn text(mut table: Table, right: &[usize]) -> String {
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
