//! The player's side of a watch: its threads, its host's cores, and the counters of its network namespace.

use std::collections::BTreeMap;

use kqps_kernel::clock;
use kqps_observation::host::CpuFacts;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::{HostFacts, NetworkFacts};

use super::cores::{self, Cores, HostId, Ticks};
use super::{DROP_REASONS, Reasons, frequencies, has_others, namespace_number, read};
use crate::counters::{Reading, Whose};
use crate::cpu_time::{self, CpuTicks};
use crate::files::Root;
use crate::network::{self, Softnet};
use crate::process::Thread;
use crate::subject;
use crate::unreadable::noted;

/// Settings for the watch of the player, which is this process.
#[derive(Clone, Debug, Default)]
pub struct PlayerWatched {
    /// Thread IDs of the sending threads. They must live until sending has ended, or until the end of the watch if
    /// that is not reported.
    pub threads: Vec<u32>,
    /// The cores that the threads are pinned to, in any order; empty if they may run on any core.
    pub cpus: Vec<u32>,
    /// Whether to count the kernel's reasons for dropping packets, which slows every drop.
    pub drop_reasons: bool,
}

/// Observations of the player and its host.
#[derive(Clone, Debug, Default)]
pub struct PlayerSeen {
    /// Seconds from the first reading of CPU time to the second.
    pub(super) wall_s: f64,
    /// How each core of the host spent its time.
    pub(super) cpus: Vec<CpuFacts>,
    /// The counters of the player's network namespace.
    pub(super) network: NetworkFacts,
    /// The number of that namespace, if it could be read.
    pub(super) network_namespace: Option<u64>,
    pub(super) softnet: Softnet,
    /// Packets dropped on the whole host, by the kernel's reason, if they were counted.
    pub(super) drop_reasons: Option<BTreeMap<String, u64>>,
    /// The player's threads, busiest first.
    pub(super) threads: Vec<ThreadFacts>,
    /// CPU seconds of this whole process.
    pub(super) cpu_s: f64,
    pub(super) cores: Cores,
    /// Facts that could not be read, and why.
    pub(super) unreadable: BTreeMap<String, String>,
}

impl PlayerSeen {
    /// Returns the record of the player's host, without the frequencies of cores and the CPU time of other programs.
    pub(super) fn into_host(self) -> HostFacts {
        HostFacts {
            wall_s: self.wall_s,
            cpus: self.cpus,
            network: self.network,
            softnet_dropped: self.softnet.dropped,
            softnet_squeezed: self.softnet.squeezed,
            drop_reasons: self.drop_reasons,
            foreign_cpu_s: None,
            unreadable: self.unreadable,
            boot_id: self.cores.host.known(),
            network_namespace: self.network_namespace,
            // Only the program that knows the hosts knows this.
            device: None,
        }
    }
}

/// A running watch of the player's side.
#[derive(Debug)]
pub struct PlayerWatch {
    watched: PlayerWatched,
    /// Processes of this host that belong to the trial besides the player.
    known_pids: Vec<u32>,
    reasons: Option<Result<Reasons, String>>,
    unreadable: BTreeMap<String, String>,
    counters: Counters,
    cpu: CpuReading,
    cpu_at_end: Option<CpuReading>,
}

impl PlayerWatch {
    /// Takes the first reading. `known_pids` are the subject's processes, if they are on this host. `reasons` count
    /// the kernel's reasons for drops, if that was asked for, or say why they cannot.
    pub fn begin(
        watched: &PlayerWatched,
        known_pids: &[u32],
        reasons: Option<Result<Reasons, String>>,
    ) -> Self {
        let mut unreadable = BTreeMap::new();
        let counters = Counters::read(known_pids, &mut unreadable);
        // Last, so that reading the counters is not charged to the player.
        let cpu = CpuReading::take(watched, &mut unreadable);
        Self {
            watched: watched.clone(),
            known_pids: known_pids.to_vec(),
            reasons,
            unreadable,
            counters,
            cpu,
            cpu_at_end: None,
        }
    }

    /// Records that the load ended. CPU time is counted up to this call.
    pub fn sending_ended(&mut self) {
        self.cpu_at_end = Some(CpuReading::take(&self.watched, &mut self.unreadable));
    }

    /// Takes the second reading and returns the differences.
    pub fn end(self) -> PlayerSeen {
        let Self { watched, known_pids, reasons, mut unreadable, counters: before, cpu, cpu_at_end } = self;
        let cpu_at_end = cpu_at_end.unwrap_or_else(|| CpuReading::take(&watched, &mut unreadable));
        let after = Counters::read(&known_pids, &mut unreadable);
        let reasons = reasons.map(|begun| begun.and_then(|reasons| reasons.counts()));
        let wall_s = (cpu_at_end.at_ns - cpu.at_ns) as f64 / 1e9;
        let cpu_s = cpu_at_end.player_ns.saturating_sub(cpu.player_ns) as f64 / 1e9;
        let ticks = Ticks { before: &cpu.cores, after: &cpu_at_end.cores, wall_s };
        let host = HostId::read(&Root::real());
        PlayerSeen {
            wall_s,
            cpus: cpu_time::shares(&cpu.cores, &cpu_at_end.cores),
            network: NetworkFacts { shared: after.has_others, ..after.namespace.since(&before.namespace) },
            network_namespace: namespace_number(),
            softnet: Softnet::since(&before.softnet, &after.softnet),
            drop_reasons: reasons.and_then(|read| noted(DROP_REASONS, read.map(Some), &mut unreadable)),
            threads: subject::threads_between(&cpu.threads, &cpu_at_end.threads, wall_s),
            cpu_s,
            cores: Cores::new(host, &watched.cpus, &ticks, cpu_s, cpu_at_end.mhz),
            unreadable,
        }
    }
}

/// CPU time at one moment.
#[derive(Debug)]
struct CpuReading {
    at_ns: u64,
    cores: Vec<CpuTicks>,
    /// The frequencies of the used cores, as far as the kernel reports them.
    mhz: BTreeMap<u32, f64>,
    player_ns: u64,
    threads: Vec<Thread>,
}

impl CpuReading {
    fn take(watched: &PlayerWatched, unreadable: &mut BTreeMap<String, String>) -> Self {
        let pid = std::process::id();
        let mut threads = Vec::with_capacity(watched.threads.len());
        for &tid in &watched.threads {
            match Thread::read(pid, tid) {
                Ok(thread) => threads.push(thread),
                Err(error) => drop(unreadable.insert(format!("player thread {tid}"), error.to_string())),
            }
        }
        let cores = cpu_time::parse(&read("/proc/stat", unreadable));
        let mhz = frequencies(cores::used(&watched.cpus, &cores));
        let (at_ns, player_ns) = (clock::now_ns(), clock::process_cpu_ns());
        Self { at_ns, cores, mhz, player_ns, threads }
    }
}

/// Packet counters at one moment.
#[derive(Debug)]
struct Counters {
    /// The player's network namespace.
    namespace: Reading,
    /// Whether processes that do not belong to the trial are in that namespace.
    has_others: bool,
    softnet: Vec<Softnet>,
}

impl Counters {
    fn read(known_pids: &[u32], unreadable: &mut BTreeMap<String, String>) -> Self {
        Self {
            namespace: Reading::take(Whose::Own, unreadable),
            has_others: has_others(Whose::Own, known_pids),
            softnet: network::parse_softnet(&read("/proc/thread-self/net/softnet_stat", unreadable)),
        }
    }
}
