//! The real subject of a cell, started afresh, and a player with it as its target.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::limits;
use kqps_kernel::local_address::is_local;
use kqps_observation::factors::Names;
use kqps_observation::question::Path as Kind;
use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Cell, Trial, UpstreamFacts};
use kqps_tls::TlsError;
use kqps_tuning::Held;
use kqps_verdict::silence::silence;
use kqps_verdict::steady::begins_cold;

use crate::gauged::{Cores, Gauges};
use kqps_remote::controller;
use kqps_testbed::attack::CellAttack;
use kqps_testbed::cell_event::{CellEvent, StagedEvent};
use kqps_testbed::certificates::{Certificates, ServerCertificate, certificate_of};
use kqps_testbed::folder::Folder;
use kqps_testbed::host_settings::{CellChanges, HostSettings, Release};
use kqps_testbed::internet;
use kqps_testbed::internet::running::{BoxSetting, InternetBox};
use kqps_testbed::live_sink::LiveSink;
use kqps_testbed::materials::{Materials, MaterialsSpec, QueriesKind};
use kqps_testbed::path::LaidPath;
use kqps_testbed::patience::Patience;
use kqps_testbed::player::Player;
use kqps_testbed::player_setup::PlayerSetup;
use kqps_testbed::primary::Primary;
use kqps_testbed::started::{Play, RunningSubject};
use kqps_testbed::subject::definition::ReadyKind;
use kqps_testbed::subject::{Definition, LaunchSetting, Over, StartError, Subject};
use kqps_testbed::trial_request::{NoTrial, RequestedPace, TrialRequest, was_tried};

/// Why a study attacks no server on another host.
const ELSEWHERE: &str = "a study attacks only servers on this host; for a server of your own on another host, kqps find \
                         --scenario takes --yes-attack";

/// Everything that is needed to start the subject of any cell.
pub(crate) struct SubjectLauncher<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) cells: Vec<Cell>,
    /// The path of a cell that names none.
    pub(crate) path: Kind,
    /// The seed of the run.
    pub(crate) seed: u64,
    pub(crate) materials: &'a BTreeMap<MaterialsSpec, Materials>,
    pub(crate) definitions: &'a BTreeMap<String, Definition>,
    /// The certificates of subjects that are started; `None` if none needs one.
    pub(crate) certificates: Option<&'a Certificates>,
    /// The issuers that the user trusts, as PEM, for servers that run already.
    pub(crate) trusted: Option<&'a str>,
    pub(crate) kqps: &'a Path,
    pub(crate) interrupts: &'a Interrupts,
    /// The reference speeds of the cores that play trials.
    pub(crate) gauges: Gauges,
    /// The hosts of subjects and players; `None` if all is done on this host.
    pub(crate) hosts: Option<&'a controller::Session>,
    /// The receiver of the counts of trials while they are played; `None` if there is none.
    pub(crate) live: Option<&'a LiveSink>,
    /// The settings of this host that cells ask for.
    pub(crate) settings: HostSettings<'a>,
}

impl SubjectLauncher<'_> {
    pub(crate) fn start(&self, cell: usize, start: u64, patience: Patience) -> Result<Play<'_>, NoTrial> {
        if self.interrupts.is_asked() {
            return Err(NoTrial::Interrupted);
        }
        let cell = &self.cells[cell];
        match (cell.target, self.hosts) {
            (Some(target), _) => Ok(self.at_running(cell, target.address, patience)),
            (None, None) => self.at_started(cell, start, patience),
            (None, Some(hosts)) => self.at_hosts(hosts, cell, start, patience),
        }
    }

    /// Starts the subject of a cell on its host, for trials that other hosts play. They are not gauged.
    fn at_hosts<'b>(
        &'b self,
        hosts: &'b controller::Session,
        cell: &'b Cell,
        start: u64,
        patience: Patience,
    ) -> Result<Play<'b>, NoTrial> {
        let definition = &self.definitions[&cell.subject];
        let materials = &self.materials[&MaterialsSpec::of_cell(cell, self.definitions)];
        let (queries, checks) = asked(cell, definition, materials);
        hosts.start(controller::Start {
            cell,
            definition,
            number: start,
            queries,
            checks,
            certificate: self.certificate(cell),
            patience,
            interrupts: self.interrupts,
        })
    }

    /// Plays at a server that already runs, over the kernel's loopback or the network.
    fn at_running<'b>(&'b self, cell: &'b Cell, address: SocketAddr, patience: Patience) -> Play<'b> {
        let materials = &self.materials[&MaterialsSpec::of_cell(cell, self.definitions)];
        Box::new(move |request: &TrialRequest| {
            if cell.factors.scenario().is_some() && !is_local(address) {
                return Err(NoTrial::failed(ELSEWHERE.into()));
            }
            let player = Player {
                kqps: self.kqps,
                path: &LaidPath::Loopback,
                targets: &[address],
                is_allowed: true,
                queries: &materials.queries,
                first_query: 0,
                // An echo answers NOERROR to every query, whatever the file expects.
                checks: cell.role == Role::Subject,
                setup: PlayerSetup::from_cell(cell),
                attack: CellAttack::from_cell(cell),
                ca: self.trusted,
                cpus: &cell.player_cpus,
                subject_pid: None,
                subject_cpus: &cell.subject_cpus,
                interrupts: self.interrupts,
                live: self.live,
                spare: patience.for_trial(),
            };
            let trial = self.gauged(cell, &[], request, |played| player.play(request, played, None))?;
            match silence(&trial).filter(|_| was_tried(&trial)) {
                Some(why) => Err(NoTrial::failed(why)),
                None => Ok(trial),
            }
        })
    }

    /// Starts the subject of a cell, for trials.
    fn at_started<'b>(&'b self, cell: &'b Cell, start: u64, patience: Patience) -> Result<Play<'b>, NoTrial> {
        let definition = &self.definitions[&cell.subject];
        let folder = self.folder.work(&cell.subject, start);
        let path = self.lay_path(cell, &folder, patience)?;
        let wanted = CellChanges::from_cell(cell, &path).map_err(NoTrial::failed)?;
        let on_path = self.settings.set_on_path(&wanted, &path).map_err(NoTrial::failed)?;
        let release = Release { settings: &self.settings, changes: wanted.of_host };
        self.settings.have(&release.changes).map_err(NoTrial::failed)?;
        let materials = &self.materials[&MaterialsSpec::of_cell(cell, self.definitions)];
        let mut event = CellEvent::from_cell(cell);
        let own_zones = event.as_mut().map(|event| event.own_zones(&materials.zones, &folder)).transpose();
        let mut own_zones =
            own_zones.map_err(|error| NoTrial::failed(format!("a copy of its zone: {error}")))?;
        let primary = match (&event, materials.zones.first()) {
            (Some(event), Some(zone)) if event.needs_primary() => {
                let place = (&path, &*folder, self.kqps);
                Some(
                    Primary::start(zone, place, self.interrupts, patience.for_start())
                        .map_err(not_started)?,
                )
            }
            _ => None,
        };
        if let (Some(primary), Some(first)) = (&primary, own_zones.iter_mut().flatten().next()) {
            first.primary = Some(primary.port());
        }
        let setting = LaunchSetting {
            path: &path,
            folder: &folder,
            zones: own_zones.as_deref().unwrap_or(&materials.zones),
            kqps: self.kqps,
            io: &cell.io,
            workers: cell.workers,
            cpus: &cell.subject_cpus,
            settings: &definition.settings_among(cell.factors.words()),
        };
        let over = self.over(cell);
        if over.transport.has_connections() {
            // Subjects inherit the limit, and each connection is a file. If it stays, some attempts fail.
            let _ = limits::raise_open_files();
        }
        let subject = Subject::start_over(over, definition, &setting, self.interrupts, patience.for_start());
        let subject = subject.map_err(not_started)?;
        if let Some(niceness) = cell.factors.niceness() {
            subject.set_niceness(niceness).map_err(NoTrial::failed)?;
        }
        let (kind, checks) = asked(cell, definition, materials);
        let queries = materials.path_of(kind);
        Ok(Box::new(AtStarted {
            launcher: self,
            cell,
            queries,
            checks,
            asked: 0,
            had_event: false,
            subject: Stopped(Some(subject), patience),
            primary,
            path,
            event,
            _on_path: on_path,
            release,
        }))
    }

    /// The path of a cell, with the Internet in a box that its subject resolves in, if it does.
    fn lay_path(&self, cell: &Cell, folder: &Path, patience: Patience) -> Result<LaidPath, NoTrial> {
        let share = patience.for_start();
        let setting = BoxSetting { kqps: self.kqps, folder, seed: self.seed, share };
        match InternetBox::start(cell, &setting, self.interrupts).map_err(not_started)? {
            Some(internet) => Ok(LaidPath::Internet(Box::new(internet))),
            None => LaidPath::new(self.path, cell).map_err(|error| NoTrial::failed(error.to_string())),
        }
    }

    /// The transport to the subject of a cell, and its certificate.
    fn over(&self, cell: &Cell) -> Over<'_> {
        let transport = cell.factors.transport();
        Over { transport, certificate: self.certificate(cell) }
    }

    fn certificate(&self, cell: &Cell) -> Option<&ServerCertificate> {
        self.certificates?.certificate(certificate_of(cell))
    }

    /// Plays a load, scaled to the present speed of the cell's cores. Warm-ups, and trials that only explain others,
    /// give no figure, so they are not gauged.
    fn gauged(
        &self,
        cell: &Cell,
        subject_pids: &[u32],
        request: &TrialRequest,
        play: impl FnOnce(&TrialRequest) -> Result<Trial, NoTrial>,
    ) -> Result<Trial, NoTrial> {
        let gives_figure = request.purpose != Purpose::WarmUp && !request.purpose.is_extra();
        match Cores::of_cell(cell).filter(|_| gives_figure) {
            Some(cores) => self.gauges.play(&cores, subject_pids, request, play),
            None => play(request),
        }
    }
}

/// A subject that was started, with the queries for it.
struct AtStarted<'a> {
    launcher: &'a SubjectLauncher<'a>,
    cell: &'a Cell,
    queries: &'a Path,
    checks: bool,
    /// Queries that were sent to it so far.
    asked: u64,
    /// Whether its event happened.
    had_event: bool,
    subject: Stopped,
    /// The primary from which it transfers its zone in, if it does, which stops after it.
    primary: Option<Primary>,
    /// As the settings below, it ends when the subject has stopped.
    path: LaidPath,
    event: Option<CellEvent>,
    /// The settings of the path's namespaces. As the next one, they are undone when the subject has stopped.
    _on_path: Vec<Held>,
    /// The settings of this host, which another subject may have changed since the last trial.
    release: Release<'a>,
}

impl RunningSubject for AtStarted<'_> {
    fn play(&mut self, request: &TrialRequest) -> Result<Trial, NoTrial> {
        self.launcher.settings.have(&self.release.changes).map_err(NoTrial::failed)?;
        if let Some(reason) = self.is_used_up(request) {
            return Err(NoTrial::Lost { reason: reason.into() });
        }
        let first_query = self.first_query();
        let Some(subject) = &mut self.subject.0 else { return Err(NoTrial::failed("it was stopped".into())) };
        let player = Player {
            kqps: self.launcher.kqps,
            path: &self.path,
            targets: subject.addresses(),
            is_allowed: false,
            queries: self.queries,
            first_query,
            checks: self.checks,
            setup: PlayerSetup::from_cell(self.cell),
            attack: CellAttack::from_cell(self.cell),
            ca: self.launcher.certificate(self.cell).map(|certificate| certificate.ca.as_str()),
            cpus: &self.cell.player_cpus,
            subject_pid: Some(subject.pid()),
            subject_cpus: &self.cell.subject_cpus,
            interrupts: self.launcher.interrupts,
            live: self.launcher.live,
            spare: self.subject.1.for_trial(),
        };
        let beside = self.path.internet().and_then(InternetBox::pid_beside_subject);
        let pids: Vec<u32> = std::iter::once(subject.pid()).chain(beside).collect();
        let placed = subject.placed(&self.path);
        let primary = self.primary.as_ref();
        let of_event = |event| Ok(StagedEvent { event, stage: placed.stage()?, primary });
        let staged = self.event.as_ref().map(of_event).transpose();
        let staged = staged.map_err(|error: TlsError| NoTrial::failed(error.to_string()))?;
        self.had_event |= StagedEvent::is_in(request);
        let play = |played: &TrialRequest| player.play(request, played, staged.as_ref());
        let before = upstream(&self.path)?;
        let mut played = self.launcher.gauged(self.cell, &pids, request, play);
        if let Ok(trial) = &mut played {
            if let Some(facts) = &mut trial.subject {
                facts.ready_s = Some(subject.ready_s());
            }
            trial.upstream = upstream(&self.path)?.zip(before).map(|(now, before)| now.since(&before));
            self.asked += trial.accounts.intended;
        }
        if request.purpose == Purpose::WarmUp {
            let unbound = |error| format!("it cannot be confined to its cores: {error}");
            subject.confine().map_err(unbound).map_err(NoTrial::failed)?;
        }
        match subject.ended() {
            // A trial during which the subject died is no measurement.
            Some((reason, output)) if !matches!(played, Err(NoTrial::Interrupted)) => {
                Err(NoTrial::Failed { reason: format!("{reason} during a trial"), output })
            }
            _ => played,
        }
    }

    fn cpu_s(&self) -> Option<f64> {
        self.subject.0.as_ref().map(|subject| kqps_host::cpu_s_so_far(subject.pid()))
    }
}

impl AtStarted<'_> {
    /// Queries of the file that each thread of the player leaves out. A resolver keeps answers, so each load goes on where the
    /// one before it ended.
    fn first_query(&self) -> u64 {
        let senders = u64::from(self.cell.factors.player().senders.unwrap_or(1).max(1));
        // A thread of a closed loop may have sent more than its share.
        let margin = if senders > 1 { self.asked / 4 } else { 0 };
        self.path.internet().map_or(0, |_| (self.asked + margin).div_ceil(senders))
    }

    /// Why the subject must be started anew for this trial; `None` if it need not.
    fn is_used_up(&self, request: &TrialRequest) -> Option<&'static str> {
        if self.had_event && self.event.as_ref().is_some_and(CellEvent::happens_once) {
            return Some("its event has happened, and cannot happen again");
        }
        self.path.internet().filter(|_| self.asked > 0)?;
        let due = match request.pace {
            RequestedPace::Open { rate_qps } => (rate_qps * request.duration_s) as u64,
            RequestedPace::Closed => 0,
        };
        if begins_cold(self.cell) {
            return Some("its cache is cold for one load alone");
        }
        let is_over = self.asked.saturating_add(due) > internet::QUERIES;
        is_over.then_some("its clients have asked all their names")
    }
}

/// The queries that came to the servers of an Internet in a box so far; `None` on other paths.
fn upstream(path: &LaidPath) -> Result<Option<UpstreamFacts>, NoTrial> {
    let counts = path.internet().map(InternetBox::upstream).transpose();
    counts.map_err(|error| NoTrial::failed(format!("the counts of the Internet in a box: {error}")))
}

fn not_started(error: StartError) -> NoTrial {
    match error {
        StartError::Interrupted => NoTrial::Interrupted,
        other => NoTrial::Failed { reason: other.to_string(), output: other.output().to_vec() },
    }
}

/// The queries of a cell, and whether answers are checked against their expectations. A subject that may answer
/// anything, such as an echo, gets queries without expectations. With the user's query file, only an echo is
/// not checked.
fn asked(cell: &Cell, definition: &Definition, materials: &Materials) -> (QueriesKind, bool) {
    let queries = match definition.ready.kind {
        _ if cell.factors.dataset().names == Some(Names::One) => QueriesKind::One,
        ReadyKind::Soa => QueriesKind::Expecting,
        ReadyKind::Reply => QueriesKind::Plain,
    };
    (queries, !(materials.is_file && definition.is_echo()))
}

/// A subject that is stopped when it is dropped, as its definition says and within the time that is left for
/// it.
struct Stopped(Option<Subject>, Patience);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(subject) = self.0.take() {
            subject.stop_within(self.1.for_stop());
        }
    }
}
