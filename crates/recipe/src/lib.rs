//! Zones and query files from a recipe and its seed.
//!
//! For: reading recipes, and writing the zones and the queries that they describe. Not for: playing or serving them.
//!
//! Invariant: the same recipe gives the same bytes on every machine.
//!
//! A zone is described, not stored: the name and the data of its entry *i* are functions of the seed and *i*. So zones
//! of any size are written in constant memory. [`queries`] asks for their names without reading them, and knows the
//! outcome of every query.

mod apportion;
mod builtin;
mod data;
mod deck;
mod draw;
mod expected;
mod folder;
mod label;
mod layout;
mod name;
mod plan;
mod popularity;
mod qtype;
mod queries;
mod question;
mod recipe;
mod setting;
mod source;
mod zone;

use std::io;
use std::path::{Path, PathBuf};

use kqps_files::whole;

pub use builtin::{names as recipe_names, text as recipe_text};
pub use draw::{Draws, Stream};
pub use folder::LIST;
pub use label::{Labels, Shape, append_decimal, append_letters};
pub use popularity::Popularity;
pub use qtype::Type;
pub use recipe::{
    Attack, CHAIN_MAX, Contents, Delegations, Denial, Expect, Outcomes, Recipe, RecipeError, RecipeFault,
    RecipeQueries, Signing,
};
pub use setting::{SettingError, with_settings};

use plan::Plan;
use question::Questions;

/// The most records that a zone can have.
pub const RECORDS_MAX: u64 = 100_000_000;

/// Increase this if a recipe gives other bytes than before.
const VERSION: u32 = 2;

/// The reason why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The recipe asks for something impossible.
    #[error(transparent)]
    Recipe(#[from] RecipeFault),
    /// A single file was to hold several zones.
    #[error("the recipe has {zones} zones, which are written into a folder of their own")]
    ManyZones {
        /// The number of zones.
        zones: u64,
    },
    /// A file of ranks cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A line of a file of ranks does not begin with a number above 0.
    #[error("{}:{line}:{column}: expected a number above 0, found \"{found}\"", path.display())]
    Rank {
        /// The path of the file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The byte of the line, counted from 1.
        column: usize,
        /// The text that was found there.
        found: String,
    },
    /// A file of ranks is empty.
    #[error("{} is empty; expected a number a line, the most popular name's first", path.display())]
    NoRanks {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file or folder could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl GenerateError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}

/// Writes the master file of a recipe that has one zone, unsigned. The file appears whole or not at all.
pub fn zone(recipe: &Recipe, path: &Path) -> Result<(), GenerateError> {
    let plan = Plan::new(recipe)?;
    if !recipe.is_one_zone() {
        return Err(GenerateError::ManyZones { zones: recipe.zones + recipe.broken });
    }
    whole::whole(path, |out| zone::write(&plan, &plan.zone(0), out)).map_err(GenerateError::io(path))
}

/// Writes the master files of all zones of a recipe, unsigned, into a folder, together with lists of them: [`LIST`],
/// and `named.zones`, `nsd.zones` and `knot.zones` for those servers to include. The folder appears whole or not at
/// all. If it exists, it must be empty.
pub fn zones(recipe: &Recipe, folder: &Path) -> Result<(), GenerateError> {
    zones_with(recipe, folder, &mut |_, _| Ok(()))
}

/// Writes zones as [`zones`] does. Calls `finish` with the origin and the file of every zone that loads, when its file
/// is whole.
pub fn zones_with(
    recipe: &Recipe,
    folder: &Path,
    finish: &mut dyn FnMut(&str, &Path) -> io::Result<()>,
) -> Result<(), GenerateError> {
    let plan = Plan::new(recipe)?;
    folder::write(&plan, folder, finish).map_err(GenerateError::io(folder))
}

/// Writes a file of `count` queries for the zones of a recipe. It appears whole or not at all.
pub fn queries(recipe: &Recipe, count: u64, path: &Path) -> Result<(), GenerateError> {
    if count == 0 {
        return Err(RecipeFault::NoQueries.into());
    }
    let plan = Plan::new(recipe)?;
    let mut questions = Questions::new(&plan, count)?;
    whole::whole(path, |out| queries::write(&mut questions, &recipe.queries, out))
        .map_err(GenerateError::io(path))
}
