//! What the cells of a run play and serve: a zone, and queries at random over its names, generated from the
//! run's seed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kqps_dataset::generate::{self, Asked, Expect, GenerateError, Labels, Outcomes, Recipe};
use kqps_observation::Cell;

use crate::folder::{Folder, FolderError};

/// The share of names that are not in the zone.
const NXDOMAIN_SHARE: f64 = 0.05;

/// Queries in a file for every record of the zone: enough that a short file is not played from the cache alone.
const QUERIES_PER_RECORD: u64 = 2;

/// The factor of a subject's cell that tells how many records its zone has.
pub const RECORDS_FACTOR: &str = "dataset.records";

/// The factor of which names are asked for: `random` ones, or `one` again and again.
pub const NAMES_FACTOR: &str = "dataset.names";

/// Records of the zone whose names an echo is asked for, where nothing else is said.
const CEILING_RECORDS: u64 = 100_000;

/// The generated files of one zone.
#[derive(Clone, Debug)]
pub struct Materials {
    /// The zone's master file.
    pub zone: PathBuf,
    /// Queries with the rcode that is expected of each.
    pub queries: PathBuf,
    /// The same queries with no expectation: for an echo, which answers NOERROR to everything.
    pub plain: PathBuf,
    /// One query for one name of the zone, which a cache has after the first time.
    pub one: PathBuf,
}

/// Why there is nothing to play.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum MaterialsError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
}

/// Names of one length: queries of one length leave in one segmented send, which keeps the player far from its
/// limit, and a server does not care.
const LABEL_BYTES: u8 = 12;

impl Materials {
    /// The zone's origin.
    pub const ORIGIN: &str = "bench.test.";

    /// The files of a run with a zone of `records` records; those that are missing are generated.
    pub fn make(folder: &Folder, records: u64, seed: u64) -> Result<Self, MaterialsError> {
        let place = folder.dataset().join(records.to_string());
        folder.make_folder(&place)?;
        let materials = Self {
            zone: place.join("bench.test.zone"),
            queries: place.join("queries.txt"),
            plain: place.join("queries-without-rcodes.txt"),
            one: place.join("one-query.txt"),
        };
        let recipe = |expect| Recipe {
            origin: Self::ORIGIN.into(),
            records,
            seed,
            names: Labels { label_bytes: Some(LABEL_BYTES), ..Labels::default() },
            queries: Asked {
                seed,
                outcomes: Outcomes {
                    noerror: 1.0 - NXDOMAIN_SHARE,
                    nxdomain: NXDOMAIN_SHARE,
                    ..Outcomes::default()
                },
                expect,
                ..Asked::default()
            },
            ..Recipe::default()
        };
        let queries = records * QUERIES_PER_RECORD;
        // Each appears whole or not at all, so one that is there is right.
        if !materials.zone.exists() {
            generate::zone(&recipe(Expect::Rcode), &materials.zone)?;
        }
        if !materials.queries.exists() {
            generate::queries(&recipe(Expect::Rcode), queries, &materials.queries)?;
        }
        if !materials.plain.exists() {
            generate::queries(&recipe(Expect::Nothing), queries, &materials.plain)?;
        }
        if !materials.one.exists() {
            let queries =
                std::fs::read_to_string(&materials.queries).map_err(|error| unread(&materials, error))?;
            let first = queries.lines().find(|line| !line.contains("NXDOMAIN")).unwrap_or_default();
            folder.write(&materials.one, format!("{first}\n").as_bytes())?;
        }
        Ok(materials)
    }

    /// The files that the cells of a run play, by the records of their zones.
    pub fn of_all(folder: &Folder, cells: &[Cell], seed: u64) -> Result<BTreeMap<u64, Self>, MaterialsError> {
        let records: BTreeSet<u64> = cells.iter().map(Self::records).collect();
        records.into_iter().map(|records| Ok((records, Self::make(folder, records, seed)?))).collect()
    }

    /// How many records the zone of a cell has.
    pub fn records(cell: &Cell) -> u64 {
        let told = cell.factors.get(RECORDS_FACTOR).and_then(|word| word.parse().ok());
        // The number hardly matters to a ceiling: an echo answers every name alike.
        told.unwrap_or(CEILING_RECORDS)
    }
}

fn unread(materials: &Materials, error: std::io::Error) -> FolderError {
    FolderError { path: materials.queries.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_generated_as_it_was() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::make(temporary.path()).unwrap();
        let made = Materials::make(&folder, 50, 9).unwrap();
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        let (zone, queries) = (read(&made.zone), read(&made.queries));
        assert_eq!(queries.lines().count(), 100);
        assert!(queries.contains(" NXDOMAIN") && !read(&made.plain).contains("NXDOMAIN"));

        std::fs::remove_file(&made.zone).unwrap();
        std::fs::remove_file(&made.queries).unwrap();
        let factors = [(RECORDS_FACTOR.to_string(), "50".to_string())].into();
        let cells = [Cell { factors, ..Cell::default() }];
        let again = &Materials::of_all(&folder, &cells, 9).unwrap()[&50];
        assert_eq!(read(&again.one).lines().count(), 1);
        assert_eq!((read(&again.zone), read(&again.queries)), (zone, queries));
    }
}
