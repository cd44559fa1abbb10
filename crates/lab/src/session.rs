//! A run from its beginning, or from where it was left: its folder, its store, and the players and subjects that
//! its cells stand for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kqps_host::{Topology, fingerprint, split};
use kqps_kernel::probe;
use kqps_observation::store::StoreError;
use kqps_observation::{Cell, Run, Store};
use kqps_verdict::search::{Goal, Preset};

use crate::budget::{self, Clock, Spending, Work};
use crate::conduct::{Conducted, Conductor, Event, NoTrial, Play};
use crate::folder::{Folder, FolderError};
use crate::materials::{Materials, MaterialsError};
use crate::player::Player;
use crate::record;
use crate::setup::Setup;
use crate::study::{self, Found, Given, Layout};
use crate::subject::definition::{DefinitionError, ReadyKind};
use crate::subject::{Definition, Setting, StartError, Subject, builtin, programs, version};

/// Why a run could not begin or go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum LabError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Materials(#[from] MaterialsError),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("the run was made with a goal that this version does not know: {0}")]
    Goal(String),
    #[error("two subjects are called `{name}`: give each a name of its own")]
    SameName { name: String },
}

/// What a new run is to be.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its folder, which must not hold a run yet.
    pub folder: PathBuf,
    /// The subjects; those that cannot be started here are left out, with the reason.
    pub subjects: Vec<Definition>,
    /// The I/O models of the echo that are wanted; empty for all.
    pub models: Vec<String>,
    /// Seconds that it may take.
    pub budget_s: f64,
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

/// A run that can be conducted.
#[derive(Debug)]
pub struct Session {
    folder: Folder,
    store: Store,
    run: Run,
    goal: Goal,
    kqps: PathBuf,
    materials: Materials,
    definitions: BTreeMap<String, Definition>,
    clock: Option<(Clock, Instant)>,
}

impl Session {
    /// Lays out a new run, generates what it plays, and makes its store. `began` is when its budget began.
    pub fn begin(wish: &Wish, began: Instant) -> Result<(Self, Spending), LabError> {
        let folder = Folder::make(&wish.folder)?;
        if folder.store().exists() {
            return Err(StoreError::Exists { path: folder.store() }.into());
        }
        let (layout, definitions, spending) = lay_out(wish)?;
        for definition in definitions.values() {
            folder.write(&folder.definition(&definition.name), definition.text.as_bytes())?;
        }
        let materials = Materials::make(&folder, wish.records, wish.seed)?;
        let run = new_run(wish, layout, &definitions, &spending);
        folder.write(&folder.study(), record::of(&run).as_bytes())?;
        let store = Store::create(&folder.store(), &run)?;
        let session = Self {
            goal: goal_of(&run)?,
            folder,
            store,
            run,
            kqps: wish.kqps.clone(),
            materials,
            definitions,
            clock: Some((Clock::new(wish.budget_s, &spending), began)),
        };
        Ok((session, spending))
    }

    /// Opens a run to go on with it. Its plan is what the store says.
    pub fn resume(folder: &std::path::Path, kqps: PathBuf) -> Result<Self, LabError> {
        let folder = Folder::open(folder)?;
        let store = Store::open(&folder.store())?;
        let run = store.run()?;
        let materials = Materials::of(&folder, &run)?;
        let mut definitions = BTreeMap::new();
        for cell in &run.cells {
            let definition = Definition::open(&folder.definition(&cell.subject))?;
            definitions.insert(cell.subject.clone(), definition);
        }
        Ok(Self { goal: goal_of(&run)?, folder, store, run, kqps, materials, definitions, clock: None })
    }

    /// The run with all trials so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Its folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Makes all trials that are missing. `interrupted` ends it early.
    pub fn conduct(
        &mut self,
        interrupted: &AtomicBool,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Conducted, LabError> {
        if self.run.finished_unix_ms.is_some() {
            return Ok(Conducted::Whole);
        }
        let rig = Rig {
            folder: &self.folder,
            cells: self.run.cells.clone(),
            materials: &self.materials,
            definitions: &self.definitions,
            kqps: &self.kqps,
            interrupted,
        };
        let mut start = |cell: usize, start: u64| rig.start(cell, start);
        let (goal, clock) = (self.goal.clone(), self.clock);
        let mut conductor = Conductor { store: &self.store, goal, clock, start: &mut start, tell };
        let conducted = conductor.conduct(&mut self.run)?;
        if conducted == Conducted::Whole {
            let now = unix_ms();
            self.store.finish(now)?;
            self.run.finished_unix_ms = Some(now);
        }
        Ok(conducted)
    }
}

/// What is needed to start the subject of any cell.
struct Rig<'a> {
    folder: &'a Folder,
    cells: Vec<Cell>,
    materials: &'a Materials,
    definitions: &'a BTreeMap<String, Definition>,
    kqps: &'a PathBuf,
    interrupted: &'a AtomicBool,
}

impl Rig<'_> {
    fn start(&self, cell: usize, start: u64) -> Result<Play<'_>, NoTrial> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(NoTrial::Interrupted);
        }
        let cell = &self.cells[cell];
        let setting = Setting {
            folder: &self.folder.work(&cell.name, start),
            origin: Materials::ORIGIN,
            zone: &self.materials.zone,
            kqps: self.kqps,
            io: &cell.io,
            workers: cell.workers,
            cpus: &cell.subject_cpus,
        };
        let definition = &self.definitions[&cell.subject];
        let subject =
            Subject::start(definition, &setting, self.interrupted).map_err(|error| match error {
                StartError::Interrupted => NoTrial::Interrupted,
                other => NoTrial::Failed { reason: other.to_string(), output: other.output().to_vec() },
            })?;
        // Whoever answers anything, as an echo does, cannot be held to the zone's rcodes.
        let queries = match definition.ready.kind {
            ReadyKind::Soa => &self.materials.queries,
            ReadyKind::Reply => &self.materials.plain,
        };
        let player = Player {
            kqps: self.kqps,
            target: subject.address(),
            queries,
            setup: Setup::of(cell),
            cpus: &cell.player_cpus,
            subject_pid: subject.pid(),
            subject_cpus: &cell.subject_cpus,
            interrupted: self.interrupted,
        };
        let mut running = Running(Some(subject));
        Ok(Box::new(move |load| {
            let played = player.play(load);
            match running.0.as_mut().and_then(Subject::ended) {
                // Whatever the player saw of a subject that died under it is no measurement.
                Some((reason, output)) if !matches!(played, Err(NoTrial::Interrupted)) => {
                    Err(NoTrial::Failed { reason: format!("{reason} during a trial"), output })
                }
                _ => played,
            }
        }))
    }
}

/// A subject that is stopped as its definition says when it is no longer played at.
struct Running(Option<Subject>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(subject) = self.0.take() {
            subject.stop();
        }
    }
}

type LaidOut = (Layout, BTreeMap<String, Definition>, Spending);

fn lay_out(wish: &Wish) -> Result<LaidOut, LabError> {
    let split = split(&Topology::read(), 1, 1);
    let mut given = Given {
        echo_version: Some(wish.version.clone()),
        player_cpus: split.player_cpus,
        subject_cpus: split.subject_cpus,
        models: wish.models.clone(),
        zone_records: wish.records,
        ..Given::default()
    };
    for capability in probe::probe() {
        if let Err(reason) = capability.outcome {
            given.lacking.insert(capability.name.to_string(), reason);
        }
    }
    let echo = builtin::echo();
    let mut definitions = BTreeMap::from([(echo.name.clone(), echo)]);
    let mut absent = BTreeMap::new();
    for definition in &wish.subjects {
        match definition.programs.iter().find(|program| programs::find(program).is_none()) {
            Some(program) => {
                let package = definition.package.clone();
                let missing = StartError::Missing { program: program.clone(), package };
                absent.insert(definition.name.clone(), missing.to_string());
            }
            None => {
                let (name, io) = (definition.name.clone(), definition.io.clone());
                let version = version::ask(definition, &wish.kqps);
                given.subjects.push(Found { name: name.clone(), io, version });
                if definitions.insert(name.clone(), definition.clone()).is_some() {
                    return Err(LabError::SameName { name });
                }
            }
        }
    }
    let ceilings = study::layout(&given).cells.len() - given.subjects.len();
    let work = Work { ceilings: ceilings as u32, subjects: given.subjects.len() as u32 };
    let spending = budget::plan(wish.budget_s, work);
    given.latency = spending.latency;
    let mut layout = study::layout(&given);
    layout.skipped.extend(absent);
    Ok((layout, definitions, spending))
}

fn new_run(
    wish: &Wish,
    layout: Layout,
    definitions: &BTreeMap<String, Definition>,
    spending: &Spending,
) -> Run {
    let mut fingerprint = fingerprint::read();
    for program in definitions.values().flat_map(|definition| &definition.programs) {
        if let Some(path) = programs::find(program) {
            fingerprint.binaries.insert(program.clone(), fingerprint::binary(&path));
        }
    }
    Run {
        schema: kqps_observation::SCHEMA,
        study: study::NAME.into(),
        command: wish.command.clone(),
        started_unix_ms: unix_ms(),
        kqps_version: wish.version.clone(),
        budget_s: wish.budget_s,
        goal: spending.goal.into(),
        blocks: spending.blocks,
        seed: wish.seed,
        fingerprint,
        skipped: layout.skipped,
        cells: layout.cells,
        ..Run::default()
    }
}

fn goal_of(run: &Run) -> Result<Goal, LabError> {
    let preset: Preset = run.goal.parse().map_err(|_| LabError::Goal(run.goal.clone()))?;
    Ok(preset.goal())
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
