//! The real thing behind a cell: its subject, started afresh, and a player that is aimed at it.

use std::collections::BTreeMap;
use std::path::Path;

use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process;
use kqps_observation::Cell;
use kqps_observation::question::Path as Kind;
use kqps_observation::run::Purpose;

use crate::conduct::{NoTrial, Play};
use crate::folder::Folder;
use crate::materials::{Materials, NAMES_FACTOR, Wanted};
use crate::path::LaidPath;
use crate::player::Player;
use crate::setup::Setup;
use crate::subject::definition::ReadyKind;
use crate::subject::{Definition, Setting, StartError, Subject};

/// What is needed to start the subject of any cell.
pub(crate) struct Rig<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) cells: Vec<Cell>,
    /// What the path of a cell is that says nothing of its own.
    pub(crate) path: Kind,
    pub(crate) materials: &'a BTreeMap<Wanted, Materials>,
    pub(crate) definitions: &'a BTreeMap<String, Definition>,
    pub(crate) kqps: &'a Path,
    pub(crate) interrupts: &'a Interrupts,
}

impl Rig<'_> {
    pub(crate) fn start(&self, cell: usize, start: u64) -> Result<Play<'_>, NoTrial> {
        if self.interrupts.is_asked() {
            return Err(NoTrial::Interrupted);
        }
        let cell = &self.cells[cell];
        let definition = &self.definitions[&cell.subject];
        let path = LaidPath::of(self.path, cell)
            .map_err(|error| NoTrial::Failed { reason: error.to_string(), output: Vec::new() })?;
        let materials = &self.materials[&Wanted::of(&cell.factors)];
        let setting = Setting {
            path: &path,
            folder: &self.folder.work(&cell.subject, start),
            zones: &materials.zones,
            kqps: self.kqps,
            io: &cell.io,
            workers: cell.workers,
            cpus: &cell.subject_cpus,
            settings: &definition.settings_among(&cell.factors),
        };
        let subject = Subject::start(definition, &setting, self.interrupts).map_err(|error| match error {
            StartError::Interrupted => NoTrial::Interrupted,
            other => NoTrial::Failed { reason: other.to_string(), output: other.output().to_vec() },
        })?;
        if let Some(niceness) = cell.factors.get(NICE_FACTOR) {
            renice(subject.pid(), niceness)
                .map_err(|reason| NoTrial::Failed { reason, output: Vec::new() })?;
        }
        // Whoever answers anything, as an echo does, cannot be held to the zone's rcodes.
        let queries = match definition.ready.kind {
            _ if cell.factors.get(NAMES_FACTOR).is_some_and(|names| names == "one") => &materials.one,
            ReadyKind::Soa => &materials.queries,
            ReadyKind::Reply => &materials.plain,
        };
        let (kqps, interrupts) = (self.kqps, self.interrupts);
        let (targets, subject_pid, ready_s) =
            (subject.addresses().to_vec(), subject.pid(), subject.ready_s());
        let mut running = Running(Some(subject));
        Ok(Box::new(move |load| {
            let player = Player {
                kqps,
                path: &path,
                targets: &targets,
                queries,
                setup: Setup::of(cell),
                cpus: &cell.player_cpus,
                subject_pid,
                subject_cpus: &cell.subject_cpus,
                interrupts,
            };
            let played = player.play(load).map(|mut trial| {
                if let Some(facts) = &mut trial.subject {
                    facts.ready_s = Some(ready_s);
                }
                trial
            });
            if let (Purpose::WarmUp, Some(subject)) = (load.purpose, &running.0) {
                let unbound = |error| format!("it cannot be confined to its cores: {error}");
                let failed = |reason| NoTrial::Failed { reason, output: Vec::new() };
                subject.confine().map_err(unbound).map_err(failed)?;
            }
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

/// The factor of a subject's niceness, a setting of the host that ends with its processes.
pub(crate) const NICE_FACTOR: &str = "host.nice";

/// The niceness that a word means (setpriority(2)), or what was expected.
pub(crate) fn niceness(word: &str) -> Result<i32, String> {
    let number = word.parse().ok().filter(|number| (-20..=19).contains(number));
    number.ok_or_else(|| format!("factor `{NICE_FACTOR}`: expected a number from -20 to 19, found `{word}`"))
}

fn renice(pid: u32, word: &str) -> Result<(), String> {
    let set = |number| process::set_group_niceness(pid, number).map_err(|error| error.to_string());
    niceness(word).and_then(set).map_err(|reason| format!("{NICE_FACTOR} = {word}: {reason}"))
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
