//! Watches a trial. Counters of the host, the subject and the player are read before and after it, and the
//! differences are returned. One reading of a subject with a few threads takes about a millisecond.
//!
//! Each side has a watch of its own, [`player`] and [`subject`], which knows nothing of the other. [`join`] makes one
//! result of what both saw, on one host or on two. [`Watch`] does all of it for a trial on one host. A subject's host
//! without a player has a watch in [`host`].
//!
//! CPU time and packet counters may cover different spans. A trial is busy only while the player sends, but its last
//! replies come after that. A player that calls [`TrialWatch::sending_ended`] gets CPU time for the span of sending and
//! counters for the whole span.

mod ahead;
mod cores;
mod first_reading;
mod host;
mod player;
mod subject;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use kqps_observation::host::CpuFacts;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::{HostFacts, SubjectFacts};

use crate::counters::Whose;
use crate::files::Root;
use crate::frequency;
use crate::ledger::SubjectSide;
use crate::unreadable::noted;
use cores::Cores;

pub use crate::drop_reasons::DropReasons as Reasons;
pub use ahead::begin_at;
pub use first_reading::{SPARE_NS, TimedReading};
pub use host::{HostWatch, ServerSeen};
pub use player::{PlayerSeen, PlayerWatch, PlayerWatched};
pub use subject::{PlayerPlace, SubjectSeen, SubjectWatch, SubjectWatched};

/// The differences between the two readings of both sides.
#[derive(Clone, Debug, Default)]
pub struct WatchResult {
    /// The record of the player's host.
    pub host: HostFacts,
    /// The record of the subject, if it was watched.
    pub subject: Option<SubjectFacts>,
    /// Where the subject is.
    pub side: SubjectSide,
    /// The player's threads in [`PlayerWatched::threads`], busiest first.
    pub player_threads: Vec<ThreadFacts>,
    /// CPU seconds of this whole process.
    pub player_cpu_s: f64,
}

impl WatchResult {
    /// Whether watching slowed the trial down: drop reasons were counted, or the subject was profiled.
    pub fn is_disturbed(&self) -> bool {
        let is_profiled = self.subject.as_ref().is_some_and(|subject| subject.profile.is_some());
        self.host.drop_reasons.is_some() || is_profiled
    }
}

/// A watch that runs. The player, which knows no subject, calls it at two moments.
pub trait TrialWatch {
    /// Records that the load ended. CPU time is counted up to this call.
    fn sending_ended(&mut self);

    /// Takes the second reading and returns the differences.
    fn end(self) -> WatchResult;
}

/// A running watch of a player and a subject on this host.
#[derive(Debug)]
pub struct Watch {
    player: PlayerWatch,
    subject: SubjectWatch,
}

impl Watch {
    /// Takes the first reading. [`TrialWatch::end`] reports what could not be read.
    pub fn begin(player: &PlayerWatched, subject: &SubjectWatched) -> Self {
        // Begun before all other readings and read after them, so that they miss no drop that another counter sees.
        let reasons = player.drop_reasons.then(Reasons::begin);
        let pids = &subject.pids;
        let subject = SubjectWatch::begin(subject);
        // Last, so that the other readings are not charged to the player.
        Self { player: PlayerWatch::begin(player, pids, reasons), subject }
    }
}

impl TrialWatch for Watch {
    fn sending_ended(&mut self) {
        self.subject.sending_ended();
        self.player.sending_ended();
    }

    fn end(self) -> WatchResult {
        let subject = self.subject.end();
        join(self.player.end(), subject)
    }
}

/// Joins the observations of both sides to one result, on one host or on two.
pub fn join(mut player: PlayerSeen, subject: SubjectSeen) -> WatchResult {
    let (player_threads, player_cpu_s) = (std::mem::take(&mut player.threads), player.cpu_s);
    let cores = player.cores.clone();
    let mut host = player.into_host();
    host.unreadable.extend(subject.unreadable);
    let foreign_cpu_s = match &subject.facts {
        Some(_) => cores::foreign_cpu_s(&cores, &subject.cores),
        None if subject.is_elsewhere => cores::foreign_cpu_s_alone(&cores),
        None => Err("the subject is not watched, so its CPU time cannot be separated from others'".into()),
    };
    if subject.cores.host == cores.host {
        set_frequencies(&mut host.cpus, &[&cores, &subject.cores]);
    } else {
        set_frequencies(&mut host.cpus, &[&cores]);
    }
    host.foreign_cpu_s = noted(FOREIGN_CPU, foreign_cpu_s.map(Some), &mut host.unreadable);
    WatchResult { host, subject: subject.facts, side: subject.side, player_threads, player_cpu_s }
}

/// Gives each core of a host the frequency that the first of these sides knows.
fn set_frequencies(cpus: &mut [CpuFacts], sides: &[&Cores]) {
    for core in cpus {
        core.frequency_mhz = sides.iter().find_map(|side| side.mhz.get(&core.cpu).copied());
    }
}

/// The frequencies of cores in MHz, as far as the kernel reports them.
fn frequencies(cpus: impl Iterator<Item = u32>) -> BTreeMap<u32, f64> {
    cpus.filter_map(|cpu| Some((cpu, frequency::mhz(&Root::real(), cpu)?))).collect()
}

/// The link that identifies a process's network namespace.
fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("{process}/ns/net")).ok()
}

/// The number of the calling thread's network namespace.
fn namespace_number() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/net").ok().map(|namespace| namespace.ino())
}

/// Whether processes other than this one and `known_pids` are in the namespace of a process, as far as processes are
/// visible.
fn has_others(whose: Whose, known_pids: &[u32]) -> bool {
    let Some(ours) = namespace(&whose.folder()) else { return true };
    let known = crate::process::families(known_pids);
    let others = crate::process::processes().filter(|pid| *pid != std::process::id() && !known.contains(pid));
    let mut namespaces = others.filter_map(|pid| namespace(&format!("/proc/{pid}")));
    namespaces.any(|theirs| theirs == ours)
}

/// The name of the subject's process in `unreadable`.
pub const SUBJECT_PROCESS: &str = "subject process";

/// The name of drop reasons in `unreadable`.
const DROP_REASONS: &str = "drop reasons";

/// The name of the CPU time of others in `unreadable`.
const FOREIGN_CPU: &str = "foreign CPU time";

/// A file's text, or empty text and an entry in `unreadable`.
fn read(path: &str, unreadable: &mut BTreeMap<String, String>) -> String {
    noted(path, fs::read_to_string(path), unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_on_two_hosts_are_joined() {
        // On each host, core 0 was busy for 1 s of 2 s, of which the side used 0.75 s. A tick of 10 ms is the
        // resolution.
        let player = PlayerSeen { cores: cores::made_up("a", &[0], 0.75), ..PlayerSeen::default() };
        let facts = SubjectFacts { pid: 7, ..SubjectFacts::default() };
        let subject = SubjectSeen {
            facts: Some(facts),
            side: SubjectSide::There,
            cores: cores::made_up("b", &[0], 0.75),
            unreadable: BTreeMap::from([("subject pss".into(), "no".into())]),
            is_elsewhere: false,
        };
        let seen = join(player.clone(), subject.clone());
        assert!((seen.host.foreign_cpu_s.unwrap() - 0.48).abs() < 1e-9);
        assert_eq!((seen.side, seen.subject.unwrap().pid), (SubjectSide::There, 7));
        assert_eq!(seen.host.unreadable["subject pss"], "no");

        let unwatched = SubjectSeen { facts: None, ..subject };
        let seen = join(player, unwatched);
        assert_eq!(seen.host.foreign_cpu_s, None);
        assert!(seen.host.unreadable[FOREIGN_CPU].contains("the subject is not watched"));
    }

    #[test]
    fn a_players_host_has_the_time_of_others_if_the_subject_is_elsewhere() {
        let player = PlayerSeen { cores: cores::made_up("a", &[0], 0.75), ..PlayerSeen::default() };
        let seen = join(player, SubjectSeen { is_elsewhere: true, ..SubjectSeen::default() });
        assert!((seen.host.foreign_cpu_s.unwrap() - 0.24).abs() < 1e-9);
        assert_eq!((seen.host.boot_id.as_deref(), seen.host.unreadable.len()), (Some("a"), 0));
    }
}
