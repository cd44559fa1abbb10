//! The hashes of generated zones and queries, by which two hosts know that they made the same.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use kqps_recipe::RecipeError;
use serde::{Deserialize, Serialize};

use kqps_testbed::materials::{Materials, MaterialsSpec};
use kqps_testbed::subject::Zone;

/// BLAKE3 of the files of [`Materials`], in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaterialHashes {
    /// Hash of the zones: of their names and files. `None` if there are none, as at a player, or if they are signed,
    /// since keys are random.
    pub zones: Option<String>,
    /// Hash of the queries with the expected rcode of each.
    pub queries: String,
    /// Hash of the queries without expectation.
    pub plain: String,
    /// Hash of the single query, for one name.
    pub one: String,
}

impl MaterialHashes {
    /// The hashes of files. `is_signed` is whether the zones are signed.
    pub fn read(materials: &Materials, is_signed: bool) -> io::Result<Self> {
        let has_none = materials.is_file || is_signed || materials.zones.is_empty();
        let queries = of_file(&materials.queries)?;
        // The user's file is all three.
        let of_other = |path: &Path| {
            if *path == materials.queries { Ok(queries.clone()) } else { of_file(path) }
        };
        Ok(Self {
            zones: if has_none { None } else { Some(of_zones(&materials.zones)?) },
            plain: of_other(&materials.plain)?,
            one: of_other(&materials.one)?,
            queries,
        })
    }

    /// Whether two hosts made the same, as far as both have hashes.
    pub fn agree(&self, other: &Self) -> bool {
        let queries = |of: &Self| [of.queries.clone(), of.plain.clone(), of.one.clone()];
        let zones_differ = self.zones.as_ref().zip(other.zones.as_ref()).is_some_and(|(a, b)| a != b);
        queries(self) == queries(other) && !zones_differ
    }
}

/// Whether the zones of these materials are signed.
pub fn are_signed(wanted: &MaterialsSpec, seed: u64) -> Result<bool, RecipeError> {
    Ok(!wanted.is_file() && wanted.recipe(seed)?.signing.is_some())
}

/// BLAKE3 of a file, in hex.
pub(super) fn of_file(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

fn of_zones(zones: &[Zone]) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for zone in zones {
        let file = match of_file(&zone.file) {
            // A zone that must fail to load has no file.
            Err(error) if error.kind() == ErrorKind::NotFound => "none".into(),
            read => read?,
        };
        hasher.update(format!("{} {file}\n", zone.origin).as_bytes());
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use kqps_observation::factors::DatasetFactors;

    use super::*;
    use kqps_testbed::folder::Folder;

    #[test]
    fn two_hosts_agree_if_the_seed_is_the_same_and_players_have_no_zones() {
        let wanted = MaterialsSpec::new(&DatasetFactors { records: Some(50), ..DatasetFactors::default() });
        let is_signed = are_signed(&wanted, 9).unwrap();
        let made = |seed: u64| {
            let temporary = tempfile::tempdir().unwrap();
            let folder = Folder::make(temporary.path()).unwrap();
            MaterialHashes::read(&Materials::make(&folder, &wanted, seed, None).unwrap(), is_signed).unwrap()
        };
        let server = made(9);
        assert!(server.zones.is_some() && server.agree(&made(9)) && !server.agree(&made(8)));
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::make(temporary.path()).unwrap();
        let queries = Materials::queries_alone(&folder, &wanted, 9).unwrap();
        let player = MaterialHashes::read(&queries, is_signed).unwrap();
        assert!(player.zones.is_none() && player.agree(&server) && server.agree(&player));
        let other_zone = MaterialHashes { zones: Some("0".repeat(64)), ..server.clone() };
        assert!(!server.agree(&other_zone));
    }
}
