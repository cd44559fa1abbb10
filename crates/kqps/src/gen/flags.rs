//! The flags that choose the zones, and values of other flags as people type them.

use std::str::FromStr;

use kqps_recipe::{Expect, Popularity, Recipe, Type};

use crate::exit::bad_input;
use crate::value::{parse_count, parse_seed, parse_share, parse_within};

/// The zones: a recipe, and the values that override it.
#[derive(clap::Args)]
#[command(next_help_heading = "Zones")]
pub(super) struct NamesArgs {
    /// The recipe: a name that `kqps gen recipe` lists, or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) recipe: Option<String>,

    /// Set a key of the recipe, such as zones=10, records=10k or queries.edns=50% (repeatable)
    #[arg(long, value_name = "KEY=VALUE", requires = "recipe")]
    set: Vec<String>,

    /// The zone's origin, or the name above several (default: the recipe's, or example.test)
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,

    /// Entries of each zone, each with a name of its own (default: the recipe's, or 100k)
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    records: Option<u64>,

    /// The length of the names' first labels, bytes (default: the recipe's, or as spread as names of hosts are)
    #[arg(long, value_name = "N", value_parser = parse_within::<u8>(1..=63))]
    label_length: Option<u8>,

    /// The seed of the names (default: the recipe's, or 1)
    #[arg(long, value_name = "SEED", value_parser = parse_seed)]
    seed: Option<u64>,
}

impl NamesArgs {
    /// The recipe of `--recipe`, or the default one, with the other flags applied.
    pub(super) fn recipe(&self) -> anyhow::Result<Recipe> {
        let settings: Vec<String> = self.set.iter().map(|setting| plain(setting)).collect();
        let mut recipe = match &self.recipe {
            Some(name) => Recipe::named(name, &settings).map_err(bad_input)?,
            None => Recipe::default(),
        };
        if let Some(origin) = &self.origin {
            recipe.origin.clone_from(origin);
        }
        recipe.records = self.records.unwrap_or(recipe.records);
        recipe.names.label_bytes = self.label_length.or(recipe.names.label_bytes);
        recipe.seed = self.seed.unwrap_or(recipe.seed);
        Ok(recipe)
    }
}

/// A setting with its value in TOML: `records=10k` becomes `records=10000`, and `queries.edns=50%` becomes
/// `queries.edns=0.5`.
fn plain(setting: &str) -> String {
    let Some((key, value)) = setting.split_once('=') else { return setting.to_owned() };
    if let Ok(count) = parse_count(value) {
        return format!("{key}={count}");
    }
    match parse_share(value) {
        Ok(share) if value.ends_with('%') => format!("{key}={share:?}"),
        _ => setting.to_owned(),
    }
}

/// A value of `--types`: `TYPE` or `TYPE:WEIGHT`.
#[derive(Clone, Copy)]
pub(super) struct WeightedType(pub(super) Type, pub(super) f64);

impl FromStr for WeightedType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mnemonic, weight) = text.split_once(':').unwrap_or((text, "1"));
        let qtype = mnemonic.parse()?;
        let weight = weight.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight > 0.0);
        Ok(Self(qtype, weight.ok_or("expected a weight above 0 after the colon, as in A:60")?))
    }
}

/// A value of `--popularity`: how often each name is asked.
#[derive(Clone)]
pub(super) struct Popular(pub(super) Popularity);

impl FromStr for Popular {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let popularity = match text.split_once(':') {
            None if text == "uniform" => Some(Popularity::Uniform),
            Some(("zipf", exponent)) => exponent.parse().ok().map(Popularity::Zipf),
            Some(("ranks", file)) if !file.is_empty() => Some(Popularity::Ranks(file.into())),
            _ => None,
        };
        popularity.map(Self).ok_or("expected uniform, zipf:S such as zipf:1.0, or ranks:FILE")
    }
}

pub(super) fn parse_expect(text: &str) -> Result<Expect, &'static str> {
    match text {
        "nothing" => Ok(Expect::Nothing),
        "rcode" => Ok(Expect::Rcode),
        "answers" => Ok(Expect::Answers),
        _ => Err("expected nothing, rcode or answers"),
    }
}
