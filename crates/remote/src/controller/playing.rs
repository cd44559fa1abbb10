//! An attempt at a trial: all players play at one moment, while the subjects' host is watched. That host has read its
//! counters before the moment is chosen, so no packet is missed. If one of these hosts is lost meanwhile, the others stop
//! at once.

use std::time::{Duration, Instant};

use kqps_fleet::Ticket;
use kqps_host::Stamped;
use kqps_host::watch::ServerSeen;
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Trial;

use super::member::{Fault, Member, unexpected};
use super::{Start, side_by_side, timing};
use crate::agent::job::{Done, Job, Queries};
use kqps_testbed::materials::MaterialsSpec;
use kqps_testbed::play::PlayRequest;

/// The longest time for a reading of counters, or another short job.
pub(super) const SHORT: Duration = Duration::from_secs(20);

/// The time that settings of a host may take to be set or undone. A link that goes down is waited for, for 10 s at
/// most.
pub(super) fn settings_most(settings: usize) -> Duration {
    SHORT + Duration::from_secs(10).saturating_mul(u32::try_from(settings).unwrap_or(u32::MAX))
}

/// The time that a trial may take beyond sending and draining: opening the dataset and reading counters.
const PLAY_SLACK: Duration = Duration::from_secs(30);

/// The interval at which interrupts and lost hosts are looked for while players play, nanoseconds.
const LOOK_NS: u64 = 50_000_000;

/// The trial that all players play together.
pub(super) struct Together<'a> {
    pub(super) start: Start<'a>,
    /// The queries.
    pub(super) wanted: &'a MaterialsSpec,
    /// How late a player was in the last trials, nanoseconds.
    pub(super) late_ns: u64,
    /// Whose packets are stamped on the subjects' host, if any are.
    pub(super) stamped: Option<Stamped>,
}

/// Observations on the subjects' host during a trial.
pub(super) struct Watched {
    pub(super) seen: Box<ServerSeen>,
    /// How much too late its first reading was over by its clock, nanoseconds. The reading was over before the start
    /// was chosen, so this is 0 unless a clock is wrong.
    pub(super) late_ns: u64,
}

/// The outcome of an attempt at a trial.
pub(super) struct Attempted {
    /// The record of each player.
    pub(super) played: Vec<Result<Trial, Fault>>,
    /// The observations on the subjects' host.
    pub(super) watched: Result<Watched, Fault>,
    /// The host that was lost while players played, so that the others were stopped.
    pub(super) gone: Option<Gone>,
}

/// A host that was lost during a trial, or could not be asked for its part of it, and why.
#[derive(Debug)]
pub(super) enum Gone {
    /// The subjects' host.
    Server(Fault),
    /// A player's host, by the player's number.
    Player(usize, Fault),
}

impl Together<'_> {
    /// Has the subjects' host read its counters, and waits until it has.
    pub(super) fn begin_watch(&self, server: &mut Member) -> Result<(), Fault> {
        let Start { cell, number, interrupts, .. } = self.start;
        let begin = Job::WatchBegin {
            start: Some(number),
            cpus: cell.subject_cpus.clone(),
            device: server.device().map(str::to_owned),
            stamped: self.stamped.clone(),
        };
        match server.call(&begin, SHORT, interrupts)? {
            Done::Begun { .. } => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// Plays `requests` on the players in their order, for as many seconds, after [`Self::begin_watch`]. Every job is
    /// waited for, whatever came of the others, so that the agents are free for the next trial.
    pub(super) fn play(
        &self,
        server: &mut Member,
        players: &mut [Member],
        requests: Vec<PlayRequest>,
        duration_s: f64,
    ) -> Attempted {
        let Start { queries, interrupts, .. } = self.start;
        let settle =
            requests.first().map_or(Duration::ZERO, |request| request.plan.timeout + request.plan.drain);
        let all = players.iter().chain([&*server]);
        let worst_rtt_ns = all.map(|member| member.offset().rtt_ns).max().unwrap_or(0);
        let uncertain_ns = uncertain_ns(server, players);
        let start_ns = timing::start_ns(clock::now_ns(), worst_rtt_ns, uncertain_ns, self.late_ns);
        let end_ns = start_ns + (duration_s * 1e9) as u64;
        let by_ns = timing::on_clock(timing::read_by_ns(start_ns, uncertain_ns), server.offset().ns);
        let begun = server.ask(&Job::WatchAgain { by_ns });
        let each = players.iter_mut().zip(requests);
        let tickets: Vec<Result<Ticket, Fault>> = each
            .map(|(player, request)| {
                let at_ns = Some(timing::on_clock(start_ns, player.offset().ns));
                let queries = Queries { wanted: self.wanted.clone(), kind: queries };
                player.ask(&Job::Play { request: Box::new(request), queries, at_ns })
            })
            .collect();
        let unasked = unasked(&begun, &tickets);
        let gone = unasked.or_else(|| wait_until(end_ns, server, players, interrupts));
        if gone.is_some() || interrupts.is_asked() {
            stop_all((&*server, &begun), players.iter().zip(&tickets));
        }
        let left = Duration::from_nanos(end_ns.saturating_sub(clock::now_ns()));
        let until = Instant::now() + left + settle + PLAY_SLACK;
        let undisturbed = Interrupts::default();
        let sent = begun
            .and_then(|begun| server.wait(begun, until, interrupts))
            .and_then(|done| match done {
                Done::Begun { over_ns } => Ok(over_ns.saturating_sub(by_ns)),
                _ => Err(unexpected()),
            })
            .and_then(|late_ns| server.call(&Job::WatchSent, SHORT, &undisturbed).map(|_| late_ns));
        let each: Vec<(&mut Member, Result<Ticket, Fault>)> = players.iter_mut().zip(tickets).collect();
        let played = side_by_side(each, |(player, ticket)| player.played(ticket?, until, interrupts));
        let watched = sent.and_then(|late_ns| match server.call(&Job::WatchEnd, SHORT, &undisturbed)? {
            Done::Seen(seen) => Ok(Watched { seen, late_ns }),
            _ => Err(unexpected()),
        });
        Attempted { played, watched, gone }
    }
}

/// The uncertainty of the time between the clocks of the subjects' host and of the players, nanoseconds.
fn uncertain_ns(server: &Member, players: &[Member]) -> u64 {
    let of = |member: &Member| member.offset().uncertainty_ns;
    timing::uncertain_ns(of(server), players.iter().map(of))
}

/// The first host that could not be asked for its part of a trial.
fn unasked(begun: &Result<Ticket, Fault>, tickets: &[Result<Ticket, Fault>]) -> Option<Gone> {
    let why = |ticket: &Result<Ticket, Fault>| ticket.as_ref().err().cloned();
    let of_player =
        |(number, ticket): (usize, &Result<Ticket, Fault>)| Some(Gone::Player(number, why(ticket)?));
    why(begun).map(Gone::Server).or_else(|| tickets.iter().enumerate().find_map(of_player))
}

/// Asks all hosts to end their part of a trial, before any of them is waited for.
fn stop_all<'m>(
    (server, begun): (&Member, &Result<Ticket, Fault>),
    players: impl Iterator<Item = (&'m Member, &'m Result<Ticket, Fault>)>,
) {
    for (player, ticket) in players {
        if let Ok(ticket) = ticket {
            player.stop(ticket);
        }
    }
    if let Ok(begun) = begun {
        server.stop(begun);
    }
}

/// Waits until this time of the monotonic clock, or until an interrupt, or until a host is lost, which it returns.
fn wait_until(end_ns: u64, server: &Member, players: &[Member], interrupts: &Interrupts) -> Option<Gone> {
    loop {
        let now_ns = clock::now_ns();
        if now_ns >= end_ns || interrupts.is_asked() {
            return None;
        }
        if let Some(why) = server.lost() {
            return Some(Gone::Server(Fault::Lost(why)));
        }
        let lost = |(number, player): (usize, &Member)| {
            let why = player.lost()?;
            Some(Gone::Player(number, Fault::Lost(why)))
        };
        if let Some(gone) = players.iter().enumerate().find_map(lost) {
            return Some(gone);
        }
        clock::sleep_until_ns(end_ns.min(now_ns + LOOK_NS));
    }
}
