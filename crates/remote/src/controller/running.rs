//! A subject that runs on its host, and the trials that other hosts play at it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use kqps_fleet::Host;
use kqps_host::Stamped;
use kqps_host::ledger::across;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::factors::name;
use kqps_observation::merge::{Part, merge};
use kqps_observation::run::Purpose;
use kqps_observation::{Cell, StartFacts, Trial};
use kqps_verdict::silence::silence;

use super::member::{Fault, Member, unexpected};
use super::plan::Shared;
use super::playing::{Attempted, Gone, SHORT, Together, Watched, settings_most};
use super::timing;
use super::trouble::{self, Decision, Trouble, of_player, of_server};
use super::{Members, Session, Start, side_by_side, void};
use crate::agent::certificate::CertificatePem;
use crate::agent::job::{Done, Job, StartRequest};
use kqps_testbed::materials::MaterialsSpec;
use kqps_testbed::play::PlayRequest;
use kqps_testbed::player_hosts::{Players, players_of};
use kqps_testbed::started::RunningSubject;
use kqps_testbed::trial_request::{NoTrial, RequestedPace, TrialRequest, was_tried};

/// The time that a start may take beyond the subject's own limit: asking for its version, and the way there.
const START_SLACK: Duration = Duration::from_secs(30);

/// The time that a stop may take beyond the subject's own limit.
const STOP_SLACK: Duration = Duration::from_secs(10);

/// The interval at which a second interrupt is looked for while a subject stops.
const LOOK: Duration = Duration::from_millis(20);

/// A subject on its host. Dropping it stops the subject, and takes the settings of its cell back.
pub(super) struct Running<'a> {
    session: &'a Session,
    start: Start<'a>,
    players: Players<'a>,
    wanted: MaterialsSpec,
    /// The settings of the subject's host that the cell asks for.
    settings: BTreeMap<String, String>,
    /// Whether its agent has set them for this start.
    has_set: bool,
    /// The number of the link over which the subject was started. It ended with that link.
    generation: u64,
    addresses: Vec<SocketAddr>,
    ready_s: f64,
    /// The numbers of the players that got a reply in this start.
    heard: BTreeSet<usize>,
}

impl<'a> Running<'a> {
    /// Starts the subject of a cell, and waits until it answers.
    pub(super) fn start(session: &'a Session, start: Start<'a>) -> Result<Self, NoTrial> {
        let players =
            players_of(session.site.players.as_ref(), &start.cell.factors).map_err(NoTrial::failed)?;
        let players = players.ok_or_else(|| NoTrial::failed("the run has no hosts to play".into()))?;
        let server_device = session.members.borrow().server.device().map(str::to_owned);
        let mut running = Self {
            session,
            start,
            players,
            wanted: MaterialsSpec::new(start.cell.factors.dataset()),
            settings: settings(start.cell, server_device.as_deref()).map_err(NoTrial::failed)?,
            has_set: false,
            generation: 0,
            addresses: Vec::new(),
            ready_s: 0.0,
            heard: BTreeSet::new(),
        };
        // If this fails, dropping it takes the settings back.
        running.started()?;
        Ok(running)
    }

    fn started(&mut self) -> Result<(), NoTrial> {
        let Start { cell, definition, number, certificate, patience, interrupts, .. } = self.start;
        let session = self.session;
        let mut members = session.members.borrow_mut();
        let server = &mut members.server;
        let name = server.host().name.clone();
        let not_started = |fault: Fault| not_started(session, &name, fault);
        let away = server.away();
        session.reaching(away.as_slice(), || server.reach(interrupts)).map_err(not_started)?;
        self.generation = server.generation();
        if let Some(why) = session.settings.borrow_mut().take_pending() {
            return Err(NoTrial::failed(why));
        }
        if let Some(supplies) = &*session.supplies.borrow() {
            supplies.bring(&self.wanted, server, interrupts).map_err(not_started)?;
        }
        if !self.settings.is_empty() {
            let remarks = set(server, &self.settings, interrupts).map_err(not_started)?;
            session.settings.borrow_mut().remark(&name, remarks);
            self.has_set = true;
        }
        let certificate = certificate.map(CertificatePem::read).transpose();
        let unread =
            |error| NoTrial::failed(format!("reading the certificate of {}: {error}", definition.title));
        let share = patience.for_start();
        let request = StartRequest {
            start: number,
            definition: definition.text.clone(),
            cell: cell.clone(),
            address: session.server_address,
            certificate: certificate.map_err(unread)?,
            within_s: share.map(|share| share.as_secs_f64()),
        };
        let within = share.unwrap_or(definition.ready.within()) + START_SLACK;
        let started = server.call(&Job::Start(Box::new(request)), within, interrupts).map_err(not_started)?;
        let Done::Started { addresses, ready_s, version, programs, .. } = started else {
            return Err(not_started(unexpected()));
        };
        (self.addresses, self.ready_s) = (addresses, ready_s);
        session.reports.borrow_mut().add(&definition.name, version, programs);
        Ok(())
    }

    /// Plays a trial once.
    fn attempt(&mut self, request: &TrialRequest) -> Result<Trial, Trouble> {
        let session = self.session;
        let mut members = session.members.borrow_mut();
        let Members { server, players } = &mut *members;
        let players = &mut players[..self.players.hosts.len()];
        self.get_ready(server, players)?;
        let least_s = timing::least_s(
            server.offset().uncertainty_ns,
            players.iter().map(|player| player.offset().uncertainty_ns),
        );
        let request = &TrialRequest { duration_s: request.duration_s.max(least_s), ..*request };
        let requests = self.requests(request, players)?;
        let late_ns = session.lateness.borrow().late_ns(&self.start.cell.name);
        let stamped = self.stamped(request);
        let together = Together { start: self.start, wanted: &self.wanted, late_ns, stamped };
        together.begin_watch(server).map_err(|fault| of_server(&server.host().name, fault))?;
        let attempted = together.play(server, players, requests, request.duration_s);
        let sent = void::sent(players.iter().map(|player| &player.host().name), &attempted.played);
        let judged = self.judged(attempted, server, players, request.duration_s);
        if let Err(trouble) = &judged
            && let Some(why) = trouble.voids()
            && !self.start.interrupts.is_asked()
        {
            (session.print)(&void::words(&why, &sent));
        }
        judged
    }

    /// Whose packets are stamped in a trial, if any are.
    fn stamped(&self, request: &TrialRequest) -> Option<Stamped> {
        match request {
            TrialRequest { purpose: Purpose::Residence, pace: RequestedPace::Open { rate_qps }, .. } => {
                Some(Stamped::new(&self.addresses, *rate_qps))
            }
            _ => None,
        }
    }

    /// The record of the trial that was attempted, unless a host spoiled it.
    fn judged(
        &mut self,
        attempted: Attempted,
        server: &Member,
        players: &[Member],
        duration_s: f64,
    ) -> Result<Trial, Trouble> {
        let server_name = &server.host().name;
        let Attempted { played, watched, gone } = attempted;
        match gone {
            Some(Gone::Server(fault)) => return Err(of_server(server_name, fault)),
            Some(Gone::Player(number, fault)) => {
                return Err(of_player(&players[number].host().name, fault));
            }
            None => {}
        }
        self.note_lateness(&played, duration_s);
        // If the subject ended, that is why players have no record.
        let Watched { mut seen, late_ns } = watched.map_err(|fault| of_server(server_name, fault))?;
        if late_ns > 0 {
            let what = format!("was read {:.1} ms late by its clock", late_ns as f64 / 1e6);
            return Err(Trouble::Watch { host: server_name.clone(), what });
        }
        seen.host.device = seen.host.device.take().or_else(|| server.device().map(str::to_owned));
        let parts = self.parts(players, played, duration_s)?;
        let merged = merge(parts, Some(seen.into_facts()), across);
        let mut trial = merged.map_err(|error| {
            let reason = format!("the records of the players do not make one trial: {error}");
            Trouble::Subject { reason, output: Vec::new() }
        })?;
        if let Some(facts) = &mut trial.subject {
            facts.ready_s = Some(self.ready_s);
        }
        Ok(trial)
    }

    /// Notes how late players were, so that the next trial of the cell gives them more time or less.
    fn note_lateness(&self, played: &[Result<Trial, Fault>], duration_s: f64) {
        let of_players = played.iter().flatten().filter_map(|trial| trial.late_start_ns);
        let spoiling = of_players.filter(|late_ns| timing::is_late(*late_ns, duration_s));
        let late_ns = spoiling.max();
        let (mut lateness, cell) = (self.session.lateness.borrow_mut(), &self.start.cell.name);
        match late_ns {
            Some(late_ns) => lateness.add(cell, late_ns),
            None => lateness.halve(cell),
        }
    }

    /// Reaches all players and brings them the queries. Then it measures the clocks of all hosts, as late as it can.
    /// The subject is gone if its host was lost since the start, even if that was reached again for another subject.
    fn get_ready(&self, server: &mut Member, players: &mut [Member]) -> Result<(), Trouble> {
        let server_name = server.host().name.clone();
        let of_server = |fault: Fault| of_server(&server_name, fault);
        if let Some(why) = server.lost() {
            return Err(of_server(Fault::Lost(why)));
        }
        if server.generation() != self.generation {
            return Err(of_server(Fault::Lost("its agent was started again".into())));
        }
        let supplies = self.session.supplies.borrow();
        let (supplies, wanted, interrupts) = (supplies.as_ref(), &self.wanted, self.start.interrupts);
        let away: Vec<String> = players.iter().filter_map(Member::away).collect();
        if !away.is_empty() {
            let all: Vec<&mut Member> = players.iter_mut().collect();
            let reach = || side_by_side(all, |player: &mut Member| player.reach(interrupts));
            let reached = self.session.reaching(&away, reach);
            all_of(players, reached)?;
        }
        let ready = side_by_side(players.iter_mut().collect(), |player: &mut Member| {
            supplies.map_or(Ok(()), |supplies| supplies.bring(wanted, player, interrupts))
        });
        all_of(players, ready)?;
        let all: Vec<&mut Member> = players.iter_mut().chain([server]).collect();
        let mut measured = side_by_side(all, Member::measure);
        measured.pop().unwrap_or(Ok(())).map_err(of_server)?;
        all_of(players, measured)
    }

    /// The request to each player.
    fn requests(&self, request: &TrialRequest, players: &[Member]) -> Result<Vec<PlayRequest>, Trouble> {
        let Start { cell, checks, certificate, .. } = self.start;
        let ca = certificate.map(|certificate| certificate.ca.as_str());
        let shared = Shared { cell, targets: &self.addresses, ca, checks };
        let hosts: Vec<&Host> = players.iter().map(Member::host).collect();
        shared
            .of_each(request, &self.players, &hosts)
            .map_err(|reason| Trouble::Subject { reason, output: Vec::new() })
    }

    /// The players' parts of a trial, unless one of them spoils it.
    fn parts(
        &mut self,
        players: &[Member],
        mut played: Vec<Result<Trial, Fault>>,
        duration_s: f64,
    ) -> Result<Vec<Part>, Trouble> {
        if let Some(worst) = trouble::worst(&played)
            && let Err(fault) = played.swap_remove(worst)
        {
            return Err(of_player(&players[worst].host().name, fault));
        }
        let mut parts = Vec::new();
        for (number, (player, trial)) in players.iter().zip(played.into_iter().flatten()).enumerate() {
            self.listen(number, &player.host().name, &trial)?;
            parts.push(part(player, trial, duration_s)?);
        }
        Ok(parts)
    }

    /// A player that never heard anything is at a wrong address, or behind a firewall, and its losses say nothing about
    /// the subject. Once it got a reply, losses are those of the subject, even if they are all of its queries.
    fn listen(&mut self, number: usize, host: &str, trial: &Trial) -> Result<(), Trouble> {
        if !was_tried(trial) || self.heard.contains(&number) {
            return Ok(());
        }
        if let Some(why) = silence(trial) {
            let (host, what) = (host.to_owned(), format!("heard nothing: {why}"));
            // Another start heard something, so this one says something about its subject.
            let is_known = self.session.heard.borrow().contains(&number);
            return Err(if is_known {
                Trouble::Player { host, what, output: Vec::new() }
            } else {
                Trouble::Deaf { host, what }
            });
        }
        self.heard.insert(number);
        self.session.heard.borrow_mut().insert(number);
        Ok(())
    }

    /// Whether its subject can still run: the link over which it was started is the present one.
    fn is_there(&self, server: &Member) -> bool {
        server.generation() == self.generation && server.lost().is_none()
    }
}

impl RunningSubject for Running<'_> {
    fn play(&mut self, request: &TrialRequest) -> Result<Trial, NoTrial> {
        let mut attempt = 1;
        loop {
            let played = self.attempt(request);
            // A failure while the run ends is no fault of a host.
            if self.start.interrupts.is_asked() {
                return Err(NoTrial::Interrupted);
            }
            match played.map_err(|trouble| trouble::after(trouble, attempt)) {
                Ok(trial) => return Ok(trial),
                Err(Decision::Repeat) => attempt += 1,
                Err(Decision::End(result)) => return Err(result),
                Err(Decision::Leave(why)) => return Err(self.session.give_up(&why)),
            }
        }
    }

    fn cpu_s(&self) -> Option<f64> {
        let mut members = self.session.members.try_borrow_mut().ok()?;
        let server = Some(&mut members.server).filter(|server| self.is_there(server))?;
        let job = Job::CpuTime { start: self.start.number };
        match server.call(&job, SHORT, &Interrupts::default()) {
            Ok(Done::CpuTime { cpu_s }) => Some(cpu_s),
            _ => None,
        }
    }
}

impl Drop for Running<'_> {
    /// If the host is lost, or was meanwhile, its agent did all of this by itself.
    fn drop(&mut self) {
        let Ok(mut members) = self.session.members.try_borrow_mut() else { return };
        let server = &mut members.server;
        if !self.is_there(server) {
            return;
        }
        let Start { definition, number, patience, interrupts, .. } = self.start;
        if !self.addresses.is_empty() {
            let share = patience.for_stop();
            let stop = Job::Stop { start: number, within_s: share.map(|share| share.as_secs_f64()) };
            let within = share.unwrap_or(definition.stop.within()) + STOP_SLACK;
            let _ = once_urgent(interrupts, |urgent| server.call(&stop, within, urgent));
        }
        if self.has_set {
            let within = settings_most(self.settings.len());
            let unset = server.call(&Job::Unset, within, &Interrupts::default());
            // A host that is lost puts them back by itself.
            if let Err(fault @ (Fault::Failed { .. } | Fault::Late)) = unset {
                let why = match fault {
                    Fault::Late => too_slow("undo", &self.settings, within),
                    fault => fault.into_reason(),
                };
                let name = &server.host().name;
                self.session.settings.borrow_mut().leave(format!("{name}: {why}"));
            }
        }
    }
}

/// Sets the settings of a cell on the subjects' host. Returns what may keep them from having their effect.
fn set(
    server: &mut Member,
    settings: &BTreeMap<String, String>,
    interrupts: &Interrupts,
) -> Result<Vec<String>, Fault> {
    let within = settings_most(settings.len());
    match server.call(&Job::Set { settings: settings.clone() }, within, interrupts) {
        Ok(Done::Set { remarks, .. }) => Ok(remarks),
        Ok(_) => Err(unexpected()),
        Err(Fault::Late) => Err(Fault::Lost(too_slow("set", settings, within))),
        Err(fault) => Err(fault),
    }
}

/// The reason why settings were not set, or undone, in time.
fn too_slow(act: &str, settings: &BTreeMap<String, String>, within: Duration) -> String {
    let names: Vec<&str> = settings.keys().map(String::as_str).collect();
    format!("its agent did not {act} {} within {} s", names.join(", "), within.as_secs())
}

/// Does something with interrupts that are raised once those of the user are urgent. The first of the user's ends a run
/// in order, to which stopping a subject belongs.
fn once_urgent<T>(interrupts: &Interrupts, act: impl FnOnce(&Interrupts) -> T) -> T {
    let (urgent, is_done) = (Interrupts::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) && !interrupts.is_urgent() {
                thread::sleep(LOOK);
            }
            if interrupts.is_urgent() {
                urgent.ask();
                urgent.ask();
            }
        });
        let done = act(&urgent);
        is_done.store(true, Relaxed);
        done
    })
}

/// The first fault of players in their order.
fn all_of(players: &[Member], results: Vec<Result<(), Fault>>) -> Result<(), Trouble> {
    let mut each = players.iter().zip(results);
    each.try_for_each(|(player, result)| result.map_err(|fault| of_player(&player.host().name, fault)))
}

/// The settings of the subject's host that a cell asks for, by their names. `device` is the one that carries the
/// queries there, if it is known.
fn settings(cell: &Cell, device: Option<&str>) -> Result<BTreeMap<String, String>, String> {
    let mut settings = cell.factors.host_settings().clone();
    if let Some(core) = cell.factors.word(name::HOST_RECEIVE_CORE) {
        let device = device.ok_or_else(|| {
            format!("{} needs the `device` of the server in the hosts' file", name::HOST_RECEIVE_CORE)
        })?;
        settings.insert(format!("receive-core.{device}"), core.to_owned());
    }
    Ok(settings)
}

/// A player's part of a trial, unless it spoils the trial.
fn part(player: &Member, mut trial: Trial, duration_s: f64) -> Result<Part, Trouble> {
    let host = player.host().name.clone();
    let late_ns = trial.late_start_ns.unwrap_or(0);
    if timing::is_late(late_ns, duration_s) {
        let what = format!("began {:.1} ms late in a trial of {duration_s} s", late_ns as f64 / 1e6);
        return Err(Trouble::Player { host, what, output: Vec::new() });
    }
    let of_classes = trial.classes.iter_mut().map(|class| &mut class.trial.hosts.first.device);
    for device in std::iter::once(&mut trial.hosts.first.device).chain(of_classes) {
        *device = device.take().or_else(|| player.device().map(str::to_owned));
    }
    let offset = player.offset();
    let start = StartFacts { late_ns, offset_ns: offset.ns, uncertainty_ns: offset.uncertainty_ns };
    Ok(Part { host, trial, start })
}

/// Decides what the fault of the subjects' host, which has this name, means for a start.
fn not_started(session: &Session, server: &str, fault: Fault) -> NoTrial {
    match fault {
        Fault::Interrupted => NoTrial::Interrupted,
        Fault::Unreachable(why) => session.give_up(&why),
        Fault::Failed { reason, output } => {
            NoTrial::Failed { reason: format!("on {server}: {reason}"), output }
        }
        fault @ (Fault::Lost(_) | Fault::Late) => {
            let why = fault.into_reason();
            NoTrial::Lost { reason: format!("the subject's host {server} was lost: {why}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Factors;

    use super::*;

    #[test]
    fn only_the_second_interrupt_shortens_a_stop() {
        let user = Interrupts::default();
        user.ask();
        once_urgent(&user, |urgent| {
            thread::sleep(3 * LOOK);
            assert!(!urgent.is_asked(), "a run that ends in order stops its subject in order");
            user.ask();
            while !urgent.is_urgent() {
                thread::sleep(LOOK);
            }
        });
    }

    #[test]
    fn settings_whose_links_go_down_have_time_and_are_named() {
        let settings = ["channels.eth0", "rings.eth0"].map(|name| (name.to_owned(), "4".to_owned()));
        let within = settings_most(settings.len());
        assert_eq!(within, Duration::from_secs(40), "two links may be waited for, for 10 s each");
        let why = too_slow("set", &settings.into(), within);
        assert_eq!(why, "its agent did not set channels.eth0, rings.eth0 within 40 s");
    }

    #[test]
    fn only_settings_of_the_host_are_set_there() {
        let words = [("host.nice", "3"), ("hosts.players", "2"), ("host.rps.eth0", "0")];
        let words = words.map(|(name, word)| (name.to_owned(), word.to_owned()));
        let mut cell = Cell { factors: Factors::read(words).unwrap(), ..Cell::default() };
        let rps = ("rps.eth0".to_owned(), "0".to_owned());
        assert_eq!(settings(&cell, None), Ok([rps.clone()].into()));
        cell.factors.set(name::HOST_RECEIVE_CORE, "3").unwrap();
        assert!(settings(&cell, None).unwrap_err().contains("device"));
        let core = ("receive-core.eth1".to_owned(), "3".to_owned());
        assert_eq!(settings(&cell, Some("eth1")), Ok([rps, core].into()));
    }
}
