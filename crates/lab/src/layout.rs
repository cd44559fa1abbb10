//! What a new run is to be, and what this host makes of it: its cells, its plan, its record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kqps_host::{Topology, fingerprint, split};
use kqps_kernel::probe;
use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::run::Role;
use kqps_observation::{Cell, Question, Run};
use kqps_verdict::judge;
use kqps_verdict::search::Preset;

use crate::budget::{self, Spending, Work};
use crate::materials::{RECIPE_FACTOR, RECORDS_FACTOR};
use crate::session::{LabError, unix_ms};
use crate::study::{self, Found};
use crate::study_file::{StudyFile, cells};
use crate::subject::{Definition, StartError, builtin, programs, version};

/// What a new run is to be.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Its folder, which must not hold a run yet.
    pub folder: PathBuf,
    /// The study; none for the default study.
    pub study: Option<StudyFile>,
    /// The subjects by the words they were called, in the order in which they are shown; those that cannot be
    /// started here are left out, with the reason.
    pub subjects: Vec<(String, Definition)>,
    /// The I/O models of the echo that the default study is to have; empty for all.
    pub models: Vec<String>,
    /// Seconds that it may take; none for what the study takes.
    pub budget_s: Option<f64>,
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

/// The seconds of a default study that is given none.
pub const BUDGET_S: f64 = 120.0;

/// A run before its first trial.
#[derive(Clone, Debug, Default)]
pub struct LaidOut {
    /// Its cells.
    pub cells: Vec<Cell>,
    /// What is left out, and why.
    pub skipped: BTreeMap<String, String>,
    /// What its study asks; none for the default study.
    pub question: Option<Question>,
    /// The subjects of its cells, by their names.
    pub definitions: BTreeMap<String, Definition>,
    /// How its time is spent.
    pub spending: Spending,
}

/// What this host offers makes cells of a wish, and a plan of its time.
pub fn lay_out(wish: &Wish) -> Result<LaidOut, LabError> {
    let subjects = find_subjects(wish)?;
    let lacking = probe::probe()
        .into_iter()
        .filter_map(|capability| Some((capability.name.to_string(), capability.outcome.err()?)))
        .collect();
    match &wish.study {
        None => Ok(default_study(wish, &subjects, lacking)),
        Some(study) => study_file(wish, study, subjects, lacking),
    }
}

/// The subjects of a wish on this host.
#[derive(Default)]
struct Subjects {
    /// Those that can be started, by the word they were called, in their order.
    found: Vec<(String, Definition)>,
    /// Versions by the same words.
    versions: BTreeMap<String, String>,
    /// The others, and why not.
    absent: BTreeMap<String, String>,
}

impl Subjects {
    fn definitions(&self) -> BTreeMap<String, Definition> {
        self.found.iter().map(|(_, definition)| (definition.name.clone(), definition.clone())).collect()
    }
}

fn find_subjects(wish: &Wish) -> Result<Subjects, LabError> {
    let mut subjects = Subjects::default();
    let echo = [("echo".to_string(), builtin::echo())];
    let all = echo.iter().chain(wish.subjects.iter().filter(|(_, definition)| definition.name != "echo"));
    for (word, definition) in all {
        if subjects.found.iter().any(|(_, other)| other.name == definition.name) {
            return Err(LabError::SameName { name: definition.name.clone() });
        }
        if let Some(program) = definition.programs.iter().find(|program| programs::find(program).is_none()) {
            let missing =
                StartError::Missing { program: program.clone(), package: definition.package.clone() };
            subjects.absent.insert(word.clone(), missing.to_string());
            continue;
        }
        if let Some(version) = version::ask(definition, &wish.kqps) {
            subjects.versions.insert(word.clone(), version);
        }
        subjects.found.push((word.clone(), definition.clone()));
    }
    Ok(subjects)
}

/// The default study: its size makes a plan, and the plan says whether latency is measured.
fn default_study(wish: &Wish, subjects: &Subjects, lacking: BTreeMap<String, String>) -> LaidOut {
    let split = split(&Topology::read(), 1, 1);
    let servers = subjects.found.iter().filter(|(_, definition)| definition.name != "echo");
    let mut given = study::Given {
        lacking,
        subjects: servers
            .map(|(word, definition)| Found {
                name: definition.name.clone(),
                io: definition.echo_io(&BTreeMap::new()),
                version: subjects.versions.get(word).cloned(),
            })
            .collect(),
        echo_version: Some(wish.version.clone()),
        player_cpus: split.player_cpus,
        subject_cpus: split.subject_cpus,
        models: wish.models.clone(),
        zone_records: wish.records,
        latency: false,
    };
    let ceilings = study::layout(&given).cells.len() - given.subjects.len();
    let work = Work {
        ceilings: ceilings as u32,
        subjects: given.subjects.len() as u32,
        reasons: are_reasons_told(),
    };
    let spending = budget::plan(wish.budget_s.unwrap_or(BUDGET_S), work);
    given.latency = spending.latency;
    let study::Layout { cells, mut skipped } = study::layout(&given);
    skipped.extend(subjects.absent.clone());
    LaidOut { cells, skipped, question: None, definitions: subjects.definitions(), spending }
}

/// Whether the kernel's reasons for its drops can be counted.
fn are_reasons_told() -> bool {
    probe::probe_one("drop-reasons").is_ok()
}

/// A study from a file: its cells as often as it says, or as often as the budget allows.
fn study_file(
    wish: &Wish,
    study: &StudyFile,
    subjects: Subjects,
    lacking: BTreeMap<String, String>,
) -> Result<LaidOut, LabError> {
    let definitions = subjects.definitions();
    let given = cells::Given {
        topology: Topology::read(),
        lacking,
        definitions: subjects.found.into_iter().collect(),
        versions: subjects.versions,
        absent: subjects.absent,
    };
    let mut layout = cells::lay_out(study, &given)?;
    for cell in &mut layout.cells {
        if !cell.factors.contains_key(RECIPE_FACTOR) {
            cell.factors.entry(RECORDS_FACTOR.into()).or_insert_with(|| wish.records.to_string());
        }
    }
    if !layout.cells.iter().any(|cell| cell.role == Role::Subject) {
        let reasons = layout.skipped.iter().map(|(what, why)| format!("{what}: {why}"));
        return Err(LabError::NothingToMeasure(reasons.collect::<Vec<_>>().join("; ")));
    }
    let spending =
        budget::plan_study(wish.budget_s, study.repetitions, study.goal(), &layout.cells, are_reasons_told());
    Ok(LaidOut {
        cells: layout.cells,
        skipped: layout.skipped,
        question: Some(layout.question),
        definitions,
        spending,
    })
}

pub(crate) fn new_run(wish: &Wish, laid_out: &LaidOut) -> Run {
    let mut fingerprint = fingerprint::read();
    for definition in laid_out.definitions.values() {
        let version = laid_out.cells.iter().find(|cell| cell.subject == definition.name);
        let version = version.and_then(|cell| cell.version.clone());
        for program in &definition.programs {
            if let Some(path) = programs::find(program) {
                let facts = BinaryFacts { version: version.clone(), ..fingerprint::binary(&path) };
                fingerprint.binaries.insert(program.clone(), facts);
            }
        }
    }
    Run {
        schema: kqps_observation::SCHEMA,
        study: wish.study.as_ref().map_or(study::NAME, |study| &study.name).into(),
        question: laid_out.question.clone(),
        command: wish.command.clone(),
        started_unix_ms: unix_ms(),
        kqps_version: wish.version.clone(),
        budget_s: wish.budget_s.or(wish.study.is_none().then_some(BUDGET_S)),
        goal: laid_out.spending.goal.into(),
        goal_facts: laid_out
            .spending
            .goal
            .parse::<Preset>()
            .ok()
            .map(|preset| judge::facts_of(&preset.goal())),
        blocks: laid_out.spending.blocks,
        seed: wish.seed,
        fingerprint,
        skipped: laid_out.skipped.clone(),
        cells: laid_out.cells.clone(),
        ..Run::default()
    }
}
