//! A run from its beginning, or from where it was interrupted: its folder, its store, and the players and
//! subjects of its cells.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kqps_kernel::interrupts::Interrupts;
use kqps_observation::question::Path as Kind;
use kqps_observation::secret;
use kqps_observation::store::StoreError;
use kqps_observation::{Cell, Run, RunHost, Store};
use kqps_verdict::judge;
use kqps_verdict::search::Goal;

use crate::budget::{Clock, Spending};
use crate::claim::claim;
use crate::clock::unix_ms;
use crate::conduct::{Conducted, Conductor, Event, Hosts};
use crate::error::LabError;
use crate::gauged::Gauges;
use crate::layout::{LaidOut, lay_out, lay_out_on, new_run};
use crate::record;
use crate::request::RunRequest;
use crate::search_run;
use crate::subject_launcher::SubjectLauncher;
use kqps_remote::controller::{self, hosts_copy};
use kqps_testbed::certificates::Certificates;
use kqps_testbed::folder::{Folder, store_in};
use kqps_testbed::host_settings::HostSettings;
use kqps_testbed::live_sink::LiveSink;
use kqps_testbed::materials::{Materials, MaterialsSpec};
use kqps_testbed::packages;
use kqps_testbed::patience::Patience;
use kqps_testbed::site::Site;
use kqps_testbed::subject::Definition;
use kqps_testbed::subject::remains;

/// The Debian packages of programs that the cells of a run need and this host lacks, each once.
///
/// # Errors
///
/// A budget that is too short even for the present subjects, and other errors that no package mends.
pub fn missing_packages(request: &RunRequest) -> Result<Vec<String>, LabError> {
    let definitions: Vec<Definition> = request.subjects.iter().map(|one| one.definition.clone()).collect();
    let mut missing = packages::missing(&definitions);
    let has_needs = |definition: &Definition| definition.settings.values().any(|one| !one.needs.is_empty());
    if missing.is_empty() && !definitions.iter().any(has_needs) {
        return Ok(missing);
    }
    let further = match lay_out(request) {
        Ok(LaidOut { missing, .. }) | Err(LabError::NothingToMeasure { missing, .. }) => missing,
        Err(error) => return Err(error),
    };
    for package in further {
        if !missing.contains(&package) {
            missing.push(package);
        }
    }
    Ok(missing)
}

/// Finds out whether a folder is taken, before anything is done for a new run.
pub fn check_folder(folder: &Path) -> Result<(), LabError> {
    if folder.exists() {
        claim(folder)?;
    }
    Ok(())
}

/// A run that can be conducted.
#[derive(Debug)]
pub struct Session {
    folder: Folder,
    store: Store,
    run: Run,
    goal: Goal,
    kqps: PathBuf,
    materials: BTreeMap<MaterialsSpec, Materials>,
    definitions: BTreeMap<String, Definition>,
    clock: Option<(Clock, Instant)>,
    /// The hosts of subjects and players; `None` if all is done on this host.
    hosts: Option<controller::Session>,
    /// The receiver of the counts of trials while they are played; `None` if there is none.
    live: Option<LiveSink>,
}

impl Session {
    /// Lays out a new run, generates its zones and queries, and makes its store. `began` is when its budget
    /// began.
    pub fn begin(request: &RunRequest, began: Instant) -> Result<(Self, Spending), LabError> {
        let open = |hosts| controller::Session::open(hosts, request.budget_s);
        let hosts = request.hosts.as_ref().map(open).transpose()?;
        let laid_out =
            lay_out_on(request, hosts.as_ref().map_or_else(Site::here, controller::Session::site))?;
        let (folder, claim) = claim(&request.folder)?;
        for definition in laid_out.definitions.values() {
            folder.write(&folder.definition(&definition.name), definition.kept_text().as_bytes())?;
        }
        if let Some(queries) = &request.queries {
            Materials::keep(&folder, queries)?;
        }
        folder.keep_trusted(request.ca.as_deref())?;
        if let Some(hosts) = &request.hosts {
            hosts_copy::write(folder.path(), hosts)?;
        }
        let run = new_run(request, &laid_out, hosts.as_ref());
        let deadline = run.budget_s.map(|budget_s| began + Duration::from_secs_f64(budget_s));
        let materials = match &hosts {
            None => {
                let cells = (&*laid_out.cells, &laid_out.definitions);
                Materials::of_all(&folder, cells, request.seed, deadline)?
            }
            Some(_) => controller::queries_of_all(&folder, &laid_out.cells, request.seed)?,
        };
        if let Some(hosts) = &hosts {
            hosts.make(&materials, request.seed)?;
        }
        // The text of a study can be run again; the default study has none.
        let text =
            request.study.as_ref().map_or_else(|| record::study_text(&run), |study| study.text.clone());
        folder.write(&folder.study(), text.as_bytes())?;
        let store = claim.create(&run)?;
        let LaidOut { definitions, spending, .. } = laid_out;
        let clock = run.budget_s.map(|budget_s| (Clock::new(budget_s), began));
        let session = Self {
            goal: goal_of(&run)?,
            folder,
            store,
            run,
            kqps: request.kqps.clone(),
            materials,
            definitions,
            clock,
            hosts,
            live: None,
        };
        Ok((session, spending))
    }

    /// Opens a run to resume it. Its plan is the one in the store.
    pub fn resume(folder: &Path, kqps: PathBuf) -> Result<Self, LabError> {
        Self::resume_with(folder, kqps, &BTreeMap::new())
    }

    /// As [`Self::resume`], with definitions that are known already: those in the folder have no secrets.
    pub(crate) fn resume_with(
        folder: &Path,
        kqps: PathBuf,
        known: &BTreeMap<String, Definition>,
    ) -> Result<Self, LabError> {
        store_in(folder)?;
        let folder = Folder::open(folder)?;
        let store = Store::open(&folder.store())?;
        // The lock on the store shows that no other kqps conducts this run, so these processes are left over.
        remains::end_all_under(folder.path());
        let run = store.run()?;
        if run.study == search_run::NAME {
            return Err(LabError::Search { path: folder.path().into() });
        }
        let hosts = controller::Session::of_run(&folder, &run)?;
        let mut definitions = BTreeMap::new();
        for cell in run.cells.iter().filter(|cell| cell.target.is_none()) {
            let definition = match known.get(&cell.subject) {
                Some(definition) => definition.clone(),
                None => Definition::open(&folder.definition(&cell.subject))?,
            };
            if secret::is_masked(&definition.text) {
                let path = folder.definition(&cell.subject);
                return Err(LabError::Secret { path, subject: cell.subject.clone() });
            }
            definitions.insert(cell.subject.clone(), definition);
        }
        let materials = match &hosts {
            None => Materials::of_all(&folder, (&run.cells, &definitions), run.seed, None)?,
            Some(_) => controller::queries_of_all(&folder, &run.cells, run.seed)?,
        };
        if let Some(hosts) = &hosts {
            hosts.make(&materials, run.seed)?;
        }
        Ok(Self {
            goal: goal_of(&run)?,
            folder,
            store,
            run,
            kqps,
            materials,
            definitions,
            clock: None,
            hosts,
            live: None,
        })
    }

    /// Why trials last longer than the study asks for, as a sentence without its full stop; `None` if they do not.
    pub fn why_longer(&self) -> Option<String> {
        self.hosts.as_ref()?.why_longer()
    }

    /// Sets the clock of the budget, and when it began, if the run has one.
    pub(crate) fn since(self, began: Instant, clock: impl Fn(f64) -> Clock) -> Self {
        let clock = self.run.budget_s.map(|budget_s| (clock(budget_s), began));
        Self { clock, ..self }
    }

    /// The run with all trials so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The folder of the run.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Makes all trials that are missing. The first of the `interrupts` ends the run in order; the second kills
    /// the trial and its subject.
    pub fn conduct(
        &mut self,
        interrupts: &Interrupts,
        report: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Conducted, LabError> {
        if self.run.finished_unix_ms.is_some() {
            return Ok(Conducted::Whole);
        }
        let elsewhere: Vec<IpAddr> = self.hosts.iter().map(controller::Session::server_address).collect();
        let certificates = Certificates::of_cells(&self.run.cells, &elsewhere)?;
        let trusted = self.folder.read_trusted()?;
        let launcher = SubjectLauncher {
            folder: &self.folder,
            cells: self.run.cells.clone(),
            path: self.run.question.as_ref().map_or(Kind::default(), |question| question.path),
            seed: self.run.seed,
            materials: &self.materials,
            definitions: &self.definitions,
            certificates: certificates.as_ref(),
            trusted: trusted.as_deref(),
            kqps: &self.kqps,
            interrupts,
            gauges: Gauges::of_trials(&self.run.cells, &self.run.trials),
            hosts: self.hosts.as_ref(),
            live: self.live.as_ref(),
            settings: HostSettings::new(&self.kqps),
        };
        let (mut cells, mut of_run) = (self.run.cells.clone(), self.run.hosts.clone());
        let mut start = |cell: usize, start: u64, patience: Patience| {
            let started = launcher.start(cell, start, patience);
            // So that a run which is killed has it. What could not be stored is stored at the end of the run.
            let _ = keep_reports(&self.store, self.hosts.as_ref(), &mut cells, &mut of_run);
            started
        };
        let (goal, clock) = (self.goal.clone(), self.clock);
        let reasons = match &self.hosts {
            None => kqps_kernel::probe::probe_one("drop-reasons"),
            Some(_) => Err("they are counted if player and subject are on one host".into()),
        };
        let reached = Reached { hosts: self.hosts.as_ref(), interrupts };
        let (store, hosts) = (&self.store, &reached);
        let away = Duration::ZERO;
        let mut conductor = Conductor { store, goal, clock, reasons, start: &mut start, hosts, away, report };
        let conducted = conductor.conduct(&mut self.run)?;
        keep_reports(&self.store, self.hosts.as_ref(), &mut self.run.cells, &mut self.run.hosts)?;
        let mut notes = launcher.settings.notes();
        if let Some(hosts) = &self.hosts {
            notes.extend(hosts.notes(&self.run.hosts));
        }
        for (what, why) in notes {
            self.store.add_skipped(&what, &why)?;
            self.run.skipped.insert(what, why);
        }
        if conducted == Conducted::Whole {
            let now = unix_ms();
            self.store.finish(now)?;
            self.run.finished_unix_ms = Some(now);
        }
        Ok(conducted)
    }

    /// Has lines printed while the run goes on: those about void trials over several hosts.
    pub fn print_by(&mut self, print: impl Fn(&str) + 'static) {
        if let Some(hosts) = &mut self.hosts {
            hosts.print = Box::new(print);
        }
    }

    /// Has the counts of trials passed on while this host plays them. Trials that other hosts play pass on nothing.
    pub fn live_by(&mut self, live: LiveSink) {
        self.live = Some(live);
    }

    /// The goal of the run's searches.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Why a run ended early although the user did not end it: a host was lost, and could not be reached again. `None`
    /// otherwise.
    pub fn unreachable(&self) -> Option<String> {
        self.hosts.as_ref()?.unreachable()
    }
}

/// The hosts of a run while it is conducted.
struct Reached<'a> {
    /// `None` if all is done on this host.
    hosts: Option<&'a controller::Session>,
    interrupts: &'a Interrupts,
}

impl Hosts for Reached<'_> {
    fn reach(&self) -> bool {
        self.hosts.is_none_or(|hosts| hosts.reach(self.interrupts))
    }

    fn take_away_time(&self) -> Duration {
        self.hosts.map_or(Duration::ZERO, controller::Session::take_away_time)
    }
}

/// Stores what subjects on another host reported when they were started, in the cells and the hosts of their run.
fn keep_reports(
    store: &Store,
    hosts: Option<&controller::Session>,
    cells: &mut [Cell],
    of_run: &mut [RunHost],
) -> Result<(), StoreError> {
    let Some(hosts) = hosts else { return Ok(()) };
    let completed = hosts.reports().complete(cells, of_run);
    for number in completed.cells {
        store.set_cell(number, &cells[number])?;
    }
    if completed.has_hosts {
        store.set_hosts(of_run)?;
    }
    Ok(())
}

fn goal_of(run: &Run) -> Result<Goal, LabError> {
    judge::goal_of(run).filter(|goal| goal.check().is_ok()).ok_or_else(|| LabError::Goal(run.goal.clone()))
}
