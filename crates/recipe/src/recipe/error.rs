//! Why a recipe cannot be read.

use kqps_files::toml_file::{FileError, did_you_mean, nearest};

use crate::builtin;

/// The reason why there is no recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The file cannot be read, or has an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// No recipe has the name, and there is no such file.
    #[error("there is no recipe and no file \"{name}\"; the recipes are {}{}", builtin::names().join(", "), did_you_mean(*.near))]
    Unknown {
        /// The name.
        name: String,
        /// The known name that was probably meant.
        near: Option<&'static str>,
    },
    /// A setting has no `=`.
    #[error("\"{0}\"; expected KEY=VALUE, such as zones=10 or queries.edns=0.5")]
    NoValue(String),
    /// A setting cannot be applied.
    #[error("{setting}: {what}")]
    Set {
        /// The text of the setting.
        setting: String,
        /// The fault of the setting, in words.
        what: String,
    },
}

impl RecipeError {
    /// The error for a name that no recipe has.
    pub fn unknown(name: &str) -> Self {
        Self::Unknown { name: name.to_owned(), near: nearest(name, &builtin::names()) }
    }
}
