//! What ended the climb, by name: the CPU of both sides and the drop counters of the trials at and just above
//! the upper bound.

use std::collections::BTreeMap;
use std::fmt;

use kqps_observation::subject::ThreadFacts;
use kqps_observation::{Place, Trial};
use serde::{Deserialize, Serialize};

use crate::warning;

/// What was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The player could not send or receive more.
    Player,
    /// Something between the two: a network card, the kernel's backlog, a filter.
    Path,
    /// A thread of the subject had a whole core and wanted more.
    SubjectCpu,
    /// The subject's socket buffer overflowed although its threads had time to spare.
    SubjectSocketBuffer,
    /// The kernel had no memory left for packets.
    Memory,
    /// Nothing that was watched: the figure is no capacity.
    NoneSaturated,
    /// Not the player; the subject was not watched.
    Unknown,
}

/// The bottleneck and what shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// What was used up.
    pub resource: Resource,
    /// The busiest thread of the subject, where it is known.
    pub thread: Option<BusyThread>,
    /// How busy the busiest player thread or its core was, 0 to 1, where it is known.
    pub player_busy: Option<f64>,
    /// The share of the bad queries that this resource accounts for, where losses show it, 0 to 1.
    pub share_of_bad: Option<f64>,
}

/// A thread of the subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusyThread {
    /// Its name, as the kernel knows it.
    pub name: String,
    /// Its thread ID.
    pub tid: u32,
    /// The share of the time that it was on a core, 0 to 1.
    pub busy: f64,
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
        match self.resource {
            Resource::Player => match self.player_busy {
                Some(busy) => write!(f, "the player ({:.0} % busy)", busy * 100.0),
                None => write!(f, "the player"),
            },
            Resource::Path => write!(f, "the path between player and subject"),
            Resource::SubjectCpu => write!(f, "the subject's CPU{thread}"),
            Resource::SubjectSocketBuffer => write!(f, "the subject's socket buffer{thread}"),
            Resource::Memory => write!(f, "the kernel's memory for packets"),
            Resource::NoneSaturated => write!(f, "nothing was saturated: the figure is no capacity{thread}"),
            Resource::Unknown => {
                write!(f, "unknown: it was not the player, and the subject was not watched (--subject-pid)")
            }
        }
    }
}

/// A thread this busy over a whole trial is at its limit. Less than the limit for warnings, since CPU time is
/// counted in hundredths of a second and trials may last half of one.
const SATURATED: f64 = 0.9;

/// Names the bottleneck from the trials that failed at and just above the upper bound. Without any, nothing
/// was saturated.
pub fn bottleneck<'a>(failed: impl IntoIterator<Item = &'a Trial>) -> Bottleneck {
    let failed: Vec<&Trial> = failed.into_iter().collect();
    let losses = Losses::of(&failed);
    let player_busy = mean(failed.iter().filter_map(|trial| warning::busiest_thread(trial)));
    let thread = busiest_of_subject(&failed);
    let found =
        |resource, share_of_bad| Bottleneck { resource, thread: thread.clone(), player_busy, share_of_bad };

    if failed.is_empty() {
        return found(Resource::NoneSaturated, None);
    }
    let starved = failed.iter().filter(|trial| warning::starved(trial).is_some()).count();
    if starved * 2 > failed.len() || losses.most(losses.player) {
        return found(Resource::Player, losses.share(losses.player));
    }
    if thread.as_ref().is_some_and(|thread| thread.busy >= SATURATED) {
        return found(Resource::SubjectCpu, None);
    }
    if player_busy.is_some_and(|busy| busy >= SATURATED) {
        return found(Resource::Player, losses.share(losses.player));
    }
    if losses.most(losses.memory) {
        return found(Resource::Memory, losses.share(losses.memory));
    }
    if losses.most(losses.path) {
        return found(Resource::Path, losses.share(losses.path));
    }
    if failed.iter().all(|trial| trial.subject.is_none()) {
        return found(Resource::Unknown, None);
    }
    if losses.most(losses.subject_buffer) {
        return found(Resource::SubjectSocketBuffer, losses.share(losses.subject_buffer));
    }
    found(Resource::NoneSaturated, None)
}

/// Bad queries of several trials, and where they were lost.
struct Losses {
    bad: u64,
    player: u64,
    path: u64,
    subject_buffer: u64,
    memory: u64,
}

impl Losses {
    fn of(trials: &[&Trial]) -> Self {
        let sum = |count: &dyn Fn(&Trial) -> u64| trials.iter().map(|trial| count(trial)).sum();
        let at = |places: &'static [Place]| {
            move |trial: &Trial| places.iter().map(|place| trial.ledger.at(*place)).sum::<u64>()
        };
        Self {
            bad: sum(&|trial| trial.accounts.intended.saturating_sub(trial.accounts.correct)),
            player: sum(&|trial| {
                trial.accounts.unsent + trial.accounts.send_failed + trial.player.socket_drops
            }),
            path: sum(&at(&[
                Place::PathOut,
                Place::NicOut,
                Place::NicIn,
                Place::Softnet,
                Place::FilterIn,
                Place::FilterOut,
                Place::PathBack,
            ])),
            subject_buffer: sum(&at(&[Place::SubjectSocketBuffer])),
            memory: sum(&|trial| trial.host.udp.mem_errors),
        }
    }

    fn most(&self, count: u64) -> bool {
        count > 0 && count * 2 >= self.bad
    }

    fn share(&self, count: u64) -> Option<f64> {
        (self.bad > 0).then(|| (count as f64 / self.bad as f64).min(1.0))
    }
}

/// The subject's thread that was busiest on average; a thread that a trial does not list was idle in it.
fn busiest_of_subject(trials: &[&Trial]) -> Option<BusyThread> {
    let watched: Vec<&Vec<ThreadFacts>> =
        trials.iter().filter_map(|trial| trial.subject.as_ref()).map(|subject| &subject.threads).collect();
    let mut sums: BTreeMap<u32, BusyThread> = BTreeMap::new();
    for thread in watched.iter().copied().flatten() {
        let new = || BusyThread { name: thread.name.clone(), tid: thread.tid, busy: 0.0 };
        sums.entry(thread.tid).or_insert_with(new).busy += thread.busy;
    }
    let busiest = sums.into_values().max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    Some(BusyThread { busy: busiest.busy / watched.len() as f64, ..busiest })
}

fn mean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let figures: Vec<f64> = figures.collect();
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}
