//! A setting `KEY=VALUE` that changes a recipe before it is read.

use toml::{Table, Value};

/// Puts a value, TOML or text, under a key with dots. Fails with a sentence if a part of the key is no table.
pub fn put_setting(table: &mut Table, key: &str, value: &str) -> Result<(), String> {
    let value = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let mut parts = key.split('.');
    let last = parts.next_back().unwrap_or_default();
    let mut within = table;
    for part in parts {
        let next = within.entry(part).or_insert_with(|| Value::Table(Table::new()));
        within = next.as_table_mut().ok_or_else(|| format!("`{part}` is no table"))?;
    }
    within.insert(last.to_owned(), value);
    Ok(())
}
