//! Generated zones, and queries for their names. Each is generated when it is first needed, and once only.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kqps_recipe::{Expect, LIST, Recipe};
use kqps_testbed::materials::one_zone;
use kqps_testbed::subject::Zone;
use serde::Deserialize;

use super::Bench;

/// The zones of name servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Data {
    /// A zone with this many thousand address records. All names have the same length, so that the player can send them
    /// in segments: the rows compare servers, not players.
    OneZone(u32),
    /// This many thousand zones of ten records.
    ManyZones(u32),
}

impl Default for Data {
    /// The usual zone.
    fn default() -> Self {
        Self::OneZone(100)
    }
}

/// Queries in a file, at random over all names.
const QUERIES: u64 = 1_000_000;

impl Data {
    pub(super) fn zones(self, bench: &Bench<'_>) -> Result<Vec<Zone>> {
        let folder = self.made(bench, "zones", kqps_recipe::zones)?;
        let list = folder.join(LIST);
        Zone::listed(&list).with_context(|| format!("cannot read {}", list.display()))
    }

    /// The query file: names at random, each with its expected rcode and the digest of its answer.
    pub(super) fn queries(self, bench: &Bench<'_>) -> Result<PathBuf> {
        self.made(bench, "queries", |recipe, file| kqps_recipe::queries(recipe, QUERIES, file))
    }

    /// The query file without expected rcodes and digests, for players that read names and types alone.
    pub(super) fn bare_queries(self, bench: &Bench<'_>) -> Result<PathBuf> {
        let full = self.queries(bench)?;
        let bare = full.with_file_name("bare-queries");
        if !bare.exists() {
            let text =
                fs::read_to_string(&full).with_context(|| format!("cannot read {}", full.display()))?;
            let bare_text = names_and_types(&text);
            fs::write(&bare, bare_text).with_context(|| format!("cannot write {}", bare.display()))?;
        }
        Ok(bare)
    }

    fn recipe(self) -> Result<Recipe> {
        let mut recipe = match self {
            Self::OneZone(thousands) => one_zone(u64::from(thousands) * 1000),
            Self::ManyZones(thousands) => Recipe::named("hosting", &[format!("zones={thousands}000")])?,
        };
        recipe.queries.expect = Expect::Answers;
        Ok(recipe)
    }

    /// The file or folder of this name, generated if it is missing.
    fn made<E: std::error::Error + Send + Sync + 'static>(
        self,
        bench: &Bench<'_>,
        name: &str,
        make: impl FnOnce(&Recipe, &Path) -> Result<(), E>,
    ) -> Result<PathBuf> {
        let folder = bench.scratch.join(format!("{self:?}"));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(name);
        if !path.exists() {
            make(&self.recipe()?, &path)?;
        }
        Ok(path)
    }
}

/// The first two columns of a query file.
fn names_and_types(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    for line in text.lines() {
        let mut columns = line.split(' ');
        let (name, qtype) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
        bare.extend([name, " ", qtype, "\n"]);
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_are_left_of_queries() {
        let full = "n1.example.test. A NOERROR =0123456789abcdef\nn2.example.test. AAAA\n";
        assert_eq!(names_and_types(full), "n1.example.test. A\nn2.example.test. AAAA\n");
    }
}
