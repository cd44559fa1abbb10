//! What the cells of a run play and serve: a zone, and queries at random over its names, generated from the
//! run's seed.

use std::path::PathBuf;

use kqps_dataset::generate::{self, GenerateError, LabelBytes, Popularity, Queries, Zone};
use kqps_observation::Run;

use crate::folder::{Folder, FolderError};

/// A (RFC 1035, section 3.2.2).
const TYPE_A: u16 = 1;

/// The share of names that are not in the zone.
const NXDOMAIN_SHARE: f64 = 0.05;

/// Queries in a file for every record of the zone: enough that a short file is not played from the cache alone.
const QUERIES_PER_RECORD: u64 = 2;

/// The factor of a subject's cell that tells how many records its zone has.
pub const RECORDS_FACTOR: &str = "zone_records";

/// The generated files of a run.
#[derive(Clone, Debug)]
pub struct Materials {
    /// The zone's master file.
    pub zone: PathBuf,
    /// Queries with the rcode that is expected of each.
    pub queries: PathBuf,
    /// The same queries with no expectation: for an echo, which answers NOERROR to everything.
    pub plain: PathBuf,
}

/// Why there is nothing to play.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum MaterialsError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("generating the zone and its queries: {0}")]
    Generate(#[from] GenerateError),
}

/// Names of one length: queries of one length leave in one segmented send, which keeps the player far from its
/// limit, and a server does not care.
const LABEL_BYTES: LabelBytes = LabelBytes::Fixed(12);

impl Materials {
    /// The zone's origin.
    pub const ORIGIN: &str = "bench.test.";

    /// The files of a run with a zone of `records` records; those that are missing are generated.
    pub fn make(folder: &Folder, records: u64, seed: u64) -> Result<Self, MaterialsError> {
        let place = folder.dataset();
        folder.make_folder(&place)?;
        let materials = Self {
            zone: place.join("bench.test.zone"),
            queries: place.join("queries.txt"),
            plain: place.join("queries-without-rcodes.txt"),
        };
        let zone = Zone { origin: Self::ORIGIN.into(), records, label_bytes: LABEL_BYTES, seed };
        let queries = |expected| Queries {
            zone: zone.clone(),
            count: records * QUERIES_PER_RECORD,
            nxdomain_share: NXDOMAIN_SHARE,
            types: vec![(TYPE_A, 1.0)],
            popularity: Popularity::Uniform,
            expected,
            seed,
        };
        // Each appears whole or not at all, so one that is there is right.
        if !materials.zone.exists() {
            generate::zone(&zone, &materials.zone)?;
        }
        if !materials.queries.exists() {
            generate::queries(&queries(true), &materials.queries)?;
        }
        if !materials.plain.exists() {
            generate::queries(&queries(false), &materials.plain)?;
        }
        Ok(materials)
    }

    /// The files of a stored run.
    pub fn of(folder: &Folder, run: &Run) -> Result<Self, MaterialsError> {
        let told = run.cells.iter().find_map(|cell| cell.factors.get(RECORDS_FACTOR)?.parse().ok());
        // Without a subject the number hardly matters: an echo answers every name alike.
        Self::make(folder, told.unwrap_or(1000), run.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::Cell;

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
        let run = Run { seed: 9, cells: vec![Cell { factors, ..Cell::default() }], ..Run::default() };
        let again = Materials::of(&folder, &run).unwrap();
        assert_eq!((read(&again.zone), read(&again.queries)), (zone, queries));
    }
}
