//! Where the threads of a subject spent a trial: on a core, and in which function; waiting, and for what.

use std::collections::BTreeMap;

use derive_more::AddAssign;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A profile of a subject over one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileFacts {
    /// How samples were taken.
    pub by: ProfileSource,
    /// Seconds from the first sample on.
    pub seconds: f64,
    /// Samples a second, of each core or thread.
    pub hz: f64,
    /// Samples of the subject's threads.
    pub samples: u64,
    /// Samples and events that the kernel dropped, because nothing read them in time.
    pub lost: u64,
    /// The CPU time that samples show as a share of what the kernel counted for the same threads. Times on a core are
    /// scaled to what the kernel counted. `None` if it counts none, and in older records.
    #[serde(default)]
    pub sampled_share: Option<f64>,
    /// The threads, those with the most time on a core first. Beyond the first 64, all others are one thread with the
    /// number 0. Interrupts on the subject's cores outside of its threads are a thread with the number 0, too.
    pub threads: Vec<ThreadProfile>,
    /// The locks that threads waited for, each over all ways that lead to it, those with the most time first; 40 at
    /// most.
    pub locks: Vec<LockFacts>,
    /// Time on a core by call chain: a tree, parents before children. What is less than 0.2 % of all counts for its
    /// caller, or is in [`StackNode::OTHERS`].
    pub stacks: Vec<StackNode>,
    /// Parts that could not be sampled or named, and why.
    pub unreadable: BTreeMap<String, String>,
}

/// How samples were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileSource {
    /// By the kernel (`perf_event_open`): the CPU clock on all cores of the subject, and every event of its locks and
    /// of its scheduler.
    #[default]
    Cores,
    /// By the kernel: the CPU clock of the subject's threads. What threads wait for is not known.
    Threads,
    /// By kqps, which read the state of each thread in `/proc`.
    Proc,
}

/// A thread of the subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadProfile {
    /// The thread's process.
    pub pid: u32,
    /// The thread ID.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// The time that the thread spent in each state.
    pub times: ThreadTimes,
}

/// The state of [`ThreadTimes::core_s`] in words.
const READY: &str = "waiting for a core";

/// The time that threads spent in each state, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, AddAssign)]
pub struct ThreadTimes {
    /// In their own program.
    pub user_s: f64,
    /// In the kernel, other than below.
    pub system_s: f64,
    /// In the kernel's handling of packets, timers and the like (softirq), which interrupts a thread.
    pub softirq_s: f64,
    /// On a core, but only waiting for a lock of the kernel.
    pub spinning_s: f64,
    /// Asleep until a lock is free.
    pub lock_s: f64,
    /// Asleep until something arrives or can be sent.
    pub io_s: f64,
    /// Asleep until a time, or until another thread wakes them.
    pub sleep_s: f64,
    /// Ready to run, while other threads had the core.
    pub core_s: f64,
}

impl ThreadTimes {
    /// The states in words, in the order of [`Self::seconds`].
    pub const STATES: [&str; 8] =
        ["user", "system", "softirq", "spinning", "waiting for a lock", "waiting for I/O", "asleep", READY];

    /// The seconds of every state.
    pub fn seconds(&self) -> [f64; 8] {
        [
            self.user_s,
            self.system_s,
            self.softirq_s,
            self.spinning_s,
            self.lock_s,
            self.io_s,
            self.sleep_s,
            self.core_s,
        ]
    }

    /// Seconds on a core.
    pub fn on_core_s(&self) -> f64 {
        self.user_s + self.system_s + self.softirq_s + self.spinning_s
    }

    /// All seconds.
    pub fn all_s(&self) -> f64 {
        self.seconds().iter().sum()
    }
}

impl ProfileFacts {
    /// The times of all threads together.
    pub fn times(&self) -> ThreadTimes {
        let mut all = ThreadTimes::default();
        self.threads.iter().for_each(|thread| all += thread.times);
        all
    }
}

/// A lock that threads waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockFacts {
    /// Its kind: `spinlock`, `mutex`, `socket` or another one of the kernel, or `futex` for a lock of the program.
    pub kind: String,
    /// The function that takes it.
    pub place: String,
    /// The callers of that function on the way with the most time, from the inside out; 12 at most. Empty if they are
    /// not known, as in programs without frame pointers.
    pub callers: Vec<String>,
    /// The address of the lock's word in its process, if it is a lock of the program and if it is one word.
    #[serde(default)]
    pub address: Option<u64>,
    /// How often a thread waited; 0 if that is not known.
    pub waits: u64,
    /// Seconds of all threads together.
    pub seconds: f64,
}

impl StackNode {
    /// The name of the node for functions that are too small to be told apart.
    pub const OTHERS: &str = "others";

    /// Functions of a call chain beyond this depth count for their caller.
    pub const DEPTH_MOST: usize = 64;
}

/// A function in the tree of call chains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackNode {
    /// The function, or the file in brackets if the file names no function there.
    pub name: String,
    /// Whether it is the kernel's.
    pub kernel: bool,
    /// The caller, as its place in the list; `None` for the outermost function.
    pub parent: Option<u32>,
    /// Seconds on a core in this function and in those that it called.
    pub seconds: f64,
    /// Seconds on a core in this function itself.
    pub own_s: f64,
}
