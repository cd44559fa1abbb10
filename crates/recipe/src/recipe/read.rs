//! Reads a recipe, from a file or by name, and sets some of its keys.

use std::path::Path;

use kqps_files::toml_file::{self, FileError, TomlError};

use super::Recipe;
use super::error::RecipeError;
use crate::builtin;
use crate::plan::Plan;
use crate::popularity::Popularity;
use crate::setting::{SettingError, with_settings};

impl Recipe {
    /// The recipe with this name or in this file, changed by settings `KEY=VALUE`, such as `zones=10` or
    /// `queries.edns=0.5`. Values are TOML, or text.
    pub fn named(name: &str, settings: &[String]) -> Result<Self, RecipeError> {
        let path = Path::new(name);
        let (mut recipe, text) = if let Some((file, text)) = builtin::text(name) {
            (Self::read(file, text).map_err(FileError::from)?, text.to_owned())
        } else if path.exists() {
            toml_file::open(path, |file, text| Ok((Self::read(file, text)?, text.to_owned())))?
        } else {
            return Err(RecipeError::unknown(name));
        };
        if !settings.is_empty() {
            recipe = set(&text, settings)?;
        }
        if let Popularity::Ranks(ranks) = &mut recipe.queries.popularity
            && let Some(folder) = path.parent()
        {
            *ranks = folder.join(&ranks);
        }
        Ok(recipe)
    }

    /// Parses the recipe in a file's text.
    pub fn read(file: &str, text: &str) -> Result<Self, TomlError> {
        let recipe: Self = toml_file::read(file, text)?;
        match Plan::new(&recipe).map(drop) {
            Ok(()) => Ok(recipe),
            Err(fault) => Err(TomlError::at(file, text, place_of(text, fault.key()), fault.to_string())),
        }
    }
}

/// The position of a key in a recipe's text: at the start of a line, in a table's heading, or within a line.
fn place_of(text: &str, key: &str) -> usize {
    let mut at = 0;
    let mut within = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let rest = line[indent..].trim_start_matches(['[', '"']);
        let said = line.split('#').next().unwrap_or_default();
        let ends_there = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        if rest.strip_prefix(key).is_some_and(ends_there) {
            return at + indent;
        }
        within = within.or_else(|| said.find(key).map(|column| at + column));
        at += line.len();
    }
    within.unwrap_or(0)
}

/// The recipe of a valid text, with settings.
fn set(text: &str, settings: &[String]) -> Result<Recipe, RecipeError> {
    let recipe: Recipe = with_settings(text.parse().unwrap_or_default(), settings)?;
    Plan::new(&recipe)
        .map_err(|fault| RecipeError::Set { setting: settings.join(" "), what: fault.to_string() })?;
    Ok(recipe)
}

impl From<SettingError> for RecipeError {
    fn from(error: SettingError) -> Self {
        match error {
            SettingError::NoValue(setting) => Self::NoValue(setting),
            SettingError::Wrong { setting, what } => Self::Set { setting, what },
        }
    }
}
