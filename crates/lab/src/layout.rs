//! What a new run is to be, and what this host makes of it: its cells, its plan, its record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kqps_host::{Topology, fingerprint, split};
use kqps_kernel::probe;
use kqps_observation::Run;

use crate::budget::{self, Spending, Work};
use crate::session::{LabError, unix_ms};
use crate::study::{self, Found, Given, Layout};
use crate::subject::{Definition, StartError, builtin, programs, version};

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

pub(crate) type LaidOut = (Layout, BTreeMap<String, Definition>, Spending);

/// What this host offers makes a layout, its size makes a plan, and the plan says whether latency is measured.
pub(crate) fn lay_out(wish: &Wish) -> Result<LaidOut, LabError> {
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
    let (definitions, absent) = find_subjects(wish, &mut given)?;
    let ceilings = study::layout(&given).cells.len() - given.subjects.len();
    let work = Work { ceilings: ceilings as u32, subjects: given.subjects.len() as u32 };
    let spending = budget::plan(wish.budget_s, work);
    given.latency = spending.latency;
    let mut layout = study::layout(&given);
    layout.skipped.extend(absent);
    Ok((layout, definitions, spending))
}

/// Definitions by name, and the reasons of what is left out by name.
type Subjects = (BTreeMap<String, Definition>, BTreeMap<String, String>);

/// Adds the subjects that can be started here to what is given.
fn find_subjects(wish: &Wish, given: &mut Given) -> Result<Subjects, LabError> {
    let echo = builtin::echo();
    let mut definitions = BTreeMap::from([(echo.name.clone(), echo)]);
    let mut absent = BTreeMap::new();
    for definition in &wish.subjects {
        let name = definition.name.clone();
        if let Some(program) = definition.programs.iter().find(|program| programs::find(program).is_none()) {
            let package = definition.package.clone();
            let missing = StartError::Missing { program: program.clone(), package };
            absent.insert(name, missing.to_string());
            continue;
        }
        let version = version::ask(definition, &wish.kqps);
        given.subjects.push(Found { name: name.clone(), io: definition.io.clone(), version });
        if definitions.insert(name.clone(), definition.clone()).is_some() {
            return Err(LabError::SameName { name });
        }
    }
    Ok((definitions, absent))
}

pub(crate) fn new_run(
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
