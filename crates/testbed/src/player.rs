//! The player of a cell: what is asked of it for a trial.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use kqps_dataset::Check;
use kqps_host::SubjectWatched;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Trial;
use kqps_observation::run::Purpose;

use crate::attack::CellAttack;
use crate::cell_event::StagedEvent;
use crate::internet::running::InternetBox;
use crate::live_sink::LiveSink;
use crate::path::LaidPath;
use crate::play::{PlayRequest, PlayerProgram, QueryFile};
use crate::player_setup::PlayerSetup;
use crate::trial_request::{NoTrial, TrialRequest};

/// A player with its target.
#[derive(Clone, Debug)]
pub struct Player<'a> {
    /// The path of this kqps program.
    pub kqps: &'a Path,
    /// The path of queries and replies.
    pub path: &'a LaidPath,
    /// The targets; several addresses are used in turn.
    pub targets: &'a [SocketAddr],
    /// Whether the user has allowed targets that are neither on this host nor in the network for benchmarks.
    pub is_allowed: bool,
    /// The path of the query file.
    pub queries: &'a Path,
    /// Queries of the file that each thread leaves out before its first one.
    pub first_query: u64,
    /// Whether answers are checked against the expectations of the file.
    pub checks: bool,
    /// Sockets, window, timeout and further settings.
    pub setup: PlayerSetup,
    /// The attack beside it; `None` if there is none.
    pub attack: Option<CellAttack>,
    /// The issuers of certificates that the player trusts unless its settings name others, as PEM; `None` if there are
    /// none.
    pub ca: Option<&'a str>,
    /// The player's cores.
    pub cpus: &'a [u32],
    /// The process ID of the subject; `None` if its process is to be found by its sockets.
    pub subject_pid: Option<u32>,
    /// The subject's cores; empty if they are not known.
    pub subject_cpus: &'a [u32],
    /// Interrupts of the user, which end the trial.
    pub interrupts: &'a Interrupts,
    /// The receiver of the counts of trials while they are played; `None` if there is none.
    pub live: Option<&'a LiveSink>,
    /// The time that a trial may take beyond sending and draining.
    pub spare: Duration,
}

impl Player<'_> {
    /// Plays one trial in a process of its own, which the main thread must start, and performs an event meanwhile.
    /// `asked` is the trial that is wanted, and `played` that at the speed of the cores.
    pub fn play(
        &self,
        asked: &TrialRequest,
        played: &TrialRequest,
        event: Option<&StagedEvent<'_>>,
    ) -> Result<Trial, NoTrial> {
        let Self { kqps, path, interrupts, live, spare, .. } = *self;
        let message = self.message(asked, played).map_err(NoTrial::failed)?;
        let play = |message: &PlayRequest| {
            let played = PlayerProgram { kqps, path, interrupts, live, spare }.play(message)?;
            if interrupts.is_asked() { Err(NoTrial::Interrupted) } else { played.trial() }
        };
        match event.filter(|_| StagedEvent::is_in(asked)) {
            Some(event) => event.beside(message, interrupts, play),
            None => play(&message),
        }
    }

    /// The message that asks for a trial.
    fn message(&self, asked: &TrialRequest, request: &TrialRequest) -> Result<PlayRequest, String> {
        let mut subject = match self.subject_pid {
            Some(pid) => {
                let beside = self.path.internet().and_then(InternetBox::pid_beside_subject);
                let pids = std::iter::once(pid).chain(beside).collect();
                SubjectWatched::of_processes(pids, self.targets[0].ip())
            }
            None => SubjectWatched::found(self.targets, self.setup.transport()),
        };
        if !self.subject_cpus.is_empty() {
            subject.cpus = self.subject_cpus.to_vec();
        }
        subject.profile = request.purpose == Purpose::Profile { sampled: true };
        let check = if self.checks { None } else { Some(Check::Off) };
        let mut plan = self.setup.plan(request, (self.targets, self.ca), self.cpus, &subject)?;
        plan.first_query = self.first_query;
        if self.path.internet().is_some() && request.purpose == Purpose::Rate {
            // They show how soon a cold cache answers.
            plan.moments.get_or_insert_default();
        }
        let scenario = self.attack.as_ref().and_then(|attack| attack.lay(&mut plan, asked, request));
        Ok(PlayRequest {
            plan,
            queries: QueryFile { check, ..QueryFile::new(self.queries) },
            classes: Vec::new(),
            scenario,
            is_allowed: self.is_allowed,
            subject,
            shows_bar: false,
            live_every: None,
        })
    }
}
