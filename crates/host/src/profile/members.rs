//! The threads of a subject, and those of the kernel that handle interrupts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::process;

/// More threads than these are not kept apart.
const THREADS_MOST: usize = 4096;

/// Beginnings of the names of the kernel's threads that handle packets and other interrupts.
const HANDLERS: [&str; 3] = ["ksoftirqd/", "napi/", "irq/"];

/// The threads of a subject, and those that handle interrupts.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// Thread → its process and its name. Threads that have ended stay.
    threads: BTreeMap<u32, (u32, String)>,
    /// The subject's processes.
    processes: BTreeSet<u32>,
    /// Threads of the kernel that handle interrupts, and 0 for an idle core.
    interrupts: BTreeSet<u32>,
}

impl Members {
    /// The threads of these processes and their descendants.
    pub(super) fn read(pids: &[u32]) -> Self {
        let mut members = Self::default();
        members.look(pids);
        members.interrupts.insert(0);
        let names = process::processes().filter_map(|pid| Some((pid, process::name(pid)?)));
        members.interrupts.extend(names.filter(|(_, name)| is_handler(name)).map(|(pid, _)| pid));
        members
    }

    /// Adds the threads that were started since.
    pub(super) fn look(&mut self, pids: &[u32]) {
        for pid in process::families(pids) {
            self.processes.insert(pid);
            for tid in process::thread_ids(pid).unwrap_or_default() {
                self.add(pid, tid);
            }
        }
    }

    fn add(&mut self, pid: u32, tid: u32) -> bool {
        if self.threads.contains_key(&tid) {
            return true;
        }
        if self.threads.len() >= THREADS_MOST {
            return false;
        }
        // A thread that has ended had the name of its process, most likely.
        let name = process::thread_name(pid, tid).or_else(|| process::name(pid)).unwrap_or_default();
        self.threads.insert(tid, (pid, name));
        true
    }

    /// Whether a thread that ran is the subject's. One that began since [`Self::look`] is known by its process.
    pub(super) fn has(&mut self, pid: u32, tid: u32) -> bool {
        self.knows(tid) || self.processes.contains(&pid) && self.add(pid, tid)
    }

    /// Whether a thread is known as the subject's.
    pub(super) fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Whether a thread handles interrupts; 0 is an idle core.
    pub(super) fn handles_interrupts(&self, tid: u32) -> bool {
        self.interrupts.contains(&tid)
    }

    /// Each thread with its process.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.threads.iter().map(|(tid, (pid, _))| (*pid, *tid))
    }

    /// Thread → its CPU time by the kernel's own count, nanoseconds, for threads that still run.
    pub(super) fn on_core_ns(&self) -> BTreeMap<u32, u64> {
        let on_core_ns = |pid, tid| {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        self.pairs().filter_map(|(pid, tid)| Some((tid, on_core_ns(pid, tid)?))).collect()
    }

    /// Thread → its process and its name.
    pub(super) fn into_threads(self) -> BTreeMap<u32, (u32, String)> {
        self.threads
    }

    /// These threads alone, each with its process and its name.
    #[cfg(test)]
    pub(super) fn known(threads: &[(u32, u32, &str)]) -> Self {
        Self {
            threads: threads.iter().map(|&(tid, pid, name)| (tid, (pid, name.to_owned()))).collect(),
            processes: threads.iter().map(|(_, pid, _)| *pid).collect(),
            interrupts: [0].into(),
        }
    }
}

fn is_handler(name: &str) -> bool {
    HANDLERS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_poll_devices_and_handle_interrupts_are_known_by_their_names() {
        for name in ["ksoftirqd/3", "napi/eth0-8193", "irq/34-virtio0-input.0"] {
            assert!(is_handler(name), "{name}");
        }
        assert!(!is_handler("kworker/0:1") && !is_handler("irqbalance"));
    }

    #[test]
    fn the_threads_of_this_process_are_found_with_their_cpu_time() {
        let pid = std::process::id();
        let mut members = Members::read(&[pid]);
        assert!(members.knows(pid) && members.handles_interrupts(0) && !members.has(1, 1));
        let times = members.on_core_ns();
        assert!(times.is_empty() || times[&pid] > 0, "a kernel without schedstat has none");
    }
}
