//! Names what ended the climb. The evidence is the CPU time of both sides and the drop counters, in the trials
//! at and just above the upper bound.

mod lack;

use std::fmt;

use kqps_catalogue::place::Side;
use kqps_observation::host::CpuFacts;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::UNSENT_IDS;
use kqps_observation::{HostFacts, Place, SubjectFacts, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::EnumMessage;

use crate::disturbed::disturbed;
use crate::narrow::narrow;
use crate::warning;

pub use crate::lack::PlayerLack;
use crate::lack::SATURATED;
use lack::{of_full, of_losses, of_starved};

/// The resource that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The player could not send or receive more.
    #[strum(message = "the player", detailed_message = "the player")]
    Player,
    /// The player had no place for more queries: its window, or every connection, was full, and the subject had CPU time
    /// left.
    #[strum(message = "the player's window or connections, which were full while the subject had time")]
    #[strum(detailed_message = "the player's window or connections, which were full")]
    Places,
    /// Something between the player and the subject: a network card, the kernel's backlog, a filter.
    #[strum(message = "the path between player and subject")]
    #[strum(detailed_message = "the path between player and subject")]
    Path,
    /// A thread of the subject used a whole core and needed more.
    #[strum(message = "the subject's CPU", detailed_message = "the subject's CPU")]
    SubjectCpu,
    /// The subject's socket buffer overflowed although its threads had CPU time left.
    #[strum(message = "the subject's socket buffer", detailed_message = "the subject's socket buffer")]
    SubjectSocketBuffer,
    /// The subject's socket buffer overflowed, and a witness thread saw that the subject's core was free: the
    /// subject stood still by itself.
    #[strum(message = "the subject stood still while its core was free, and its socket buffer overflowed")]
    #[strum(detailed_message = "the subject, which stood still while its core was free")]
    SubjectStill,
    /// The host spoiled every trial that failed.
    #[strum(message = "the host, which disturbed every trial that failed: what the subject lacked is not \
                       known")]
    #[strum(detailed_message = "the host, which disturbed every trial that failed")]
    Host,
    /// Other programs used the subject's cores for more than a tenth of the time, and the subject used the
    /// rest.
    #[strum(message = "the subject's cores, which other programs had for more than a tenth of the time")]
    #[strum(detailed_message = "the subject's cores, which other programs had for part of the time")]
    SubjectCoreShared,
    /// The kernel had no memory left for packets.
    #[strum(message = "the kernel's memory for packets")]
    #[strum(detailed_message = "the kernel's memory for packets")]
    Memory,
    /// No resource that was watched ran out: the figure is no capacity.
    #[strum(message = "nothing was saturated: the figure is no capacity")]
    #[strum(detailed_message = "nothing was saturated, so this is no capacity")]
    NoneSaturated,
    /// Not the player. Either the subject was not watched, or it ended before its last reading, or no trial
    /// shows the cause.
    #[strum(message = "unknown: it was not the player, and the subject was not watched (--subject)")]
    #[strum(detailed_message = "unknown, as the subject was not watched")]
    Unknown,
}

impl Resource {
    /// Whether the player ran out of it, so that the rate is no rate of the subject.
    pub fn is_of_player(self) -> bool {
        matches!(self, Self::Player | Self::Places)
    }

    /// The resource in a few words, without its evidence: `the subject's CPU`.
    pub fn in_short(self) -> &'static str {
        self.get_detailed_message().unwrap_or_default()
    }
}

/// The bottleneck and the evidence for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// The resource that ran out.
    pub resource: Resource,
    /// The busiest thread of the subject, if known.
    pub thread: Option<BusyThread>,
    /// How busy the busiest player thread or its core was, 0 to 1, if known.
    pub player_busy: Option<f64>,
    /// The player's lack; `None` if the player was not the bottleneck, if nothing shows it, and in older records.
    #[serde(default)]
    pub player_lack: Option<PlayerLack>,
    /// The share of the bad queries that this resource accounts for, 0 to 1; `None` if the losses do not show
    /// it.
    pub share_of_bad: Option<f64>,
    /// Number of trials that were examined.
    #[serde(default)]
    pub trials: u32,
}

/// A thread of the subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusyThread {
    /// The thread's name, as the kernel reports it.
    pub name: String,
    /// The thread ID.
    pub tid: u32,
    /// The share of the trial's time that the thread ran on a core, 0 to 1.
    pub busy: f64,
}

impl Bottleneck {
    /// `player_busy`, if it belongs beside the words for the player as the bottleneck.
    pub fn shown_player_busy(&self) -> Option<f64> {
        self.player_busy.filter(|_| self.player_lack.is_none_or(PlayerLack::is_of_cpu))
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = self.thread.as_ref().map_or_else(String::new, |thread| {
            format!(
                " (its busiest thread, {} {}, was {:.0} % busy)",
                thread.name,
                thread.tid,
                thread.busy * 100.0
            )
        });
        let words = self.resource.get_message().unwrap_or_default();
        match self.resource {
            Resource::Player => {
                let busy = self.shown_player_busy();
                let busy = busy.map_or_else(String::new, |busy| format!(" ({:.0} % busy)", busy * 100.0));
                write!(f, "{}{busy}", self.player_lack.map_or(words, PlayerLack::in_words))
            }
            Resource::Places
            | Resource::SubjectCpu
            | Resource::SubjectSocketBuffer
            | Resource::SubjectStill
            | Resource::NoneSaturated => write!(f, "{words}{thread}"),
            Resource::Unknown if self.trials == 0 => f.write_str("unknown: no trial showed what gave way"),
            _ => f.write_str(words),
        }
    }
}

/// Names the bottleneck from the trials that failed at and just above the upper bound. Without such trials the
/// result is [`Resource::Unknown`].
pub fn bottleneck<'a>(failed: impl IntoIterator<Item = &'a Trial>) -> Bottleneck {
    let failed: Vec<&Trial> = failed.into_iter().collect();
    let losses = Losses::from_trials(&failed);
    let player_busy = mean(failed.iter().filter_map(|trial| warning::busiest_thread(trial)));
    let thread = busiest_of_subject(&failed);
    let trials = narrow(failed.len());
    let found = |resource, share_of_bad| Bottleneck {
        resource,
        thread: thread.clone(),
        player_busy,
        player_lack: None,
        share_of_bad,
        trials,
    };
    let by_player = |player_lack| {
        let found = found(Resource::Player, losses.share(losses.player));
        Bottleneck { player_lack, ..found }
    };

    if failed.is_empty() {
        return found(Resource::Unknown, None);
    }
    let starved = failed.iter().filter(|trial| warning::starved(trial).is_some()).count();
    if losses.most(losses.player) {
        return by_player(of_losses(&failed, &losses));
    }
    if starved * 2 > failed.len() {
        return by_player(of_starved(&failed));
    }
    if thread.as_ref().is_some_and(|thread| thread.busy >= SATURATED) {
        return found(Resource::SubjectCpu, None);
    }
    if player_busy.is_some_and(|busy| busy >= SATURATED) {
        return by_player(of_full(&failed));
    }
    if losses.most_of_all(losses.memory) {
        return found(Resource::Memory, losses.share_of_all(losses.memory));
    }
    if losses.most_of_all(losses.path) {
        return found(Resource::Path, losses.share_of_all(losses.path));
    }
    if failed.iter().all(|trial| disturbed(trial).is_some()) {
        return found(Resource::Host, None);
    }
    if failed.iter().all(|trial| watched(trial).is_none()) {
        return found(Resource::Unknown, None);
    }
    if losses.most_of_all(losses.subject_buffer) {
        let all_are = |is_so: fn(&Trial) -> bool| failed.iter().all(|trial| is_so(trial));
        let resource = match (all_are(has_full_cores), all_are(|trial| trial.stalls.is_some())) {
            (true, _) if all_are(was_shared) => Resource::SubjectCoreShared,
            (true, _) => Resource::SubjectCpu,
            (false, true) => Resource::SubjectStill,
            (false, false) => Resource::SubjectSocketBuffer,
        };
        return found(resource, losses.share_of_all(losses.subject_buffer));
    }
    let few_places = failed.iter().filter(|trial| warning::few_places(trial).is_some()).count();
    if losses.most(losses.places) && few_places * 2 > failed.len() {
        return found(Resource::Places, losses.share(losses.places));
    }
    found(Resource::NoneSaturated, None)
}

/// The cores that a witness watched, which are the subject's.
fn watched_cores(trial: &Trial) -> impl Iterator<Item = &CpuFacts> {
    let watched = trial.stalls.iter().flat_map(|stalls| &stalls.cores);
    let cores = move || trial.subject_host().into_iter().flat_map(|host| &host.cpus);
    watched.filter_map(move |cpu| cores().find(|core| core.cpu == *cpu))
}

/// Whether the subject's cores were almost never idle.
fn has_full_cores(trial: &Trial) -> bool {
    let mut cores = watched_cores(trial).peekable();
    cores.peek().is_some() && cores.all(|core| core.idle < 1.0 - SATURATED)
}

/// Whether other programs used so much of the subject's cores that the subject, which had the rest, was at no
/// limit of its own. The time of interrupts is left out. A kernel that does not measure their time charges it to the
/// interrupted thread too, so this finds less than there was, and never more.
fn was_shared(trial: &Trial) -> bool {
    let Some(subject) = watched(trial) else { return false };
    let busy = |core: &CpuFacts| 1.0 - core.idle - core.irq - core.softirq;
    let cores = watched_cores(trial).count() as f64;
    let wall_s = trial.subject_host().map_or(0.0, |host| host.wall_s);
    let busy_s = watched_cores(trial).map(busy).sum::<f64>() * wall_s;
    let others_s = busy_s - subject.cpu_user_s - subject.cpu_system_s;
    others_s > (1.0 - SATURATED) * cores * wall_s
}

/// The subject's facts, if it was watched and still ran at the last reading.
fn watched(trial: &Trial) -> Option<&SubjectFacts> {
    trial.subject.as_ref().filter(|subject| subject.was_seen())
}

/// Bad queries of several trials, by the place where they were lost.
struct Losses {
    /// Bad queries of the clients that the figure is about.
    bad: u64,
    /// Bad queries of all classes of clients, as the ledger counts them.
    bad_of_all: u64,
    /// All that the player lost or did not send: `refused`, `dropped`, and what it gave up, `without_id` among them.
    player: u64,
    /// Queries that the player's kernel refused.
    refused: u64,
    /// Queries whose replies the player's sockets dropped.
    dropped: u64,
    /// Queries that found every ID outstanding.
    without_id: u64,
    places: u64,
    path: u64,
    subject_buffer: u64,
    memory: u64,
}

impl Losses {
    fn from_trials(trials: &[&Trial]) -> Self {
        let sum = |count: &dyn Fn(&Trial) -> u64| trials.iter().map(|trial| count(trial)).sum();
        let on_path = |trial: &Trial| {
            let places = Place::ALL.into_iter().filter(|place| place.side() == Side::Path);
            places.map(|place| trial.ledger.at(place)).sum::<u64>()
        };
        let bad = |trial: &Trial| trial.accounts.intended.saturating_sub(trial.accounts.correct);
        Self {
            bad: sum(&bad),
            bad_of_all: sum(&|trial| trial.over_classes(bad)),
            player: sum(&|trial| {
                let gave_up = trial.accounts.unsent.saturating_sub(trial.held_back());
                gave_up + trial.accounts.send_failed + trial.player_socket_drops()
            }),
            refused: sum(&|trial| trial.accounts.send_failed),
            dropped: sum(&Trial::player_socket_drops),
            without_id: sum(&|trial| trial.unsent_causes.get(UNSENT_IDS).copied().unwrap_or(0)),
            places: sum(&Trial::held_back),
            path: sum(&on_path),
            subject_buffer: sum(&|trial| trial.ledger.at(Place::SubjectSocketBuffer)),
            memory: sum(&refused_for_memory),
        }
    }

    /// Whether the player's count is most of the bad queries.
    fn most(&self, count: u64) -> bool {
        is_most(count, self.bad)
    }

    /// Whether a count of the ledger or of a host, which is of all classes, is most of the bad queries.
    fn most_of_all(&self, count: u64) -> bool {
        is_most(count, self.bad_of_all)
    }

    fn share(&self, count: u64) -> Option<f64> {
        share(count, self.bad)
    }

    fn share_of_all(&self, count: u64) -> Option<f64> {
        share(count, self.bad_of_all)
    }
}

fn is_most(count: u64, bad: u64) -> bool {
    count > 0 && count * 2 >= bad
}

fn share(count: u64, bad: u64) -> Option<f64> {
    (bad > 0).then(|| (count as f64 / bad as f64).min(1.0))
}

/// Datagrams for which the kernel had no memory. Hosts in one network namespace have the same counter, which counts
/// once.
fn refused_for_memory(trial: &Trial) -> u64 {
    let of = |host: &HostFacts| host.network.udp(|udp| udp.mem_errors);
    let before = |place: usize| trial.hosts.iter().take(place);
    let counted = trial.hosts.iter().enumerate().map(|(place, host)| {
        let known = before(place).filter(|other| other.shares_namespace(host)).map(of).max();
        of(host).saturating_sub(known.unwrap_or(0))
    });
    counted.sum()
}

/// How busy the subject's busiest thread was, as a mean over the trials. Every start has threads of its own, so
/// each trial has its own busiest thread, and the result names that of the last trial. A trial that lists no
/// thread counts as 0.
fn busiest_of_subject(trials: &[&Trial]) -> Option<BusyThread> {
    let busiest =
        |subject: &SubjectFacts| subject.threads.iter().max_by(|a, b| a.busy.total_cmp(&b.busy)).cloned();
    let watched: Vec<Option<ThreadFacts>> =
        trials.iter().filter_map(|trial| watched(trial)).map(busiest).collect();
    let busy = watched.iter().map(|thread| thread.as_ref().map_or(0.0, |thread| thread.busy)).sum::<f64>();
    let last = watched.iter().rev().flatten().next()?;
    Some(BusyThread { name: last.name.clone(), tid: last.tid, busy: busy / watched.len() as f64 })
}

fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let figures: Vec<f64> = figures.collect();
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}
