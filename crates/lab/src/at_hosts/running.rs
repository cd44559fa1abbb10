//! A subject that runs on its host, and the trials that other hosts play at it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kqps_host::watch::ServerSeen;
use kqps_hosts::merge::{Part, merge};
use kqps_hosts::{Host, Ticket};
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::factors::name;
use kqps_observation::{Cell, StartFacts, Trial};

use super::member::{Fault, Member, unexpected};
use super::plan::Shared;
use super::timing;
use super::trouble::{self, Decision, Trouble};
use super::{Members, Session, Start, side_by_side};
use crate::agent::certificate::CertificatePem;
use crate::agent::job::{Done, Job, Queries, StartRequest};
use crate::materials::Wanted;
use crate::play::PlayRequest;
use crate::player_hosts::{Players, players_of};
use crate::started::RunningSubject;
use crate::trial_request::{NoTrial, TrialRequest};

/// The time that a start may take beyond the subject's own limit: asking for its version, and the way there.
const START_SLACK: Duration = Duration::from_secs(30);

/// The time that a stop may take beyond the subject's own limit.
const STOP_SLACK: Duration = Duration::from_secs(10);

/// The longest time for a reading of counters, or another short job.
const SHORT: Duration = Duration::from_secs(20);

/// The time that a trial may take beyond sending and draining: opening the dataset and reading counters.
const PLAY_SLACK: Duration = Duration::from_secs(30);

/// The interval at which interrupts and lost hosts are looked for while players play, nanoseconds.
const LOOK_NS: u64 = 50_000_000;

/// The server's host is reached at most this often for one start.
const REACHES_MOST: usize = 3;

/// A subject on its host. Dropping it stops the subject, and takes the settings of its cell back.
pub(super) struct Running<'a> {
    session: &'a Session,
    start: Start<'a>,
    players: Players<'a>,
    wanted: Wanted,
    /// The settings of the subject's host that the cell asks for.
    settings: BTreeMap<String, String>,
    addresses: Vec<SocketAddr>,
    ready_s: f64,
    /// How late a player was at most, nanoseconds. All get more time to get ready then.
    late_ns: u64,
}

/// What came of one attempt at a trial.
struct Attempted {
    /// Of each player: its record.
    played: Vec<Result<Trial, Fault>>,
    /// What the server's host saw.
    seen: Result<Box<ServerSeen>, Fault>,
}

impl<'a> Running<'a> {
    /// Starts the subject of a cell, and waits until it answers.
    pub(super) fn start(session: &'a Session, start: Start<'a>) -> Result<Self, NoTrial> {
        let players =
            players_of(session.site.players.as_ref(), &start.cell.factors).map_err(NoTrial::failed)?;
        let players = players.ok_or_else(|| NoTrial::failed("the run has no hosts to play".into()))?;
        let server_device = session.members.borrow().server.host().device.clone();
        let mut running = Self {
            session,
            start,
            players,
            wanted: Wanted::of(start.cell.factors.dataset()),
            settings: settings(start.cell, server_device.as_deref()).map_err(NoTrial::failed)?,
            addresses: Vec::new(),
            ready_s: 0.0,
            late_ns: 0,
        };
        // If this fails, dropping it takes the settings back.
        running.started()?;
        Ok(running)
    }

    fn started(&mut self) -> Result<(), NoTrial> {
        let Start { cell, definition, number, certificate, patience, interrupts, .. } = self.start;
        let mut members = self.session.members.borrow_mut();
        let server = &mut members.server;
        let name = server.host().name.clone();
        let not_started = |fault: Fault| not_started(&name, fault);
        reach_in_turn(server).map_err(not_started)?;
        if let Some(supplies) = &*self.session.supplies.borrow() {
            supplies.bring(&self.wanted, server, interrupts).map_err(not_started)?;
        }
        if !self.settings.is_empty() {
            let set = Job::Set { settings: self.settings.clone() };
            server.call(&set, SHORT, interrupts).map_err(not_started)?;
        }
        let certificate = certificate.map(CertificatePem::read).transpose();
        let unread =
            |error| NoTrial::failed(format!("reading the certificate of {}: {error}", definition.title));
        let share = patience.for_start();
        let request = StartRequest {
            start: number,
            definition: definition.text.clone(),
            cell: cell.clone(),
            address: self.session.server_address,
            certificate: certificate.map_err(unread)?,
            within_s: share.map(|share| share.as_secs_f64()),
        };
        let within = share.unwrap_or(definition.ready.within()) + START_SLACK;
        let started = server.call(&Job::Start(Box::new(request)), within, interrupts).map_err(not_started)?;
        let Done::Started { addresses, ready_s, version, .. } = started else {
            return Err(not_started(unexpected()));
        };
        (self.addresses, self.ready_s) = (addresses, ready_s);
        if let Some(version) = version {
            self.session.versions.borrow_mut().insert(definition.name.clone(), version);
        }
        Ok(())
    }

    /// Plays a trial once.
    fn attempt(&mut self, request: &TrialRequest) -> Result<Trial, Trouble> {
        let session = self.session;
        let mut members = session.members.borrow_mut();
        let Members { server, players } = &mut *members;
        let players = &mut players[..self.players.hosts.len()];
        let server_name = server.host().name.clone();
        if let Some(why) = server.lost() {
            return Err(of_subject(&server_name, Fault::Lost(why)));
        }
        self.get_ready(players)?;
        let requests = self.requests(request, players)?;
        let Attempted { played, seen } = self.play_on(server, players, requests, request.duration_s);
        if self.start.interrupts.is_asked() {
            return Err(Trouble::Interrupted);
        }
        let late_ns = played.iter().flatten().filter_map(|trial| trial.late_start_ns).max();
        self.late_ns = self.late_ns.max(late_ns.unwrap_or(0));
        // If the subject ended, that is why players have no record.
        let seen = seen.map_err(|fault| of_subject(&server_name, fault))?;
        let mut parts = Vec::new();
        for (player, played) in players.iter().zip(played) {
            parts.push(part(player, played, request.duration_s)?);
        }
        let merged = merge(parts, Some(*seen));
        let mut trial = merged.map_err(|error| {
            let reason = format!("the records of the players do not make one trial: {error}");
            Trouble::Subject { reason, output: Vec::new() }
        })?;
        if let Some(facts) = &mut trial.subject {
            facts.ready_s = Some(self.ready_s);
        }
        Ok(trial)
    }

    /// Reaches all players, measures their clocks, and brings them the queries.
    fn get_ready(&self, players: &mut [Member]) -> Result<(), Trouble> {
        let supplies = self.session.supplies.borrow();
        let (supplies, wanted, interrupts) = (supplies.as_ref(), &self.wanted, self.start.interrupts);
        let ready = side_by_side(players.iter_mut().collect(), |player| {
            player.reach()?;
            supplies.map_or(Ok(()), |supplies| supplies.bring(wanted, player, interrupts))
        });
        for (player, ready) in players.iter().zip(ready) {
            ready.map_err(|fault| of_player(player, fault))?;
        }
        Ok(())
    }

    /// What each player is asked for.
    fn requests(&self, request: &TrialRequest, players: &[Member]) -> Result<Vec<PlayRequest>, Trouble> {
        let Start { cell, checks, certificate, .. } = self.start;
        let ca = certificate.map(|certificate| certificate.ca.as_str());
        let shared = Shared { cell, targets: &self.addresses, ca, checks };
        let hosts: Vec<&Host> = players.iter().map(Member::host).collect();
        shared
            .of_each(request, &self.players, &hosts)
            .map_err(|reason| Trouble::Subject { reason, output: Vec::new() })
    }

    /// Plays on all players at one moment, and watches the server's host meanwhile. Every job is waited for, whatever
    /// came of the others, so that the agents are free for the next trial.
    fn play_on(
        &self,
        server: &mut Member,
        players: &mut [Member],
        requests: Vec<PlayRequest>,
        duration_s: f64,
    ) -> Attempted {
        let Start { cell, number, queries, interrupts, .. } = self.start;
        let undisturbed = Interrupts::default();
        let begin = Job::WatchBegin { start: Some(number), cpus: cell.subject_cpus.clone() };
        if let Err(fault) = server.call(&begin, SHORT, &undisturbed) {
            return Attempted { played: Vec::new(), seen: Err(fault) };
        }
        let settle =
            requests.first().map_or(Duration::ZERO, |request| request.plan.timeout + request.plan.drain);
        let worst_rtt_ns = players.iter().map(|player| player.offset().rtt_ns).max().unwrap_or(0);
        let start_ns = timing::start_ns(clock::now_ns(), worst_rtt_ns, self.late_ns);
        let each = players.iter_mut().zip(requests);
        let tickets: Vec<Result<Ticket, Fault>> = each
            .map(|(player, request)| {
                let at_ns = Some(timing::on_clock(start_ns, player.offset().ns));
                let queries = Queries { wanted: self.wanted.clone(), kind: queries };
                player.ask(&Job::Play { request: Box::new(request), queries, at_ns })
            })
            .collect();
        wait_until(start_ns + (duration_s * 1e9) as u64, players, interrupts);
        let sent = server.call(&Job::WatchSent, SHORT, &undisturbed);
        let until = Instant::now() + settle + PLAY_SLACK;
        let each = players.iter_mut().zip(tickets);
        let played = each.map(|(player, ticket)| player.played(ticket?, until, interrupts)).collect();
        let ended = server.call(&Job::WatchEnd, SHORT, &undisturbed);
        let seen = sent.and(ended).and_then(|done| match done {
            Done::Seen(seen) => Ok(seen),
            _ => Err(unexpected()),
        });
        Attempted { played, seen }
    }
}

impl RunningSubject for Running<'_> {
    fn play(&mut self, request: &TrialRequest) -> Result<Trial, NoTrial> {
        let mut attempt = 1;
        loop {
            match self.attempt(request).map_err(|trouble| trouble::after(trouble, attempt)) {
                Ok(trial) => return Ok(trial),
                Err(Decision::Repeat) => attempt += 1,
                Err(Decision::End(result)) => return Err(result),
            }
        }
    }

    fn cpu_s(&self) -> Option<f64> {
        let mut members = self.session.members.try_borrow_mut().ok()?;
        let job = Job::CpuTime { start: self.start.number };
        match members.server.call(&job, SHORT, &Interrupts::default()) {
            Ok(Done::CpuTime { cpu_s }) => Some(cpu_s),
            _ => None,
        }
    }
}

impl Drop for Running<'_> {
    /// If the host is lost, its agent does all of this by itself.
    fn drop(&mut self) {
        let Ok(mut members) = self.session.members.try_borrow_mut() else { return };
        let Start { definition, number, patience, .. } = self.start;
        let undisturbed = Interrupts::default();
        if !self.addresses.is_empty() {
            let share = patience.for_stop();
            let stop = Job::Stop { start: number, within_s: share.map(|share| share.as_secs_f64()) };
            let within = share.unwrap_or(definition.stop.within()) + STOP_SLACK;
            let _ = members.server.call(&stop, within, &undisturbed);
        }
        if !self.settings.is_empty() {
            let _ = members.server.call(&Job::Unset, SHORT, &undisturbed);
        }
    }
}

/// The settings of the subject's host that a cell asks for, by their names. `device` is the one that carries the
/// queries there, as far as the hosts' file names it.
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

/// Reaches the server's host, again if that fails.
fn reach_in_turn(server: &mut Member) -> Result<(), Fault> {
    let mut reached = server.reach();
    for _ in 1..REACHES_MOST {
        if reached.is_ok() {
            break;
        }
        reached = server.reach();
    }
    reached
}

/// Waits until this time of the monotonic clock, or until an interrupt, or until a player is lost.
fn wait_until(end_ns: u64, players: &[Member], interrupts: &Interrupts) {
    loop {
        let now_ns = clock::now_ns();
        if now_ns >= end_ns || interrupts.is_asked() || players.iter().any(|player| player.lost().is_some()) {
            return;
        }
        clock::sleep_until_ns(end_ns.min(now_ns + LOOK_NS));
    }
}

/// A player's part of a trial, unless it spoils the trial.
fn part(player: &Member, played: Result<Trial, Fault>, duration_s: f64) -> Result<Part, Trouble> {
    let host = player.host().name.clone();
    let trial = played.map_err(|fault| of_player(player, fault))?;
    let late_ns = trial.late_start_ns.unwrap_or(0);
    if timing::is_late(late_ns, duration_s) {
        let what = format!("began {:.1} ms late in a trial of {duration_s} s", late_ns as f64 / 1e6);
        return Err(Trouble::Player { host, what, output: Vec::new() });
    }
    let offset = player.offset();
    let start = StartFacts { late_ns, offset_ns: offset.ns, uncertainty_ns: offset.uncertainty_ns };
    Ok(Part { host, trial, start })
}

fn of_player(player: &Member, fault: Fault) -> Trouble {
    let host = player.host().name.clone();
    match fault {
        Fault::Interrupted => Trouble::Interrupted,
        Fault::Lost(why) => Trouble::Player { host, what: format!("was lost: {why}"), output: Vec::new() },
        Fault::Failed { reason, output } => {
            Trouble::Player { host, what: format!("failed: {reason}"), output }
        }
    }
}

fn of_subject(server: &str, fault: Fault) -> Trouble {
    match fault {
        Fault::Interrupted => Trouble::Interrupted,
        Fault::Lost(why) => Trouble::Subject {
            reason: format!("the subject's host {server} was lost: {why}"),
            output: Vec::new(),
        },
        Fault::Failed { reason, output } => Trouble::Subject { reason, output },
    }
}

fn not_started(server: &str, fault: Fault) -> NoTrial {
    match fault {
        Fault::Interrupted => NoTrial::Interrupted,
        Fault::Lost(why) => NoTrial::failed(format!("the subject's host {server} was lost: {why}")),
        Fault::Failed { reason, output } => {
            NoTrial::Failed { reason: format!("on {server}: {reason}"), output }
        }
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Factors;

    use super::*;

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
