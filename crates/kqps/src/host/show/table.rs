//! Tables without lines.

use comfy_table::{Table, presets};

pub(super) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}
