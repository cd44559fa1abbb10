//! Resources that the subject's processes used during a trial, read from `/proc` before and after it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::NetworkFacts;
use crate::profile::ProfileFacts;

/// The subject over one trial: all its processes together, and each thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectFacts {
    /// The process that was named or found. Its descendants count too.
    pub pid: u32,
    /// Further processes that were found, each with its descendants, if several that do not descend from each other share
    /// the address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_pids: Vec<u32>,
    /// The program that the process runs; empty if it could not be read, and in older records.
    #[serde(default)]
    pub program: String,
    /// The cores that any of its threads may run on, at the end; empty if they could not be read, and in older records.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Whether all those processes still lived when the trial ended.
    pub alive: bool,
    /// The niceness of the process; -20 if other ordinary programs of its session have to wait for it (sched(7)). `None` if it could not be
    /// read, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub niceness: Option<i32>,
    /// The number of processes.
    pub processes: u32,
    /// User CPU seconds of all processes.
    pub cpu_user_s: f64,
    /// System CPU seconds of all processes.
    pub cpu_system_s: f64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Resident memory at the end, bytes. Shared pages count in each process.
    pub rss_bytes: u64,
    /// Proportional memory at the end, bytes, if it could be read.
    pub pss_bytes: Option<u64>,
    /// Datagrams that the subject's own UDP sockets dropped (full receive buffer or bad checksum), if its sockets could be
    /// found.
    pub socket_drops: Option<u64>,
    /// The subject's network namespace; `None` if it is the player's, or could not be read.
    #[serde(default)]
    pub network: Option<NetworkFacts>,
    /// Seconds from its start until it answered; `None` if kqps did not start it.
    #[serde(default)]
    pub ready_s: Option<f64>,
    /// Threads that used CPU, busiest first.
    pub threads: Vec<ThreadFacts>,
    /// Where its threads spent their time. `None` if they were not profiled, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileFacts>,
}

impl SubjectFacts {
    /// CPU seconds of the subject, in user space and in the kernel.
    pub fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }

    /// Whether there are any facts of what it did. If it ended before the trial did, its counters cannot be read.
    pub fn was_seen(&self) -> bool {
        self.alive || !self.threads.is_empty()
    }
}

/// A thread over one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFacts {
    /// The thread's process.
    pub pid: u32,
    /// The thread ID.
    pub tid: u32,
    /// The thread's name, as the kernel reports it.
    pub name: String,
    /// CPU seconds, user and system.
    pub cpu_s: f64,
    /// User CPU seconds; `None` if the kernel's ticks are too few to show them, and in older records.
    #[serde(default)]
    pub cpu_user_s: Option<f64>,
    /// System CPU seconds; `None` as for `cpu_user_s`.
    #[serde(default)]
    pub cpu_system_s: Option<f64>,
    /// CPU seconds in which the thread spun with nothing to do, because a sleeping thread wakes late. Only the player's
    /// threads with a core of their own do so.
    #[serde(default)]
    pub awake_s: f64,
    /// Seconds in which its core was withheld from this thread and from all others on it, counted if the core was withheld
    /// for more than a millisecond at once. The thread then spun with nothing to do and did not go on, or it should have
    /// been woken before all others and was not. A hypervisor withholds cores, and does not always report it as stolen
    /// time. Counted only for an open loop's threads with a core of their own. Time withheld while they had something to do
    /// is not included.
    #[serde(default)]
    pub withheld_s: f64,
    /// Seconds in which the thread was ready to run and had no core, since another thread ran there. `None` for the
    /// player's threads, if the kernel does not count them (`/proc/PID/task/TID/schedstat`), and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_s: Option<f64>,
    /// CPU seconds divided by wall seconds, 0 to 1, without those in which the thread had nothing to do.
    pub busy: f64,
    /// The core on which it last ran.
    pub cpu: u32,
}
