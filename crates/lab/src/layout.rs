//! Lays out a new run on this host or on the hosts of a file: from the request to cells, a plan and a record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kqps_host::fingerprint;
use kqps_kernel::probe;

use kqps_observation::run::Role;
use kqps_observation::{Cell, Fingerprint, Question, Run};
use kqps_verdict::judge;
use kqps_verdict::search::{Goal, Preset};

use crate::budget::{self, Spending, Work};
use crate::clock::unix_ms;
use crate::configured::Configured;
use crate::error::LabError;
use crate::open_files;
use crate::profile;
use crate::request::RunRequest;
use crate::residence;
use crate::study;
use crate::study_file::offer::HostOffer;
use crate::study_file::{StudyFile, cells};
use kqps_remote::controller;
use kqps_testbed::host_settings;
use kqps_testbed::materials::{self, file_name};
use kqps_testbed::packages;
use kqps_testbed::play::QueryFile;
use kqps_testbed::player_hosts::{PlayerHosts, players_of};
use kqps_testbed::site::Site;
use kqps_testbed::subject::setting::Need;
use kqps_testbed::subject::{Definition, StartError, builtin, must_be_installed, programs, version};

/// The budget of the default study if the user gives none, seconds.
pub const BUDGET_S: f64 = 120.0;

/// A run before its first trial.
#[derive(Clone, Debug, Default)]
pub struct LaidOut {
    /// The cells of the run.
    pub cells: Vec<Cell>,
    /// The parts that are left out → the reason.
    pub skipped: BTreeMap<String, String>,
    /// The question of its study; `None` for the default study.
    pub question: Option<Question>,
    /// The definitions of the cells' subjects, by name.
    pub definitions: BTreeMap<String, Definition>,
    /// How the run spends its time.
    pub spending: Spending,
    /// Debian packages with programs that cells need and this host lacks. These cells are left out.
    pub missing: BTreeSet<String>,
}

/// Turns a request into cells and a plan of their time, with what this host offers, or the hosts of the request, which
/// are asked for it.
pub fn lay_out(request: &RunRequest) -> Result<LaidOut, LabError> {
    match &request.hosts {
        None => lay_out_on(request, Site::here()),
        Some(hosts) => lay_out_on(request, controller::Session::open(hosts, request.budget_s)?.site()),
    }
}

/// As [`lay_out`], with what the hosts offer that take part.
pub(crate) fn lay_out_on(request: &RunRequest, site: Site) -> Result<LaidOut, LabError> {
    let subjects = find_subjects(request)?;
    match &request.study {
        None => default_study(request, &subjects, site),
        Some(study) => study_file(request, study, subjects, site),
    }
}

/// The subjects of a request. Those of another host are all taken to be there: a start says what is missing.
#[derive(Default)]
struct Subjects {
    /// The subjects that can be started, in their order, each with its version if known.
    found: Vec<(Configured, Option<String>)>,
    /// The other subjects → the reason.
    absent: BTreeMap<String, String>,
    /// Unknown versions of subjects that can be started → the reason.
    without_version: BTreeMap<String, String>,
}

impl Subjects {
    /// The definitions by name. The echo is always among them, since every run may need it.
    fn definitions(&self) -> BTreeMap<String, Definition> {
        let found = self.found.iter().map(|(configured, _)| configured.definition.clone());
        let all = [builtin::echo()].into_iter().chain(found);
        all.map(|definition| (definition.name.clone(), definition)).collect()
    }
}

fn find_subjects(request: &RunRequest) -> Result<Subjects, LabError> {
    check_names(request)?;
    let mut subjects = Subjects::default();
    let mut versions: BTreeMap<&str, Option<String>> = BTreeMap::new();
    for configured in &request.subjects {
        let definition = &configured.definition;
        if request.hosts.is_some() && !definition.programs.is_empty() {
            // Its start reports the version.
            subjects.found.push((configured.clone(), None));
            continue;
        }
        if let Err(missing) = must_be_installed(definition) {
            subjects.absent.insert(configured.name.clone(), missing.to_string());
            continue;
        }
        if !versions.contains_key(definition.name.as_str()) {
            let version = version::ask(definition, &request.kqps).unwrap_or_else(|error| {
                let what = format!("the version of {}", definition.name);
                subjects.without_version.insert(what, error.to_string());
                None
            });
            versions.insert(&definition.name, version);
        }
        subjects.found.push((configured.clone(), versions[definition.name.as_str()].clone()));
    }
    Ok(subjects)
}

/// Names must be unique, since files and cells are identified by them.
fn check_names(request: &RunRequest) -> Result<(), LabError> {
    let echo = Configured::plain(builtin::echo());
    let known: Vec<&Configured> = request.subjects.iter().chain([&echo]).collect();
    for (index, one) in request.subjects.iter().enumerate() {
        let is_same = |other: &&&Configured| {
            let (ours, theirs) = (&one.definition, &other.definition);
            ours.name == theirs.name && ours.text != theirs.text
        };
        let is_again = |other: &Configured| other.name == one.name;
        if known.iter().any(|other| is_same(&other)) || request.subjects[..index].iter().any(is_again) {
            return Err(LabError::SameName { name: one.definition.name.clone() });
        }
    }
    for (index, running) in request.running.iter().enumerate() {
        let is_again = request.running[..index].iter().any(|other| other.name == running.name);
        if is_again
            || known.iter().any(|other| [&other.name, &other.definition.name].contains(&&running.name))
        {
            return Err(LabError::SameName { name: running.name.clone() });
        }
    }
    Ok(())
}

/// The default study. Its size determines the plan, and the plan determines whether latency is measured.
fn default_study(request: &RunRequest, subjects: &Subjects, site: Site) -> Result<LaidOut, LabError> {
    let (player_cpus, subject_cpus) = site.cpus(request.player.cores());
    let can_stamp = residence::can_stamp(&site);
    let Site { topology, lacking, players } = site;
    let mut input = study::DefaultStudyInput {
        lacking,
        topology,
        subjects: subjects.found.clone(),
        running: request.running.clone(),
        echo_target: request.echo_target,
        queries: request.queries.as_deref().map(file_name),
        player: request.player,
        echo_version: Some(request.version.clone()),
        player_cpus,
        subject_cpus,
        models: request.models.clone(),
        zone_records: request.records,
        latency: false,
        players,
    };
    let is_replay = input.players.is_some() && is_capture(request.queries.as_deref());
    let laid_out = |input: &study::DefaultStudyInput| {
        let mut layout = study::layout(input);
        if let Some(hosts) = input.players.as_ref().filter(|_| is_replay) {
            leave_out_shared(hosts, &mut layout);
        }
        layout
    };
    let cells = laid_out(&input).cells;
    let is_measured = |cell: &&Cell| cell.role == Role::Subject;
    let work = Work {
        ceilings: count(cells.iter().filter(|cell| !is_measured(cell))),
        subjects: count(cells.iter().filter(is_measured)),
        in_rounds: in_rounds(&cells),
        reasons: can_count_reasons(request),
        profiled: profiled(cells.clone(), request),
        stamped: stamped(cells.clone(), can_stamp.as_ref()),
        records: materials::records_of(&cells),
        over_hosts: request.hosts.is_some(),
    };
    let spending = budget::plan(request.budget_s.unwrap_or(BUDGET_S), work);
    input.latency = spending.latency;
    let study::Layout { mut cells, mut skipped } = laid_out(&input);
    let definitions = subjects.definitions();
    let missing = match request.hosts {
        None => leave_out_lacking(&mut cells, &definitions, &mut skipped),
        Some(_) => BTreeSet::new(),
    };
    skipped.extend(profile::mark(&mut cells, request.profile, request.hosts.is_some()));
    skipped.extend(residence::mark(&mut cells, true, can_stamp.as_ref()));
    if is_replay && cells.is_empty() {
        return Err(LabError::NothingToMeasure { reasons: SHARED_REPLAY.into(), missing });
    }
    skipped.extend(subjects.absent.clone());
    skipped.extend(subjects.without_version.clone());
    enough(request, &spending)?;
    Ok(LaidOut { cells, skipped, question: None, definitions, spending, missing })
}

/// The number of cells whose subjects are profiled, after marking them.
fn profiled(mut cells: Vec<Cell>, request: &RunRequest) -> u32 {
    profile::mark(&mut cells, request.profile, request.hosts.is_some());
    count(cells.iter().filter(|cell| cell.profile))
}

/// The number of cells whose residence is measured, after marking them.
fn stamped(mut cells: Vec<Cell>, can_stamp: Option<&Result<(), String>>) -> u32 {
    residence::mark(&mut cells, true, can_stamp);
    count(cells.iter().filter(|cell| cell.residence))
}

/// Why several players do not play a capture.
const SHARED_REPLAY: &str = "several players cannot share a replay: each would play all clients of the capture; name \
                             one player";

/// Leaves out cells whose queries are a capture that several players would play.
fn leave_out_shared(hosts: &PlayerHosts, layout: &mut study::Layout) {
    let study::Layout { cells, skipped } = layout;
    cells.retain(|cell| {
        let players = players_of(Some(hosts), &cell.factors).ok().flatten();
        let is_shared =
            cell.factors.dataset().file.is_some() && players.is_some_and(|players| players.hosts.len() > 1);
        if is_shared {
            skipped.insert(cell.name.clone(), SHARED_REPLAY.into());
        }
        !is_shared
    });
}

/// Whether the user's query file is a capture. If it cannot be read, a player gives the reason.
fn is_capture(queries: Option<&Path>) -> bool {
    let opened = queries.and_then(|queries| QueryFile::new(queries).open().ok());
    opened.is_some_and(|dataset| dataset.capture().is_some())
}

/// The number of echoes that have the transport and the I/O of a subject.
fn in_rounds(cells: &[Cell]) -> u32 {
    let wire = |cell: &Cell| (cell.factors.transport(), cell.io.clone());
    let of_subjects: Vec<_> = cells.iter().filter(|cell| cell.role == Role::Subject).map(wire).collect();
    let echoes = cells.iter().filter(|cell| cell.role == Role::EchoCeiling);
    count(echoes.filter(|echo| of_subjects.contains(&wire(echo))))
}

fn count<'a>(cells: impl Iterator<Item = &'a Cell>) -> u32 {
    u32::try_from(cells.count()).unwrap_or(u32::MAX)
}

/// Refuses a budget that is too short for one block: the run would either measure nothing or exceed it.
fn enough(request: &RunRequest, spending: &Spending) -> Result<(), LabError> {
    match request.budget_s {
        Some(budget_s) if spending.over_budget => {
            Err(LabError::Budget { budget_s, least_s: spending.estimate_s.ceil() })
        }
        _ => Ok(()),
    }
}

/// Whether the kernel's reasons for its drops can be counted. Over several hosts they are not.
fn can_count_reasons(request: &RunRequest) -> bool {
    request.hosts.is_none() && probe::probe_one("drop-reasons").is_ok()
}

/// A study from a file: its cells, as often as it says or as the budget allows.
fn study_file(
    request: &RunRequest,
    study: &StudyFile,
    subjects: Subjects,
    site: Site,
) -> Result<LaidOut, LabError> {
    let definitions = subjects.definitions();
    let can_stamp = residence::can_stamp(&site);
    let mut offer = HostOffer {
        topology: site.topology,
        lacking: site.lacking,
        players: site.players,
        definitions: [("echo".to_string(), builtin::echo())].into(),
        versions: [("echo".to_string(), request.version.clone())].into(),
        absent: subjects.absent,
    };
    for (configured, version) in subjects.found {
        offer.versions.extend(version.map(|version| (configured.name.clone(), version)));
        offer.definitions.insert(configured.name, configured.definition);
    }
    let mut layout = cells::lay_out(study, &offer)?;
    layout.skipped.extend(subjects.without_version);
    let mut missing = BTreeSet::new();
    if offer.players.is_none() {
        missing = leave_out_lacking(&mut layout.cells, &definitions, &mut layout.skipped);
        leave_out_unset(&mut layout.cells, &mut layout.skipped);
        open_files::leave_out(&mut layout.cells, &mut layout.skipped);
    }
    layout.skipped.extend(profile::mark(&mut layout.cells, request.profile, request.hosts.is_some()));
    layout.skipped.extend(residence::mark(&mut layout.cells, false, can_stamp.as_ref()));
    for cell in &mut layout.cells {
        let dataset = cell.factors.dataset();
        if dataset.recipe.is_none() && dataset.records.is_none() && dataset.internet.is_none() {
            cell.factors.set_records(request.records);
        }
    }
    if !layout.cells.iter().any(|cell| cell.role == Role::Subject) {
        let reasons = layout.skipped.iter().map(|(what, why)| format!("{what}: {why}"));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        return Err(LabError::NothingToMeasure { reasons, missing });
    }
    let spending = budget::plan_study(
        request.budget_s,
        study.repetitions,
        study.goal(),
        &layout.cells,
        can_count_reasons(request),
        request.hosts.is_some(),
    );
    enough(request, &spending)?;
    Ok(LaidOut {
        cells: layout.cells,
        skipped: layout.skipped,
        question: Some(layout.question),
        definitions,
        spending,
        missing,
    })
}

/// Leaves out cells whose settings need a program that this host lacks. Returns the packages that have these programs.
fn leave_out_lacking(
    cells: &mut Vec<Cell>,
    definitions: &BTreeMap<String, Definition>,
    skipped: &mut BTreeMap<String, String>,
) -> BTreeSet<String> {
    let mut missing = BTreeSet::new();
    cells.retain(|cell| match packages::lacking(cell, definitions) {
        Some(Need { program, package }) => {
            let error = StartError::Missing { program: program.clone(), package: Some(package.clone()) };
            skipped.insert(cell.name.clone(), error.to_string());
            missing.insert(package.clone());
            false
        }
        None => true,
    });
    missing
}

/// Leaves out cells that ask for settings which this host does not have, with the reason.
fn leave_out_unset(cells: &mut Vec<Cell>, skipped: &mut BTreeMap<String, String>) {
    cells.retain(|cell| match host_settings::why_not(cell) {
        Some(reason) => {
            skipped.insert(cell.name.clone(), reason);
            false
        }
        None => true,
    });
}

/// The run before its first trial, on this host or over `hosts`.
pub(crate) fn new_run(request: &RunRequest, laid_out: &LaidOut, hosts: Option<&controller::Session>) -> Run {
    Run {
        schema: kqps_observation::SCHEMA,
        study: request.study.as_ref().map_or(study::NAME, |study| &study.name).into(),
        question: laid_out.question.clone(),
        command: request.command.clone(),
        started_unix_ms: unix_ms(),
        kqps_version: request.version.clone(),
        // Without a budget from the user, a long plan gets the time that it needs.
        budget_s: request
            .budget_s
            .or(request.study.is_none().then_some(BUDGET_S.max(laid_out.spending.estimate_s.ceil()))),
        goal: laid_out.spending.goal.into(),
        goal_facts: laid_out.spending.goal.parse::<Preset>().ok().map(|preset| {
            let loss = request.study.as_ref().and_then(StudyFile::loss);
            let goal = preset.goal();
            judge::facts_of(&Goal { loss: loss.unwrap_or(goal.loss), ..goal })
        }),
        blocks: laid_out.spending.blocks,
        seed: request.seed,
        fingerprint: if hosts.is_some() { fingerprint::read() } else { of_this_host(laid_out) },
        hosts: hosts.map_or_else(Vec::new, controller::Session::facts),
        skipped: laid_out.skipped.clone(),
        cells: laid_out.cells.clone(),
        ..Run::default()
    }
}

/// The facts of this host, with the programs of the subjects.
fn of_this_host(laid_out: &LaidOut) -> Fingerprint {
    let mut fingerprint = fingerprint::read();
    for definition in laid_out.definitions.values() {
        let version = laid_out.cells.iter().find(|cell| cell.subject == definition.name);
        let version = version.and_then(|cell| cell.version.as_deref());
        fingerprint.binaries.extend(programs::facts_of(&definition.programs, version));
    }
    fingerprint
}

#[cfg(test)]
mod tests {
    use kqps_testbed::player_hosts::PlayerHost;

    use super::*;

    #[test]
    fn a_capture_is_played_by_one_player_or_left_out_with_the_reason() {
        let cell = |name: &str, players: &str, file: Option<&str>| {
            let mut cell = Cell { name: name.into(), ..Cell::default() };
            cell.factors.set("hosts.players", players).unwrap();
            if let Some(file) = file {
                cell.factors.set_file(file);
            }
            cell
        };
        let player = |name: &str| PlayerHost { name: name.into(), ..PlayerHost::default() };
        let hosts = PlayerHosts { players: ["p1", "p2"].map(player).into(), ..PlayerHosts::default() };
        let cells = vec![
            cell("by one", "1", Some("day.pcap")),
            cell("by two", "2", Some("day.pcap")),
            cell("made", "2", None),
        ];
        let mut layout = study::Layout { cells, ..study::Layout::default() };
        leave_out_shared(&hosts, &mut layout);
        let names: Vec<&str> = layout.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["by one", "made"]);
        assert_eq!(layout.skipped, [("by two".to_owned(), SHARED_REPLAY.to_owned())].into());
    }

    #[test]
    fn only_a_capture_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("queries.txt");
        std::fs::write(&text, "a.example. A\n").unwrap();
        let none = folder.path().join("none");
        assert!(!is_capture(Some(&text)) && !is_capture(None) && !is_capture(Some(&none)));
    }
}
