//! Settings `KEY=VALUE` that change a recipe before it is read.

use kqps_files::toml_file::with_nearest;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// The reason why a setting was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// It has no `=`.
    NoValue(String),
    /// Its key or its value is wrong.
    Wrong {
        /// The text of the setting.
        setting: String,
        /// The fault of the setting, in words.
        what: String,
    },
}

/// Reads a recipe from a table that these settings change, of which there must be one. The recipe is read after each of
/// them, so an error names the first wrong setting.
pub fn with_settings<T: Default + DeserializeOwned>(
    mut table: Table,
    settings: &[String],
) -> Result<T, SettingError> {
    let mut recipe = T::default();
    for setting in settings {
        let wrong = |what: String| SettingError::Wrong { setting: setting.clone(), what };
        let (key, value) = setting.split_once('=').ok_or_else(|| SettingError::NoValue(setting.clone()))?;
        put(&mut table, key.trim(), value.trim()).map_err(wrong)?;
        recipe = table
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| wrong(with_nearest(error.message())))?;
    }
    Ok(recipe)
}

/// Puts a value, TOML or text, under a key with dots. Fails with a sentence if a part of the key is no table.
fn put(table: &mut Table, key: &str, value: &str) -> Result<(), String> {
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
