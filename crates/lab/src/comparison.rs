//! A run that compares two subjects: A against itself, which tells what this host can tell apart, and then A
//! against B, in pairs of starts whose order turns round each time: A B B A A B B A …
//!
//! The plan is a run like any other, of three cells: A, A once more, and B. Its blocks are pairs of starts, the
//! first half of them A with itself. So it is stored, killed and resumed as every run is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use kqps_host::{Topology, fingerprint, split};
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Cell, CellLoad, Run};
use kqps_verdict::compare::{Pairing, Part};

use crate::configured::Configured;
use crate::layout::file_name;
use crate::materials::{FILE_FACTOR, Materials, RECORDS_FACTOR};
use crate::record;
use crate::running::{PlayerWish, Running};
use crate::session::{LabError, Session, claim, unix_ms};
use crate::setup::Setup;
use crate::subject::version::NoVersion;
use crate::subject::{Definition, StartError, programs, version};

/// The study's name.
pub const NAME: &str = "compare";

/// The goal that a run names although nothing is searched here.
const GOAL: &str = "quick";

/// Pairs of starts in an ABBA block.
const PAIRS: u32 = 2;

/// Pairs of starts of a run for each of its ABBA blocks: those of A against itself, and those of A and B.
pub(crate) const PAIRS_OF_BLOCK: u32 = 2 * PAIRS;

/// With fewer blocks there is no verdict.
pub const BLOCKS_LEAST: u32 = 6;

/// How many of the planned blocks fit the time that is left, where a start takes so long; those that a verdict takes in any
/// case.
pub(crate) fn fitting(planned: u32, left_s: f64, start_s: f64) -> u32 {
    let block_s = f64::from(2 * PAIRS_OF_BLOCK) * start_s;
    planned.min(((left_s / block_s) as u32).max(BLOCKS_LEAST))
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    /// A subject that is started.
    Started(Box<Configured>),
    /// A server that runs already.
    Running(Running),
}

impl Side {
    /// The name of its cell.
    pub fn name(&self) -> &str {
        match self {
            Self::Started(configured) => &configured.name,
            Self::Running(running) => &running.name,
        }
    }

    /// The subject, where it is started.
    fn definition(&self) -> Option<&Definition> {
        match self {
            Self::Started(configured) => Some(&configured.definition),
            Self::Running(_) => None,
        }
    }
}

/// What is to be compared, and how.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its folder, which must not hold a run yet.
    pub folder: PathBuf,
    /// What B is compared with.
    pub a: Side,
    /// What is judged. It may be called like A.
    pub b: Side,
    /// The user's query file, which both are then asked.
    pub queries: Option<PathBuf>,
    /// Seconds that it may take; none for what it takes.
    pub budget_s: Option<f64>,
    /// ABBA blocks; as many of A against itself come first.
    pub blocks: u32,
    /// How every start is loaded.
    pub load: CellLoad,
    /// Queries outstanding at most, in a closed loop.
    pub window: u32,
    /// How the player is set up beside that.
    pub player: PlayerWish,
    /// Workers of each subject, each on a core of its own where there are as many.
    pub workers: u32,
    /// The seed of every random choice.
    pub seed: u64,
    /// Records of the generated zone.
    pub records: u64,
    /// What was typed.
    pub command: Vec<String>,
    /// The program that is running.
    pub kqps: PathBuf,
    /// Its version.
    pub version: String,
}

/// Why a comparison could not begin.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum ComparisonError {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("{title} cannot be started: {error}")]
    Subject { title: String, error: Box<StartError> },
    #[error("{name} cannot have its cores: {reason}")]
    Cores { name: String, reason: String },
}

/// Makes the store of a comparison, and opens it as a run that lacks all of its trials. `began` is when its budget began.
pub fn begin(wish: &Wish, began: Instant) -> Result<Session, ComparisonError> {
    let sides = [&wish.a, &wish.b];
    for definition in sides.iter().filter_map(|side| side.definition()) {
        must_be_installed(definition)?;
    }
    make(wish)?;
    Ok(Session::resume(&wish.folder, wish.kqps.clone())?.since(began))
}

fn must_be_installed(definition: &Definition) -> Result<(), ComparisonError> {
    match definition.programs.iter().find(|program| programs::find(program).is_none()) {
        None => Ok(()),
        Some(program) => {
            let (program, package) = (program.clone(), definition.package.clone());
            let error = Box::new(StartError::Missing { program, package });
            Err(ComparisonError::Subject { title: definition.title.clone(), error })
        }
    }
}

/// Writes all that resuming the run needs.
fn make(wish: &Wish) -> Result<(), ComparisonError> {
    // Before anything is written: an error may be the user's.
    let run = plan(wish)?;
    let (folder, claim) = claim(&wish.folder)?;
    let definitions = [&wish.a, &wish.b].into_iter().filter_map(Side::definition);
    for definition in definitions {
        let written = folder.write(&folder.definition(&definition.name), definition.text.as_bytes());
        written.map_err(LabError::from)?;
    }
    if let Some(queries) = &wish.queries {
        Materials::keep(&folder, queries).map_err(LabError::from)?;
    }
    folder.write(&folder.study(), record::of(&run).as_bytes()).map_err(LabError::from)?;
    claim.create(&run).map_err(LabError::from)?;
    Ok(())
}

/// The run before its first trial.
fn plan(wish: &Wish) -> Result<Run, ComparisonError> {
    let mut fingerprint = fingerprint::read();
    let mut skipped = BTreeMap::new();
    let mut versions = Vec::new();
    for side in [&wish.a, &wish.b] {
        let Some(definition) = side.definition() else {
            versions.push(None);
            continue;
        };
        let version = version::ask(definition, &wish.kqps);
        if let Err(error @ NoVersion::Unended { .. }) = &version {
            skipped.insert(format!("the version of {}", side.name()), error.to_string());
        }
        let version = version.ok();
        for program in &definition.programs {
            if let Some(path) = programs::find(program) {
                let facts = BinaryFacts { version: version.clone(), ..fingerprint::binary(&path) };
                fingerprint.binaries.insert(program.clone(), facts);
            }
        }
        versions.push(version);
    }
    Ok(Run {
        schema: kqps_observation::SCHEMA,
        study: NAME.into(),
        command: wish.command.clone(),
        started_unix_ms: unix_ms(),
        kqps_version: wish.version.clone(),
        goal: GOAL.into(),
        budget_s: wish.budget_s,
        blocks: PAIRS_OF_BLOCK * wish.blocks,
        seed: wish.seed,
        fingerprint,
        cells: cells(wish, &versions)?,
        skipped,
        ..Run::default()
    })
}

fn cells(wish: &Wish, versions: &[Option<String>]) -> Result<Vec<Cell>, ComparisonError> {
    let topology = Topology::read();
    let cores = split(&topology, wish.player.cores(), wish.workers as usize);
    let mut factors = wish.player.setup(Setup { window: wish.window, ..Setup::MANY_FLOWS }).factors();
    match &wish.queries {
        Some(file) => factors.insert(FILE_FACTOR.into(), file_name(file)),
        None => factors.insert(RECORDS_FACTOR.into(), wish.records.to_string()),
    };
    let like = Cell {
        load: wish.load.clone(),
        workers: wish.workers,
        player_cpus: cores.player_cpus,
        factors,
        ..Cell::default()
    };
    let cell = |side: &Side, version: &Option<String>, part: Part| -> Result<Cell, ComparisonError> {
        let mut cell = match side {
            Side::Running(running) => running.cell(&like),
            Side::Started(configured) => configured
                .cell(&topology, version.clone(), &like)
                .map_err(|reason| ComparisonError::Cores { name: side.name().into(), reason })?,
        };
        cell.factors.insert(Part::FACTOR.into(), part.word().into());
        Ok(cell)
    };
    let a = cell(&wish.a, &versions[0], Part::A)?;
    let mut again = cell(&wish.a, &versions[0], Part::Again)?;
    again.name += " again";
    let b = cell(&wish.b, &versions[1], Part::B)?;
    Ok(vec![a, again, b])
}

/// The cells of one pair of starts, in the order in which they are measured: A and A again in the first half of the
/// run's blocks, A and B in the second, and in every other pair the other way round.
pub(crate) fn of_pair(run: &Run, pairing: Pairing, pair: u32) -> Vec<usize> {
    let other = if pair < run.blocks / 2 { pairing.again } else { pairing.b };
    if pair.is_multiple_of(2) { vec![pairing.a, other] } else { vec![other, pairing.a] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::builtin;
    use crate::subject::definition::Version;

    #[test]
    fn programs_are_recorded_with_their_versions() {
        let told = |program: &str, word: &str| {
            Side::Started(Box::new(Configured::plain(Definition {
                programs: vec![program.into()],
                version: Some(Version {
                    command: vec!["sh".into(), "-c".into(), format!("echo tool {word}")],
                    after: "tool ".into(),
                }),
                ..builtin::echo()
            })))
        };
        let wish = Wish {
            folder: PathBuf::new(),
            a: told("sh", "1.2"),
            b: told("cat", "1.3"),
            queries: None,
            budget_s: None,
            blocks: 6,
            load: CellLoad::Closed(1.0),
            window: 8,
            player: PlayerWish::default(),
            workers: 1,
            seed: 1,
            records: 10,
            command: Vec::new(),
            kqps: PathBuf::from("kqps"),
            version: "0".into(),
        };
        let run = plan(&wish).unwrap();
        let versions: Vec<_> = run.cells.iter().map(|cell| cell.version.as_deref()).collect();
        assert_eq!(versions, [Some("1.2"), Some("1.2"), Some("1.3")]);
        let binaries = &run.fingerprint.binaries;
        assert_eq!(binaries["sh"].version.as_deref(), Some("1.2"));
        assert_eq!(binaries["cat"].version.as_deref(), Some("1.3"));
        assert!(binaries["sh"].blake3.is_some() && binaries["cat"].blake3.is_some());
    }

    #[test]
    fn blocks_are_left_out_for_which_starts_take_too_long() {
        // Two minutes for eight blocks of starts with 1.8 s each, less 5 s that are gone.
        assert_eq!(fitting(8, 115.2, 1.8), 8);
        assert_eq!(fitting(8, 115.0, 1.8), 7);
        assert_eq!(fitting(8, 115.0, 2.5), 6, "with fewer there is no verdict");
        assert_eq!((fitting(8, 0.0, 2.5), fitting(20, 1e3, 0.0)), (6, 20));
        assert_eq!(fitting(1, 0.0, 9.0), 1, "no more than was planned");
    }

    #[test]
    fn pairs_turn_round_and_a_meets_itself_first() {
        let run = Run { blocks: 8, ..Run::default() };
        let pairing = Pairing { a: 0, again: 1, b: 2 };
        let order: Vec<_> = (0..8).map(|pair| of_pair(&run, pairing, pair)).collect();
        assert_eq!(order[..4], [[0, 1], [1, 0], [0, 1], [1, 0]]);
        assert_eq!(order[4..], [[0, 2], [2, 0], [0, 2], [2, 0]]);
    }
}
