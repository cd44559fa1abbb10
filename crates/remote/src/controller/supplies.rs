//! The zones and queries of a run on its hosts. Each host makes them from recipe and seed, and must make the same as
//! this one. Only a file of the user's is sent, once to each host.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Cell;

use super::member::{Fault, Member, unexpected};
use crate::agent::hashes::MaterialHashes;
use crate::agent::job::{Done, Job};
use kqps_testbed::folder::{Folder, FolderError};
use kqps_testbed::materials::{Materials, MaterialsError, MaterialsSpec};

/// The longest time in which a host makes the zones and queries of a cell. Some recipes sign millions of records.
const MAKE_MOST: Duration = Duration::from_hours(1);

/// The longest time in which a host stores a piece of a file.
const STORE_MOST: Duration = Duration::from_mins(2);

/// Bytes of a file in one line to a host.
const PIECE_BYTES: u64 = 8 << 20;

/// The name of the user's query file on a host.
const NAME: &str = "queries";

/// Materials that the cells of a run need on every host.
#[derive(Debug)]
pub(super) struct Supplies {
    seed: u64,
    made: BTreeMap<MaterialsSpec, Made>,
}

/// Facts about materials that this host made.
#[derive(Debug)]
struct Made {
    hashes: MaterialHashes,
    /// The path of the user's query file, if it is played.
    file: Option<PathBuf>,
}

/// The queries of all cells on this host. Zones are made on the host of the subjects alone.
pub fn queries_of_all(
    folder: &Folder,
    cells: &[Cell],
    seed: u64,
) -> Result<BTreeMap<MaterialsSpec, Materials>, MaterialsError> {
    let mut all = BTreeMap::new();
    for cell in cells {
        let wanted = MaterialsSpec::new(cell.factors.dataset());
        if let Entry::Vacant(place) = all.entry(wanted) {
            let materials = Materials::queries_alone(folder, place.key(), seed)?;
            place.insert(materials);
        }
    }
    Ok(all)
}

impl Supplies {
    /// The supplies of a run, as this host made them.
    pub(super) fn from_materials(
        materials: &BTreeMap<MaterialsSpec, Materials>,
        seed: u64,
    ) -> Result<Self, FolderError> {
        let mut made = BTreeMap::new();
        for (wanted, materials) in materials {
            let unread = |error| FolderError { act: "read", path: materials.queries.clone(), error };
            // This host makes no zones, so it does not matter whether they are signed.
            let hashes = MaterialHashes::read(materials, false).map_err(unread)?;
            let file = materials.is_file.then(|| materials.queries.clone());
            made.insert(wanted.clone(), Made { hashes, file });
        }
        Ok(Self { seed, made })
    }

    /// Everything that cells of the run ask for.
    pub(super) fn all(&self) -> impl Iterator<Item = &MaterialsSpec> {
        self.made.keys()
    }

    /// Makes sure that a host has what a cell asks for.
    pub(super) fn bring(
        &self,
        wanted: &MaterialsSpec,
        member: &mut Member,
        interrupts: &Interrupts,
    ) -> Result<(), Fault> {
        let Some(made) = self.made.get(wanted).filter(|_| !member.made.contains(wanted)) else {
            return Ok(());
        };
        let file = match &made.file {
            Some(path) => {
                send(path, &made.hashes.queries, member, interrupts)?;
                Some(NAME.to_owned())
            }
            None => None,
        };
        let job = Job::Materials { wanted: wanted.clone(), seed: self.seed, file };
        match member.call(&job, MAKE_MOST, interrupts)? {
            Done::Materials { hashes } if made.hashes.agree(&hashes) => {
                member.made.insert(wanted.clone());
                Ok(())
            }
            Done::Materials { .. } => {
                Err(failed("it made other queries of the same recipe and seed than this host"))
            }
            _ => Err(unexpected()),
        }
    }
}

/// Sends a file with this BLAKE3, unless the host has kept it from another run.
fn send(path: &Path, hash: &str, member: &mut Member, interrupts: &Interrupts) -> Result<(), Fault> {
    let have = Job::Have { name: NAME.into(), whole: hash.into() };
    if is_whole(&member.call(&have, STORE_MOST, interrupts)?)? {
        return Ok(());
    }
    let unread = |error: io::Error| failed(format!("cannot read {}: {error}", path.display()));
    let mut file = File::open(path).map_err(unread)?;
    let bytes = file.metadata().map_err(unread)?.len();
    let mut offset = 0;
    loop {
        let mut piece = Vec::new();
        file.by_ref().take(PIECE_BYTES).read_to_end(&mut piece).map_err(unread)?;
        let end = offset + piece.len() as u64;
        let is_last = piece.is_empty() || end >= bytes;
        let put = Job::Put {
            name: NAME.into(),
            offset,
            data_base64: BASE64.encode(&piece),
            whole: is_last.then(|| hash.to_owned()),
        };
        let is_stored = is_whole(&member.call(&put, STORE_MOST, interrupts)?)?;
        if is_last {
            return if is_stored { Ok(()) } else { Err(unexpected()) };
        }
        offset = end;
    }
}

fn is_whole(done: &Done) -> Result<bool, Fault> {
    match done {
        Done::Stored { is_whole, .. } => Ok(*is_whole),
        _ => Err(unexpected()),
    }
}

fn failed(reason: impl Into<String>) -> Fault {
    Fault::Failed { reason: reason.into(), output: Vec::new() }
}
