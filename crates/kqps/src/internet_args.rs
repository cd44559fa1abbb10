//! The flags that name an Internet: its recipe, its size, and what is changed in it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kqps_internet::{Internet, InternetRecipe, RecipeError};

use crate::exit::bad_input;
use crate::value::parse_seed;

/// The size of the built-in recipe, unless the flags say another.
const SIZE: &str = "medium";

/// The name of the built-in recipe.
const BUILT_IN: &str = "internet";

/// The flags of an Internet.
#[derive(clap::Args)]
pub(crate) struct InternetArgs {
    /// The recipe of the tree: a file, or internet, which is built in (the default)
    ///
    /// It says how many zones, top-level domains and companies there are, what is in them, how long their servers take and
    /// which faults they make. `recipes/internet.toml` is the built-in one.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Tree")]
    pub(crate) recipe: Option<String>,

    /// The size of the tree: small, medium or large, or another that the recipe has (default: medium)
    ///
    /// small has 1,000 zones, medium 100,000, large a million. A recipe of your own has its own numbers unless you give a
    /// size.
    #[arg(long, value_name = "NAME", help_heading = "Tree")]
    pub(crate) size: Option<String>,

    /// Change a number of the recipe, such as zone.count=5000 or zone.signed=0 (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Tree")]
    pub(crate) set: Vec<String>,

    /// The seed of the tree (default: the recipe's, or 1)
    #[arg(long, value_name = "SEED", value_parser = parse_seed, help_heading = "Tree")]
    pub(crate) seed: Option<u64>,
}

impl InternetArgs {
    /// The Internet of the flags. Its signatures are valid today.
    pub(crate) fn internet(&self) -> anyhow::Result<Internet> {
        let mut recipe = self.read().map_err(bad_input)?;
        recipe.seed = self.seed.unwrap_or(recipe.seed);
        let is_dated = self.set.iter().any(|setting| setting.starts_with("signing.date_s"));
        if !is_dated {
            recipe.signing.date_s = today_s().unwrap_or(recipe.signing.date_s);
        }
        Internet::new(&recipe).map_err(bad_input)
    }

    fn read(&self) -> Result<InternetRecipe, RecipeError> {
        let name = self.recipe.as_deref().unwrap_or(BUILT_IN);
        let size = self.size.as_deref().or((name == BUILT_IN).then_some(SIZE));
        InternetRecipe::named(name, size, &self.set)
    }
}

/// Midnight before now, seconds since 1970: a resolver that starts today sees the same signatures whenever it does.
fn today_s() -> Option<u32> {
    const DAY_S: u64 = Duration::from_hours(24).as_secs();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    u32::try_from(now_s / DAY_S * DAY_S).ok()
}
