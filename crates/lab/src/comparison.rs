//! A run that compares two subjects. In each block, two starts of A and one of B run side by side, and their
//! trials take turns. The second start of A shows which differences this host can detect.
//!
//! The plan is a run like any other, with three cells. It is stored, killed and resumed like every run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use kqps_host::{Topology, fingerprint, split};
use kqps_observation::factors::ComparedAs;

use kqps_observation::{Cell, CellLoad, Factors, Run};

use crate::budget::Clock;
use crate::claim::claim;
use crate::clock::unix_ms;
use crate::configured::Configured;
use crate::error::LabError;
use crate::record;
use crate::running_server::{PlayerRequest, RunningServer};
use crate::session::Session;
use kqps_testbed::materials::{Materials, file_name};
use kqps_testbed::subject::{Definition, StartError, must_be_installed, programs, version};

/// The name of the study, as stored in the run.
pub const NAME: &str = "compare";

/// Every run names a goal, although a comparison searches nothing.
const GOAL: &str = "quick";

/// A side of a comparison: a subject that kqps starts, or a server that already runs.
#[derive(Clone, Debug)]
pub enum Side {
    /// A subject that kqps starts.
    Started(Box<Configured>),
    /// A server that already runs.
    Running(RunningServer),
}

impl Side {
    /// The name of the side's cell.
    pub fn name(&self) -> &str {
        match self {
            Self::Started(configured) => &configured.name,
            Self::Running(running) => &running.name,
        }
    }

    /// The subject's definition, if kqps starts it.
    fn definition(&self) -> Option<&Definition> {
        match self {
            Self::Started(configured) => Some(&configured.definition),
            Self::Running(_) => None,
        }
    }
}

/// A comparison to make.
#[derive(Clone, Debug)]
pub struct ComparisonRequest {
    /// The folder of the run. It must not hold a run yet.
    pub folder: PathBuf,
    /// The subject that B is compared with.
    pub a: Side,
    /// The subject that is judged. It may have the same name as A.
    pub b: Side,
    /// The user's query file, which is then played at both.
    pub queries: Option<PathBuf>,
    /// The issuers of certificates that the user trusts, as PEM, for servers that run already.
    pub ca: Option<String>,
    /// The budget, seconds; `None` for as long as it takes.
    pub budget_s: Option<f64>,
    /// Whether there are more blocks than `blocks` if they fit the budget.
    pub fills_budget: bool,
    /// Number of blocks; each has two starts of A and one of B.
    pub blocks: u32,
    /// The load of every trial.
    pub load: CellLoad,
    /// Number of trials in every start.
    pub rounds: u32,
    /// The most queries outstanding, in a closed loop.
    pub window: u32,
    /// Further settings of the player.
    pub player: PlayerRequest,
    /// Workers of each subject, each on a core of its own if there are enough.
    pub workers: u32,
    /// The seed of every random choice.
    pub seed: u64,
    /// Number of records in the generated zone.
    pub records: u64,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The path of this kqps program.
    pub kqps: PathBuf,
    /// The version of this kqps program.
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

/// Makes the store of a comparison, and opens it as a run without trials. `began` is when its budget began.
pub fn begin(request: &ComparisonRequest, began: Instant) -> Result<Session, ComparisonError> {
    let sides = [&request.a, &request.b];
    for definition in sides.iter().filter_map(|side| side.definition()) {
        must_be_installed(definition).map_err(|error| ComparisonError::Subject {
            title: definition.title.clone(),
            error: Box::new(error),
        })?;
    }
    // Before anything is written, since the error may be the user's.
    make(request, &plan(request)?)?;

    let known = sides.iter().filter_map(|side| side.definition());
    let known = known.map(|definition| (definition.name.clone(), definition.clone())).collect();
    let clock = if request.fills_budget { Clock::of_filled } else { Clock::new };
    Ok(Session::resume_with(&request.folder, request.kqps.clone(), &known)?.since(began, clock))
}

/// Writes everything that resuming the run needs.
fn make(request: &ComparisonRequest, run: &Run) -> Result<(), LabError> {
    let (folder, claim) = claim(&request.folder)?;
    let definitions = [&request.a, &request.b].into_iter().filter_map(Side::definition);
    for definition in definitions {
        folder.write(&folder.definition(&definition.name), definition.kept_text().as_bytes())?;
    }
    if let Some(queries) = &request.queries {
        Materials::keep(&folder, queries)?;
    }
    folder.keep_trusted(request.ca.as_deref())?;
    folder.write(&folder.study(), record::study_text(run).as_bytes())?;
    claim.create(run)?;

    Ok(())
}

/// The run before its first trial.
fn plan(request: &ComparisonRequest) -> Result<Run, ComparisonError> {
    let mut fingerprint = fingerprint::read();
    let mut skipped = BTreeMap::new();
    let mut versions = Vec::new();
    for side in [&request.a, &request.b] {
        let Some(definition) = side.definition() else {
            versions.push(None);
            continue;
        };
        let version = version::ask(definition, &request.kqps).unwrap_or_else(|error| {
            skipped.insert(format!("the version of {}", side.name()), error.to_string());
            None
        });
        fingerprint.binaries.extend(programs::facts_of(&definition.programs, version.as_deref()));

        versions.push(version);
    }
    Ok(Run {
        schema: kqps_observation::SCHEMA,
        study: NAME.into(),
        command: request.command.clone(),
        started_unix_ms: unix_ms(),
        kqps_version: request.version.clone(),
        goal: GOAL.into(),
        budget_s: request.budget_s,
        blocks: request.blocks,
        seed: request.seed,
        fingerprint,
        cells: cells(request, &versions)?,
        skipped,
        ..Run::default()
    })
}

fn cells(request: &ComparisonRequest, versions: &[Option<String>]) -> Result<Vec<Cell>, ComparisonError> {
    let topology = Topology::read();
    let cores = split(&topology, request.player.cores(), request.workers as usize);
    let mut factors = Factors::default();
    factors.set_player(request.player.settings(request.window));
    factors.set_rounds(request.rounds);
    match &request.queries {
        Some(file) => factors.set_file(&file_name(file)),
        None => factors.set_records(request.records),
    }
    let like = Cell {
        load: request.load.clone(),
        workers: request.workers,
        player_cpus: cores.player_cpus,
        factors,
        ..Cell::default()
    };
    let cell = |side: &Side, version: &Option<String>, part: ComparedAs| -> Result<Cell, ComparisonError> {
        let mut cell = match side {
            Side::Running(running) => running.cell(&like),
            Side::Started(configured) => configured
                .cell(&topology, version.clone(), &like)
                .map_err(|reason| ComparisonError::Cores { name: side.name().into(), reason })?,
        };
        cell.factors.set_compared_as(part);
        Ok(cell)
    };
    let a = cell(&request.a, &versions[0], ComparedAs::A)?;
    let mut again = cell(&request.a, &versions[0], ComparedAs::Again)?;
    again.name += " again";
    let b = cell(&request.b, &versions[1], ComparedAs::B)?;
    Ok(vec![a, again, b])
}

#[cfg(test)]
mod tests {
    use kqps_observation::Target;
    use kqps_observation::trial::Transport;

    use super::*;
    use kqps_testbed::subject::builtin;
    use kqps_testbed::subject::definition::Version;

    fn request(a: Side, b: Side) -> ComparisonRequest {
        ComparisonRequest {
            folder: PathBuf::new(),
            a,
            b,
            queries: None,
            ca: None,
            budget_s: None,
            fills_budget: false,
            blocks: 6,
            load: CellLoad::Closed(1.0),
            rounds: 4,
            window: 8,
            player: PlayerRequest::default(),
            workers: 1,
            seed: 1,
            records: 10,
            command: Vec::new(),
            kqps: PathBuf::from("kqps"),
            version: "0".into(),
        }
    }

    #[test]
    fn each_side_has_the_transport_that_its_words_name() {
        for transport in [Transport::Tcp, Transport::Tls, Transport::Https, Transport::Quic] {
            sides_over(transport);
        }
    }

    fn sides_over(transport: Transport) {
        let over = format!("player.transport={}", transport.word());
        let pairs = [over, "player.connections=3".to_owned()];
        let started = Configured::with(builtin::echo(), "echo over connections", &pairs).unwrap();
        let address = "127.0.0.1:53".parse().unwrap();
        let running = RunningServer {
            name: "theirs".into(),
            target: Target { address, on_this_host: true },
            factors: Box::new(started.factors.clone()),
        };
        let plain = Configured::plain(builtin::echo());
        let request = request(Side::Started(Box::new(started)), Side::Running(running));
        let run = plan(&request).unwrap();
        for cell in &run.cells {
            let player = cell.factors.player();
            assert_eq!((cell.factors.transport(), player.connections), (transport, Some(3)), "{}", cell.name);
            assert_eq!((player.sockets, player.window), (None, Some(8)), "{}", cell.name);
        }
        let run = plan(&ComparisonRequest { b: Side::Started(Box::new(plain)), ..request }).unwrap();
        let transports: Vec<Transport> = run.cells.iter().map(|cell| cell.factors.transport()).collect();
        assert_eq!(transports, [transport, transport, Transport::Udp]);
    }

    #[test]
    fn programs_are_recorded_with_their_versions() {
        let side = |program: &str, word: &str| {
            let mut definition = builtin::echo();
            definition.programs = vec![program.into()];
            definition.version = Some(Version {
                command: vec!["sh".into(), "-c".into(), format!("echo tool {word}")],
                after: "tool ".into(),
            });
            Side::Started(Box::new(Configured::plain(definition)))
        };
        let request = request(side("sh", "1.2"), side("cat", "1.3"));
        let run = plan(&request).unwrap();
        let versions: Vec<_> = run.cells.iter().map(|cell| cell.version.as_deref()).collect();
        assert_eq!(versions, [Some("1.2"), Some("1.2"), Some("1.3")]);
        let binaries = &run.fingerprint.binaries;
        assert_eq!(binaries["sh"].version.as_deref(), Some("1.2"));
        assert_eq!(binaries["cat"].version.as_deref(), Some("1.3"));
        assert!(binaries["sh"].blake3.is_some() && binaries["cat"].blake3.is_some());
    }
}
