//! A run that compares two subjects: A against itself, which tells what this host can tell apart, and then A
//! against B, in pairs of starts whose order turns round each time: A B B A A B B A …
//!
//! The plan is a run like any other, of three cells: A, A once more, and B. Its blocks are pairs of starts, the
//! first half of them A with itself. So it is stored, killed and resumed as every run is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kqps_host::{Topology, fingerprint, split};
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Cell, CellLoad, Run};
use kqps_verdict::compare::{Pairing, Part};

use crate::materials::RECORDS_FACTOR;
use crate::record;
use crate::session::{LabError, Session, claim, unix_ms};
use crate::setup::Setup;
use crate::subject::definition::with_names_of_their_own;
use crate::subject::{Definition, StartError, programs, version};

/// The study's name.
pub const NAME: &str = "compare";

/// The goal that a run names although nothing is searched here.
const GOAL: &str = "quick";

/// Pairs of starts in an ABBA block.
const PAIRS: u32 = 2;

/// What is to be compared, and how.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its folder, which must not hold a run yet.
    pub folder: PathBuf,
    /// What B is compared with.
    pub a: Definition,
    /// What is judged. It may be called like A.
    pub b: Definition,
    /// ABBA blocks; as many of A against itself come first.
    pub blocks: u32,
    /// How every start is loaded.
    pub load: CellLoad,
    /// Queries outstanding at most, in a closed loop.
    pub window: u32,
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
}

/// Makes the store of a comparison, and opens it as a run that lacks all of its trials.
pub fn begin(wish: &Wish) -> Result<Session, ComparisonError> {
    let subjects = with_names_of_their_own(vec![wish.a.clone(), wish.b.clone()]);
    for definition in &subjects {
        must_be_installed(definition)?;
    }
    make(wish, &subjects)?;
    Ok(Session::resume(&wish.folder, wish.kqps.clone())?)
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
fn make(wish: &Wish, subjects: &[Definition]) -> Result<(), LabError> {
    let (folder, claim) = claim(&wish.folder)?;
    let run = plan(wish, subjects);
    for definition in subjects {
        folder.write(&folder.definition(&definition.name), definition.text.as_bytes())?;
    }
    folder.write(&folder.study(), record::of(&run).as_bytes())?;
    claim.create(&run)?;
    Ok(())
}

/// The run before its first trial.
fn plan(wish: &Wish, subjects: &[Definition]) -> Run {
    let mut fingerprint = fingerprint::read();
    let versions: Vec<Option<String>> =
        subjects.iter().map(|definition| version::ask(definition, &wish.kqps)).collect();
    for (definition, version) in subjects.iter().zip(&versions) {
        for program in &definition.programs {
            if let Some(path) = programs::find(program) {
                let facts = BinaryFacts { version: version.clone(), ..fingerprint::binary(&path) };
                fingerprint.binaries.insert(program.clone(), facts);
            }
        }
    }
    Run {
        schema: kqps_observation::SCHEMA,
        study: NAME.into(),
        command: wish.command.clone(),
        started_unix_ms: unix_ms(),
        kqps_version: wish.version.clone(),
        goal: GOAL.into(),
        blocks: 2 * PAIRS * wish.blocks,
        seed: wish.seed,
        fingerprint,
        cells: cells(wish, (&subjects[0], &versions[0]), (&subjects[1], &versions[1])),
        ..Run::default()
    }
}

fn cells(wish: &Wish, a: (&Definition, &Option<String>), b: (&Definition, &Option<String>)) -> Vec<Cell> {
    let cores = split(&Topology::read(), 1, wish.workers as usize);
    let setup = Setup { window: wish.window, ..Setup::MANY_FLOWS };
    let cell = |(definition, version): (&Definition, &Option<String>), name: String, part: Part| {
        let mut factors = setup.factors();
        factors.insert(RECORDS_FACTOR.into(), wish.records.to_string());
        factors.insert(Part::FACTOR.into(), part.word().into());
        Cell {
            name,
            subject: definition.name.clone(),
            version: version.clone(),
            io: definition.echo_io(&BTreeMap::new()),
            load: wish.load.clone(),
            workers: wish.workers,
            player_cpus: cores.player_cpus.clone(),
            subject_cpus: cores.subject_cpus.clone(),
            factors,
            ..Cell::default()
        }
    };
    vec![
        cell(a, a.0.name.clone(), Part::A),
        cell(a, format!("{} again", a.0.name), Part::Again),
        cell(b, b.0.name.clone(), Part::B),
    ]
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
        let told = |program: &str, word: &str| Definition {
            programs: vec![program.into()],
            version: Some(Version {
                command: vec!["sh".into(), "-c".into(), format!("echo tool {word}")],
                after: "tool ".into(),
            }),
            ..builtin::echo()
        };
        let wish = Wish {
            folder: PathBuf::new(),
            a: told("sh", "1.2"),
            b: told("cat", "1.3"),
            blocks: 6,
            load: CellLoad::Closed(1.0),
            window: 8,
            workers: 1,
            seed: 1,
            records: 10,
            command: Vec::new(),
            kqps: PathBuf::from("kqps"),
            version: "0".into(),
        };
        let run = plan(&wish, &[wish.a.clone(), wish.b.clone()]);
        let versions: Vec<_> = run.cells.iter().map(|cell| cell.version.as_deref()).collect();
        assert_eq!(versions, [Some("1.2"), Some("1.2"), Some("1.3")]);
        let binaries = &run.fingerprint.binaries;
        assert_eq!(binaries["sh"].version.as_deref(), Some("1.2"));
        assert_eq!(binaries["cat"].version.as_deref(), Some("1.3"));
        assert!(binaries["sh"].blake3.is_some() && binaries["cat"].blake3.is_some());
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
