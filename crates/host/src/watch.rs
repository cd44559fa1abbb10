//! Watching a trial: counters of the host, the subject and the player are read before and after it, and the
//! differences told. One reading of a subject with a few threads takes about a millisecond.
//!
//! CPU time and packet counters may cover different spans. A trial is busy only while queries are sent, yet
//! its last replies are counted after that; a player that says when sending ended, by
//! [`Watch::sending_ended`], gets CPU time of that span and counters of the whole.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;

use kqps_kernel::clock;
use kqps_observation::host::CpuFacts;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::{HostFacts, NetworkFacts, SubjectFacts};

use crate::counters::{self, Reading, Whose};
use crate::cpu_time::{self, CpuTicks, TICKS_PER_S};
use crate::drop_reasons::DropReasons;
use crate::files::Root;
use crate::frequency;
use crate::ledger::SubjectSide;
use crate::network::{self, Softnet};
use crate::process::Thread;
use crate::subject;

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The subject's processes, where it is on this host; their descendants are found. Empty where it is not watched.
    pub subject_pids: Vec<u32>,
    /// Why the subject is not watched, where it was looked for.
    pub subject_unknown: Option<String>,
    /// The address that is asked. Where the subject is not watched, it tells whether that is in the player's
    /// network namespace.
    pub target: Option<IpAddr>,
    /// Thread IDs of the player's sending threads, which are threads of this process. They must live until
    /// [`Watch::sending_ended`], or [`Watch::end`] where that is not called.
    pub player_threads: Vec<u32>,
    /// The cores that player and subject run on, in any order. Empty when either may run on any: then all are used.
    pub cpus: Vec<u32>,
    /// Whether the kernel's reasons for dropping packets are counted, which slows every drop.
    pub drop_reasons: bool,
}

/// What was seen between the two readings.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The host.
    pub host: HostFacts,
    /// The subject, if one was to be watched.
    pub subject: Option<SubjectFacts>,
    /// Where the subject is.
    pub side: SubjectSide,
    /// The player's threads that were named, busiest first.
    pub player_threads: Vec<ThreadFacts>,
    /// CPU seconds of this whole process.
    pub player_cpu_s: f64,
}

/// A watch that has begun.
#[derive(Debug)]
pub struct Watch {
    watched: Watched,
    unreadable: BTreeMap<String, String>,
    drop_reasons: Option<DropReasons>,
    counters: Counters,
    cpu: CpuReading,
    cpu_at_end: Option<CpuReading>,
}

impl Watch {
    /// Takes the first reading. What cannot be read is told by [`Watch::end`].
    pub fn begin(watched: &Watched) -> Self {
        let mut watched = watched.clone();
        watched.cpus.sort_unstable();
        watched.cpus.dedup();
        let mut unreadable = BTreeMap::new();
        if let Some(why) = &watched.subject_unknown {
            unreadable.insert(SUBJECT_PROCESS.into(), why.clone());
        }
        // First, and read last, so that no drop that another counter sees is missed.
        let drop_reasons = watched.drop_reasons.then(DropReasons::begin);
        let drop_reasons = drop_reasons.and_then(|begun| told(begun, DROP_REASONS, &mut unreadable));
        let counters = Counters::read(&watched, &mut unreadable);
        // Last, so that reading the counters is not charged to the player.
        let cpu = CpuReading::take(&watched, &mut unreadable);
        Self { watched, unreadable, drop_reasons, counters, cpu, cpu_at_end: None }
    }

    /// Tells that the last query was sent: CPU time is counted up to here.
    pub fn sending_ended(&mut self) {
        self.cpu_at_end = Some(CpuReading::take(&self.watched, &mut self.unreadable));
    }

    /// Takes the second reading and tells the differences.
    pub fn end(self) -> Seen {
        let Self { watched, mut unreadable, drop_reasons, counters: before, cpu, cpu_at_end } = self;
        let cpu_at_end = cpu_at_end.unwrap_or_else(|| CpuReading::take(&watched, &mut unreadable));
        let after = Counters::read(&watched, &mut unreadable);
        let drop_reasons =
            drop_reasons.and_then(|reasons| told(reasons.counts(), DROP_REASONS, &mut unreadable));
        let wall_s = (cpu_at_end.at_ns - cpu.at_ns) as f64 / 1e9;
        let player_cpu_s = cpu_at_end.player_ns.saturating_sub(cpu.player_ns) as f64 / 1e9;

        let subject = before.subject.as_ref().zip(after.subject.as_ref()).map(|(before, after)| {
            let readings = subject::Readings {
                cpu: [&cpu.subject, &cpu_at_end.subject],
                counters: [before, after],
                wall_s,
            };
            subject::facts(&watched.subject_pids, &readings, &mut unreadable)
        });
        let (network, far, side) = after.namespaces_since(&before);
        let subject = subject.map(|subject| SubjectFacts { network: far, ..subject });
        let ours_s = player_cpu_s + subject::cpu_s(&cpu.subject, &cpu_at_end.subject);
        let softnet = Softnet::since(&before.softnet, &after.softnet);
        let foreign_cpu_s =
            told(foreign_cpu_s(&watched, &cpu, &cpu_at_end, ours_s), FOREIGN_CPU, &mut unreadable);
        let host = HostFacts {
            wall_s,
            cpus: cores_between(&cpu, &cpu_at_end),
            udp: counters::udp_of(&network),
            network,
            softnet_dropped: softnet.dropped,
            softnet_squeezed: softnet.squeezed,
            drop_reasons,
            foreign_cpu_s,
            unreadable,
        };
        let player_threads =
            subject::threads_between(&cpu.player_threads, &cpu_at_end.player_threads, wall_s);
        Seen { host, subject, side, player_threads, player_cpu_s }
    }
}

/// How every core spent its time, and how fast it ran in the end, when it had been busy for a while.
fn cores_between(before: &CpuReading, after: &CpuReading) -> Vec<CpuFacts> {
    let mut cores = cpu_time::shares(&before.cores, &after.cores);
    for core in &mut cores {
        core.frequency_mhz = after.mhz.get(&core.cpu).copied();
    }
    cores
}

/// CPU seconds of the used cores that neither player nor subject account for, or why that is not known.
///
/// An approximation: the time in which those cores were not idle, less the CPU time of both, less the unit in
/// which idle time is told (one tick of 10 ms a core) so that rounding alone is never taken for a neighbour.
/// Packets on the loopback are handled within the thread that sends them and belong to it. Those handled while
/// a core was idle, and those of the kernel's own threads, cannot be told from a neighbour's unless the kernel
/// measures interrupt time. Time stolen by the hypervisor counts as nobody's; where the kernel books it on the
/// thread that was stopped, a neighbour is underestimated by as much.
fn foreign_cpu_s(
    watched: &Watched,
    before: &CpuReading,
    after: &CpuReading,
    ours_s: f64,
) -> Result<f64, String> {
    if watched.subject_pids.is_empty() {
        return Err("the subject is not watched, so its CPU time cannot be told from that of others".into());
    }
    let wall_s = (after.at_ns - before.at_ns) as f64 / 1e9;
    let used = used(&watched.cpus, &after.cores);
    let busy_s = cpu_time::busy_s(&before.cores, &after.cores, &used, wall_s)
        .ok_or("a core of player and subject went offline")?;
    let rounding_s = used.len() as f64 / TICKS_PER_S;
    Ok((busy_s - ours_s - rounding_s).max(0.0))
}

/// The cores that player and subject are held to; all that there are, where they are held to none.
fn used(held_to: &[u32], cores: &[CpuTicks]) -> Vec<u32> {
    if held_to.is_empty() { cores.iter().map(CpuTicks::cpu).collect() } else { held_to.to_vec() }
}

/// CPU time at one moment.
#[derive(Debug)]
struct CpuReading {
    at_ns: u64,
    cores: Vec<CpuTicks>,
    /// The clocks of the used cores that tell it.
    mhz: BTreeMap<u32, f64>,
    player_ns: u64,
    player_threads: Vec<Thread>,
    subject: subject::CpuReading,
}

impl CpuReading {
    fn take(watched: &Watched, unreadable: &mut BTreeMap<String, String>) -> Self {
        let subject = subject::CpuReading::take(&watched.subject_pids);
        let pid = std::process::id();
        let mut player_threads = Vec::with_capacity(watched.player_threads.len());
        for &tid in &watched.player_threads {
            match Thread::read(pid, tid) {
                Ok(thread) => player_threads.push(thread),
                Err(error) => drop(unreadable.insert(format!("player thread {tid}"), error.to_string())),
            }
        }
        let cores = cpu_time::parse(&read("/proc/stat", unreadable));
        let used = used(&watched.cpus, &cores).into_iter();
        let mhz = used.filter_map(|cpu| Some((cpu, frequency::mhz(&Root::real(), cpu)?)));
        let (at_ns, player_ns) = (clock::now_ns(), clock::process_cpu_ns());
        Self { at_ns, cores, mhz: mhz.collect(), player_ns, player_threads, subject }
    }
}

/// Packet counters at one moment.
#[derive(Debug)]
struct Counters {
    /// The player's network namespace.
    ours: Reading,
    /// Whether others are in it.
    ours_has_others: bool,
    /// The subject's namespace, where it is another one and can be read, and whether others are in it.
    far: Option<(Reading, bool)>,
    side: SubjectSide,
    softnet: Vec<Softnet>,
    subject: Option<subject::CounterReading>,
}

impl Counters {
    fn read(watched: &Watched, unreadable: &mut BTreeMap<String, String>) -> Self {
        let side = side(watched);
        let pids = &watched.subject_pids;
        let far = pids.first().filter(|_| side == SubjectSide::There).map(|&pid| {
            let theirs = Whose::Of(pid);
            (Reading::take(theirs, unreadable), has_others(theirs, pids))
        });
        Self {
            ours: Reading::take(Whose::Own, unreadable),
            ours_has_others: has_others(Whose::Own, pids),
            far,
            side,
            softnet: network::parse_softnet(&read("/proc/thread-self/net/softnet_stat", unreadable)),
            subject: (!pids.is_empty()).then(|| subject::CounterReading::take(pids, unreadable)),
        }
    }

    /// What the player's namespace counted since, what the subject's did where that is another one, and where
    /// the subject is.
    fn namespaces_since(&self, before: &Self) -> (NetworkFacts, Option<NetworkFacts>, SubjectSide) {
        let ours = NetworkFacts { shared: self.ours_has_others, ..self.ours.since(&before.ours) };
        // A namespace that could not be read both times, or is another one by now, tells nothing.
        let both = self
            .far
            .as_ref()
            .zip(before.far.as_ref())
            .filter(|(after, before)| after.0.tells() && before.0.tells());
        let far = both.map(|(after, before)| NetworkFacts { shared: after.1, ..after.0.since(&before.0) });
        let side = match (self.side, before.side) {
            (SubjectSide::There, _) | (_, SubjectSide::There) if far.is_none() => SubjectSide::Unseen,
            (_, before) => before,
        };
        (ours, far, side)
    }
}

/// Where the subject is: by its process where that may be looked at, else by its address, which only a socket
/// in the same namespace can be bound to.
fn side(watched: &Watched) -> SubjectSide {
    let ours = namespace("/proc/thread-self");
    let theirs = watched.subject_pids.first().and_then(|pid| namespace(&format!("/proc/{pid}")));
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours == theirs => SubjectSide::Here,
        (Some(_), Some(_)) => SubjectSide::There,
        _ if watched.target.is_some_and(|ip| UdpSocket::bind((ip, 0)).is_ok()) => SubjectSide::Here,
        _ => SubjectSide::Unseen,
    }
}

/// What identifies a process's network namespace.
fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("{process}/ns/net")).ok()
}

/// Whether anybody but player and subject is in the namespace of a process, as far as processes can be seen.
fn has_others(whose: Whose, subject: &[u32]) -> bool {
    let Some(ours) = namespace(&whose.folder()) else { return true };
    let known = crate::process::families(subject);
    let others = crate::process::all().filter(|pid| *pid != std::process::id() && !known.contains(pid));
    let mut namespaces = others.filter_map(|pid| namespace(&format!("/proc/{pid}")));
    namespaces.any(|theirs| theirs == ours)
}

/// What the subject's process is called among what could not be read.
pub const SUBJECT_PROCESS: &str = "subject process";

/// What drop reasons are called among what could not be read.
const DROP_REASONS: &str = "drop reasons";

/// What the CPU time of others is called there.
const FOREIGN_CPU: &str = "foreign CPU time";

/// What was read, or nothing and an entry in `unreadable`.
fn told<T>(read: Result<T, String>, what: &str, unreadable: &mut BTreeMap<String, String>) -> Option<T> {
    read.map_err(|why| unreadable.insert(what.into(), why)).ok()
}

/// A file's text, or nothing and an entry in `unreadable`.
fn read(path: &str, unreadable: &mut BTreeMap<String, String>) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        unreadable.insert(path.into(), error.to_string());
        String::new()
    })
}
