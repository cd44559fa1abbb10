//! The subject's side of a watch: its processes, its host's cores, and the counters of its network namespace if
//! that is not the player's.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use kqps_kernel::clock;
use kqps_kernel::local_address::is_local;
use kqps_observation::trial::Transport;
use kqps_observation::{NetworkFacts, SubjectFacts};
use serde::{Deserialize, Serialize};

use super::cores::{self, Cores, HostId, Ticks};
use super::{SUBJECT_PROCESS, frequencies, has_others, namespace, read};
use crate::counters::{Reading, Whose};
use crate::cpu_time::{self, CpuTicks};
use crate::files::Root;
use crate::ledger::SubjectSide;
use crate::listener::listeners;
use crate::process::allowed_cpus;
use crate::profile::Profile;
use crate::subject;
use crate::topology::online;

/// Settings for the watch of the subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectWatched {
    /// Its processes on this host; their descendants are included. Empty if it is not watched.
    pub pids: Vec<u32>,
    /// Why it is not watched, if its processes were searched for.
    pub unknown: Option<String>,
    /// The cores that it is pinned to, in any order; empty if it may run on any core.
    pub cpus: Vec<u32>,
    /// Where the player is.
    pub player: PlayerPlace,
    /// Whether to profile it, which disturbs the trial.
    #[serde(default)]
    pub profile: bool,
}

impl SubjectWatched {
    /// A subject with these processes on this host, of which none descends from another, and a player here that sends
    /// to `target`. The cores are those that the threads are pinned to.
    pub fn of_processes(pids: Vec<u32>, target: IpAddr) -> Self {
        let cpus = pinned(&pids);
        Self { cpus, pids, player: PlayerPlace::Towards(target), ..Self::default() }
    }

    /// A subject on another host than the player, as the player's side of a trial knows it. The watch of that host sees
    /// the subject, and on the player's host all CPU time that is not the player's is that of other programs.
    pub fn elsewhere() -> Self {
        Self { player: PlayerPlace::Elsewhere, ..Self::default() }
    }

    /// The subject that takes queries to these addresses over `transport`. If no process is found, the reason is in
    /// `unknown`.
    pub fn found(targets: &[SocketAddr], transport: Transport) -> Self {
        let player = targets.first().map_or(PlayerPlace::Here, |target| PlayerPlace::Towards(target.ip()));
        let found = match targets.iter().find(|target| !is_local(**target)) {
            Some(other) => Err(format!("{} is not an address of this host", other.ip())),
            None => listeners(targets, transport),
        };
        let (pids, unknown) = found.map_or_else(|why| (Vec::new(), Some(why)), |pids| (pids, None));
        Self { cpus: pinned(&pids), pids, unknown, player, ..Self::default() }
    }
}

/// The cores that the threads of these processes are pinned to; empty if these are all cores.
fn pinned(pids: &[u32]) -> Vec<u32> {
    let cpus = allowed_cpus(pids);
    if online().iter().all(|cpu| cpus.contains(cpu)) { Vec::new() } else { cpus }
}

/// Where the player is, as seen from the host of the subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlayerPlace {
    /// In the network namespace of this process.
    #[default]
    Here,
    /// In the network namespace of this process. It sends to this address, which shows whether the subject is in that
    /// namespace even if the subject is not watched.
    Towards(IpAddr),
    /// On another host.
    Elsewhere,
}

/// Observations of the subject and its host. They can be sent from the subject's host to the player's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubjectSeen {
    /// The record of the subject, if it was watched.
    pub(super) facts: Option<SubjectFacts>,
    /// Where it is.
    pub(super) side: SubjectSide,
    pub(super) cores: Cores,
    /// Facts that could not be read, and why.
    pub(super) unreadable: BTreeMap<String, String>,
    /// Whether it is known to be on another host, so that this watch saw none of it.
    #[serde(default)]
    pub(super) is_elsewhere: bool,
}

impl SubjectSeen {
    /// The record of the subject, if it was watched.
    pub fn facts(&self) -> Option<&SubjectFacts> {
        self.facts.as_ref()
    }
}

/// A running watch of the subject's side.
#[derive(Debug)]
pub struct SubjectWatch {
    watched: SubjectWatched,
    unreadable: BTreeMap<String, String>,
    counters: Counters,
    cpu: CpuReading,
    cpu_at_end: Option<CpuReading>,
    profile: Option<Profile>,
}

impl SubjectWatch {
    /// Takes the first reading.
    pub fn begin(watched: &SubjectWatched) -> Self {
        let mut unreadable = BTreeMap::new();
        if let Some(why) = &watched.unknown {
            unreadable.insert(SUBJECT_PROCESS.into(), why.clone());
        }
        let counters = Counters::read(watched, &mut unreadable);
        let cpu = CpuReading::take(watched, &mut unreadable);
        // Last, so that it samples the load and not these readings.
        let is_profiled = watched.profile && !watched.pids.is_empty();
        let profile = is_profiled.then(|| Profile::begin(&watched.pids, &watched.cpus));
        Self { watched: watched.clone(), unreadable, counters, cpu, cpu_at_end: None, profile }
    }

    /// Records that the load ended. CPU time is counted up to this call.
    pub fn sending_ended(&mut self) {
        if let Some(profile) = &self.profile {
            profile.stop();
        }
        self.cpu_at_end = Some(CpuReading::take(&self.watched, &mut self.unreadable));
    }

    /// Takes the second reading and returns the differences.
    pub fn end(self) -> SubjectSeen {
        let Self { watched, mut unreadable, counters: before, cpu, cpu_at_end, profile } = self;
        let cpu_at_end = cpu_at_end.unwrap_or_else(|| CpuReading::take(&watched, &mut unreadable));
        let after = Counters::read(&watched, &mut unreadable);
        let profile = profile.map(Profile::end);
        let wall_s = (cpu_at_end.at_ns - cpu.at_ns) as f64 / 1e9;
        let (network, side) = after.namespace_since(&before);
        let facts = before.subject.as_ref().zip(after.subject.as_ref()).map(|(before, after)| {
            let readings = subject::Readings {
                cpu: [&cpu.subject, &cpu_at_end.subject],
                counters: [before, after],
                wall_s,
            };
            SubjectFacts { network, profile, ..subject::facts(&watched.pids, &readings, &mut unreadable) }
        });
        let ticks = Ticks { before: &cpu.cores, after: &cpu_at_end.cores, wall_s };
        let own_s = subject::cpu_s(&cpu.subject, &cpu_at_end.subject);
        let host = HostId::read(&Root::real());
        let cores = Cores::new(host, &watched.cpus, &ticks, own_s, cpu_at_end.mhz);
        let is_elsewhere = watched.pids.is_empty() && watched.player == PlayerPlace::Elsewhere;
        SubjectSeen { facts, side, cores, unreadable, is_elsewhere }
    }
}

/// CPU time at one moment.
#[derive(Debug)]
struct CpuReading {
    at_ns: u64,
    cores: Vec<CpuTicks>,
    /// The frequencies of the used cores, as far as the kernel reports them.
    mhz: BTreeMap<u32, f64>,
    subject: subject::CpuReading,
}

impl CpuReading {
    fn take(watched: &SubjectWatched, unreadable: &mut BTreeMap<String, String>) -> Self {
        let subject = subject::CpuReading::take(&watched.pids);
        let cores = cpu_time::parse(&read("/proc/stat", unreadable));
        let mhz = frequencies(cores::used(&watched.cpus, &cores));
        Self { at_ns: clock::now_ns(), cores, mhz, subject }
    }
}

/// Counters at one moment.
#[derive(Debug)]
struct Counters {
    side: SubjectSide,
    /// The subject's namespace, if it is another one than the player's and can be read, and whether other processes
    /// are in it.
    namespace: Option<(Reading, bool)>,
    subject: Option<subject::CounterReading>,
}

impl Counters {
    fn read(watched: &SubjectWatched, unreadable: &mut BTreeMap<String, String>) -> Self {
        let side = side(watched);
        let pids = &watched.pids;
        let namespace = pids.first().filter(|_| side == SubjectSide::There).map(|&pid| {
            let theirs = Whose::Of(pid);
            (Reading::take(theirs, unreadable), has_others(theirs, pids))
        });
        let subject = (!pids.is_empty()).then(|| subject::CounterReading::take(pids, unreadable));
        Self { side, namespace, subject }
    }

    /// The counts of the subject's namespace since `before`, if it is not the player's, and where the subject is.
    fn namespace_since(&self, before: &Self) -> (Option<NetworkFacts>, SubjectSide) {
        // A namespace that could not be read both times, or changed in between, has no counts.
        let both = self
            .namespace
            .as_ref()
            .zip(before.namespace.as_ref())
            .filter(|(after, before)| after.0.has_counts() && before.0.has_counts());
        let counts = both.map(|(after, before)| NetworkFacts { shared: after.1, ..after.0.since(&before.0) });
        let side = match (self.side, before.side) {
            (SubjectSide::There, _) | (_, SubjectSide::There) if counts.is_none() => SubjectSide::Unseen,
            (_, before) => before,
        };
        (counts, side)
    }
}

/// Where the subject is: from its process if that may be inspected, else from its address. Only a socket in the same
/// namespace can be bound to that address.
fn side(watched: &SubjectWatched) -> SubjectSide {
    let theirs = watched.pids.first().and_then(|pid| namespace(&format!("/proc/{pid}")));
    let is_bindable = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
    match (namespace("/proc/thread-self"), theirs, watched.player) {
        (_, Some(_), PlayerPlace::Elsewhere) => SubjectSide::There,
        (Some(ours), Some(theirs), _) if ours == theirs => SubjectSide::Here,
        (Some(_), Some(_), _) => SubjectSide::There,
        (_, _, PlayerPlace::Towards(ip)) if is_bindable(ip) => SubjectSide::Here,
        _ => SubjectSide::Unseen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_elsewhere_is_not_found() {
        let elsewhere = SubjectWatched::found(&["192.0.2.1:53".parse().unwrap()], Transport::Udp);
        assert_eq!(elsewhere.unknown.as_deref(), Some("192.0.2.1 is not an address of this host"));
        assert!(elsewhere.pids.is_empty() && elsewhere.cpus.is_empty());
        assert_eq!(elsewhere.player, PlayerPlace::Towards([192, 0, 2, 1].into()));
    }
}
