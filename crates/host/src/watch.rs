//! Watches a trial. Counters of the host, the subject and the player are read before and after it, and the
//! differences are returned. One reading of a subject with a few threads takes about a millisecond.
//!
//! CPU time and packet counters may cover different spans. A trial is busy only while the player sends, but its last
//! replies come after that. A player that calls [`Watch::sending_ended`] gets CPU time for the span of sending and
//! counters for the whole span.

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
    /// The subject's processes, if it is on this host; their descendants are included. Empty if it is not watched.
    pub subject_pids: Vec<u32>,
    /// Why the subject is not watched, if its processes were searched for.
    pub subject_unknown: Option<String>,
    /// The address that receives the queries. If the subject is not watched, it shows whether the subject is in the
    /// player's network namespace.
    pub target: Option<IpAddr>,
    /// Thread IDs of the player's sending threads, which are threads of this process. They must live until
    /// [`Watch::sending_ended`], or [`Watch::end`] if that is not called.
    pub player_threads: Vec<u32>,
    /// The cores that player and subject run on, in any order. Empty if either may run on any core; all cores are
    /// then used.
    pub cpus: Vec<u32>,
    /// Whether to count the kernel's reasons for dropping packets, which slows every drop.
    pub drop_reasons: bool,
}

/// The differences between the two readings.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the host did.
    pub host: HostFacts,
    /// What the subject did, if it was watched.
    pub subject: Option<SubjectFacts>,
    /// Where the subject is.
    pub side: SubjectSide,
    /// The player's threads in [`Watched::player_threads`], busiest first.
    pub player_threads: Vec<ThreadFacts>,
    /// CPU seconds of this whole process.
    pub player_cpu_s: f64,
}

/// A running watch.
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
    /// Takes the first reading. [`Watch::end`] reports what could not be read.
    pub fn begin(watched: &Watched) -> Self {
        let mut watched = watched.clone();
        watched.cpus.sort_unstable();
        watched.cpus.dedup();
        let mut unreadable = BTreeMap::new();
        if let Some(why) = &watched.subject_unknown {
            unreadable.insert(SUBJECT_PROCESS.into(), why.clone());
        }
        // Begun before all other readings and read after them, so that it misses no drop that another counter sees.
        let drop_reasons = watched.drop_reasons.then(DropReasons::begin);
        let drop_reasons = drop_reasons.and_then(|begun| told(begun, DROP_REASONS, &mut unreadable));
        let counters = Counters::read(&watched, &mut unreadable);
        // Last, so that reading the counters is not charged to the player.
        let cpu = CpuReading::take(&watched, &mut unreadable);
        Self { watched, unreadable, drop_reasons, counters, cpu, cpu_at_end: None }
    }

    /// Records that the last query was sent. CPU time is counted up to this call.
    pub fn sending_ended(&mut self) {
        self.cpu_at_end = Some(CpuReading::take(&self.watched, &mut self.unreadable));
    }

    /// Takes the second reading and returns the differences.
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

/// How each core spent its time, and its frequency at the end, when it had been busy for a while.
fn cores_between(before: &CpuReading, after: &CpuReading) -> Vec<CpuFacts> {
    let mut cores = cpu_time::shares(&before.cores, &after.cores);
    for core in &mut cores {
        core.frequency_mhz = after.mhz.get(&core.cpu).copied();
    }
    cores
}

/// CPU seconds of the used cores that neither player nor subject account for, or the reason why they are not known.
///
/// This is an approximation: the time in which those cores were not idle, less the CPU time of both, less the
/// resolution of idle time (one tick of 10 ms per core), so that rounding alone never counts as a neighbour. The
/// kernel handles packets on loopback within the thread that sends them, and charges that thread. Packets handled
/// while a core was idle, and the kernel's own threads, look like a neighbour unless the kernel measures interrupt
/// time. Time stolen by the hypervisor is charged to nobody. If the kernel charges it to the thread that was stopped,
/// the result is too low by as much.
fn foreign_cpu_s(
    watched: &Watched,
    before: &CpuReading,
    after: &CpuReading,
    ours_s: f64,
) -> Result<f64, String> {
    if watched.subject_pids.is_empty() {
        return Err("the subject is not watched, so its CPU time cannot be separated from others'".into());
    }
    let wall_s = (after.at_ns - before.at_ns) as f64 / 1e9;
    let used = used(&watched.cpus, &after.cores);
    let busy_s = cpu_time::busy_s(&before.cores, &after.cores, &used, wall_s)
        .ok_or("a core of player and subject went offline")?;
    let rounding_s = used.len() as f64 / TICKS_PER_S;
    Ok((busy_s - ours_s - rounding_s).max(0.0))
}

/// The cores to which player and subject are pinned; all cores if they are not pinned.
fn used(held_to: &[u32], cores: &[CpuTicks]) -> Vec<u32> {
    if held_to.is_empty() { cores.iter().map(CpuTicks::cpu).collect() } else { held_to.to_vec() }
}

/// CPU time at one moment.
#[derive(Debug)]
struct CpuReading {
    at_ns: u64,
    cores: Vec<CpuTicks>,
    /// The frequencies of the used cores, as far as the kernel reports them.
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
    /// Whether other processes are in the player's namespace.
    ours_has_others: bool,
    /// The subject's namespace, if it is another one and can be read, and whether other processes are in it.
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

    /// The counts of the player's namespace since `before`, those of the subject's if it is another one, and where
    /// the subject is.
    fn namespaces_since(&self, before: &Self) -> (NetworkFacts, Option<NetworkFacts>, SubjectSide) {
        let ours = NetworkFacts { shared: self.ours_has_others, ..self.ours.since(&before.ours) };
        // A namespace that could not be read both times, or changed in between, has no counts.
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

/// Where the subject is: from its process if that may be inspected, else from its address. Only a socket in the same
/// namespace can be bound to that address.
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

/// Whether processes other than player and subject are in the namespace of a process, as far as processes are
/// visible.
fn has_others(whose: Whose, subject: &[u32]) -> bool {
    let Some(ours) = namespace(&whose.folder()) else { return true };
    let known = crate::process::families(subject);
    let others = crate::process::all().filter(|pid| *pid != std::process::id() && !known.contains(pid));
    let mut namespaces = others.filter_map(|pid| namespace(&format!("/proc/{pid}")));
    namespaces.any(|theirs| theirs == ours)
}

/// The name of the subject's process in `unreadable`.
pub const SUBJECT_PROCESS: &str = "subject process";

/// The name of drop reasons in `unreadable`.
const DROP_REASONS: &str = "drop reasons";

/// The name of the CPU time of others in `unreadable`.
const FOREIGN_CPU: &str = "foreign CPU time";

/// The value that was read, or `None` and an entry in `unreadable`.
fn told<T>(read: Result<T, String>, what: &str, unreadable: &mut BTreeMap<String, String>) -> Option<T> {
    read.map_err(|why| unreadable.insert(what.into(), why)).ok()
}

/// A file's text, or empty text and an entry in `unreadable`.
fn read(path: &str, unreadable: &mut BTreeMap<String, String>) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        unreadable.insert(path.into(), error.to_string());
        String::new()
    })
}
