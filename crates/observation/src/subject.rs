//! What the subject's processes used during a trial, read from `/proc` before and after it.

use serde::{Deserialize, Serialize};

use crate::network::NetworkFacts;

/// The subject over one trial: all of its processes together, and each thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubjectFacts {
    /// The process that was named or found; its descendants are counted too.
    pub pid: u32,
    /// Further processes that were found, each with its descendants: where several that do not descend from each other
    /// share the address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_pids: Vec<u32>,
    /// The program that the process runs; empty where it could not be read, and in older records.
    #[serde(default)]
    pub program: String,
    /// The cores that its threads may run on, all threads together, at the end; empty where that could not be read, and
    /// in older records.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Whether those processes still lived when the trial ended, all of them.
    pub alive: bool,
    /// How many processes.
    pub processes: u32,
    /// User CPU seconds of all processes.
    pub cpu_user_s: f64,
    /// System CPU seconds of all processes.
    pub cpu_system_s: f64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Resident memory at the end, shared pages counted in each process.
    pub rss_bytes: u64,
    /// Proportional memory at the end, where it could be read.
    pub pss_bytes: Option<u64>,
    /// Datagrams that the subject's own UDP sockets dropped (full receive buffer or bad checksum), where its
    /// sockets could be found.
    pub socket_drops: Option<u64>,
    /// The subject's network namespace; none where it is the player's, or could not be read.
    #[serde(default)]
    pub network: Option<NetworkFacts>,
    /// Seconds from its start until it answered; none where it was started by somebody else.
    #[serde(default)]
    pub ready_s: Option<f64>,
    /// Threads that used CPU, busiest first.
    pub threads: Vec<ThreadFacts>,
}

impl SubjectFacts {
    /// Whether anything is known of what it did: of one that ended before the end nobody can read that.
    pub fn was_seen(&self) -> bool {
        self.alive || !self.threads.is_empty()
    }
}

/// One thread over one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// Its process.
    pub pid: u32,
    /// Its thread ID.
    pub tid: u32,
    /// Its name, as the kernel knows it.
    pub name: String,
    /// CPU seconds, user and system.
    pub cpu_s: f64,
    /// User CPU seconds of them; none where the kernel's ticks do not tell, and in older records.
    #[serde(default)]
    pub cpu_user_s: Option<f64>,
    /// System CPU seconds of them.
    #[serde(default)]
    pub cpu_system_s: Option<f64>,
    /// CPU seconds of them in which it had nothing to do and stayed awake, since a sleeper comes late. Only the player's
    /// threads do so that have a core of their own.
    #[serde(default)]
    pub awake_s: f64,
    /// Seconds in which its core was withheld from it and from all others there, counted where that was more than a
    /// millisecond in one piece: it was awake with nothing to do and did not go on, or it was to be woken before all others
    /// and was not. A hypervisor does that, not always telling it as stolen time. Only of an open loop's threads that have a
    /// core of their own; what was withheld while they had something to do is not in it.
    #[serde(default)]
    pub withheld_s: f64,
    /// CPU seconds divided by wall seconds, 0 to 1, without those in which it had nothing to do.
    pub busy: f64,
    /// The core it last ran on.
    pub cpu: u32,
}
