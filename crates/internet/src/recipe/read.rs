//! Reads the recipe of an Internet, from a file or the built-in one, in one of its sizes.

use std::path::Path;

use kqps_files::toml_file::{self, FileError, TomlError, did_you_mean, nearest};
use kqps_recipe::{SettingError, with_settings};
use toml::{Table, Value};

use super::InternetRecipe;

/// The name and the text of the built-in recipe.
const BUILTIN: (&str, &str) = ("recipes/internet.toml", include_str!("../../../../recipes/internet.toml"));

/// The reason why there is no Internet.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read, or has an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The recipe has no such size.
    #[error("the recipe has no size \"{size}\"; its sizes are {known}{near}")]
    Size {
        /// The size.
        size: String,
        /// The sizes that the recipe has.
        known: String,
        /// The end of the sentence: the size that was probably meant.
        near: String,
    },
    /// A setting is not `KEY=VALUE`, or cannot be applied.
    #[error("{setting}: {what}")]
    Set {
        /// The text of the setting.
        setting: String,
        /// The fault of the setting, in words.
        what: String,
    },
    /// A value of the recipe is impossible.
    #[error("{key}: {what}")]
    Fault {
        /// The key in the recipe.
        key: &'static str,
        /// The value, and what was expected.
        what: String,
    },
}

impl RecipeError {
    /// A value that is impossible.
    pub(crate) fn fault(key: &'static str, what: impl Into<String>) -> Self {
        Self::Fault { key, what: what.into() }
    }
}

impl InternetRecipe {
    /// The built-in recipe (`internet`), or that of a file, in one of its sizes, changed by settings `KEY=VALUE`, such as
    /// `zone.count=5000` or `root.algorithm=13`. Without a size the numbers of the recipe's own tables hold.
    pub fn named(name: &str, size: Option<&str>, settings: &[String]) -> Result<Self, RecipeError> {
        let (file, text) = if name == "internet" {
            (BUILTIN.0.to_owned(), BUILTIN.1.to_owned())
        } else {
            toml_file::open(Path::new(name), |file, text| Ok((file.to_owned(), text.to_owned())))?
        };
        let mut recipe = Self::read(&file, &text).map_err(FileError::from)?;
        if let Some(size) = size {
            recipe.resize(size)?;
        }
        if !settings.is_empty() {
            recipe = set(&text, size, settings)?;
        }
        recipe.check()?;
        Ok(recipe)
    }

    /// Parses the recipe in a file's text.
    pub fn read(file: &str, text: &str) -> Result<Self, TomlError> {
        toml_file::read(file, text)
    }

    /// Takes the numbers of one of the recipe's sizes.
    pub fn resize(&mut self, size: &str) -> Result<(), RecipeError> {
        let Some(numbers) = self.sizes.get(size).copied() else {
            let known: Vec<&str> = self.sizes.keys().map(String::as_str).collect();
            return Err(RecipeError::Size {
                size: size.to_owned(),
                known: known.join(", "),
                near: did_you_mean(nearest(size, &known)),
            });
        };
        (self.zone.count, self.tld.count, self.company.count) =
            (numbers.zones, numbers.tlds, numbers.companies);
        Ok(())
    }
}

/// The recipe of a valid text in a size, with settings.
fn set(text: &str, size: Option<&str>, settings: &[String]) -> Result<InternetRecipe, RecipeError> {
    let mut table: Table = text.parse().unwrap_or_default();
    if let Some(size) = size {
        let numbers = table.get("sizes").and_then(|sizes| sizes.get(size)).cloned();
        for (from, key) in [("zones", "zone"), ("tlds", "tld"), ("companies", "company")] {
            if let Some(number) = numbers.as_ref().and_then(|numbers| numbers.get(from)) {
                let own = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
                own.as_table_mut().and_then(|own| own.insert("count".to_owned(), number.clone()));
            }
        }
    }
    with_settings(table, settings).map_err(|error| match error {
        SettingError::NoValue(setting) => {
            RecipeError::Set { setting, what: "expected KEY=VALUE, such as zone.count=5000".to_owned() }
        }
        SettingError::Wrong { setting, what } => RecipeError::Set { setting, what },
    })
}
