//! Sums up samples: time on a core by thread and call chain, time off it by what the thread left it for, and waits for
//! locks. Records come ring by ring, and are looked at in the order of their times.

use std::collections::{BTreeMap, HashMap};

use kqps_kernel::perf::Sample;

use super::Members;
use super::stacks::{StackId, Stacks};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The thread was on a core when the clock sampled it.
    OnCore,
    /// The thread begins to wait for a lock of the kernel, of a kind that the flags name.
    LockBegins { lock: u64, flags: u32 },
    /// The thread has the lock.
    LockEnds { lock: u64 },
    /// The thread leaves its core to another one.
    Switch {
        /// The thread that gets the core.
        next: u32,
        /// Whether it could go on.
        is_ready: bool,
        /// Whether it leaves to wait for a lock of the program, if it waits in futex(2).
        is_for_lock: bool,
    },
    /// Another thread becomes ready.
    Wakeup { tid: u32 },
}

/// What a thread spent time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spent {
    /// It ran.
    OnCore,
    /// It slept; its call chain says for what.
    Asleep { is_for_lock: bool },
    /// It was ready.
    Ready,
}

/// How often, and for how long altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) ns: u64,
}

impl Total {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
    }
}

/// More sums than these are not kept apart.
const SUMS_MOST: usize = 1 << 16;

/// Records that wait for their turn. If there are more, the oldest are looked at before all of their time are read.
const WAITING_MOST: usize = 1 << 18;

/// A thread waits for this many locks at once at most: interrupts have locks, too.
const LOCKS_MOST: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry {
    time_ns: u64,
    tid: u32,
    kind: Kind,
    stack: StackId,
}

/// A thread that is off its core.
#[derive(Clone, Copy, Debug)]
struct Off {
    since_ns: u64,
    spent: Spent,
    stack: StackId,
    /// When it became ready again.
    ready_ns: Option<u64>,
}

/// A wait for a lock.
#[derive(Clone, Copy, Debug)]
struct Wait {
    lock: u64,
    since_ns: u64,
    flags: u32,
    stack: StackId,
}

#[derive(Debug, Default)]
struct Thread {
    off: Option<Off>,
    waits: Vec<Wait>,
}

/// Sums up samples.
#[derive(Debug)]
pub(super) struct Collector {
    period_ns: u64,
    stacks: Stacks,
    waiting: Vec<Entry>,
    threads: HashMap<u32, Thread>,
    sums: HashMap<(u32, Spent, StackId), Total>,
    locks: HashMap<(u32, StackId), Total>,
    samples: u64,
    lost: u64,
}

/// What was summed up.
#[derive(Debug)]
pub(super) struct Gathered {
    /// Thread, what it did and its call chain → how long.
    pub(super) sums: HashMap<(u32, Spent, StackId), Total>,
    /// Kind of a lock and call chain → how long threads waited.
    pub(super) locks: HashMap<(u32, StackId), Total>,
    /// The call chains, with their process.
    pub(super) stacks: HashMap<StackId, (u32, Box<[kqps_kernel::perf::Frame]>)>,
    /// Thread → its process and its name.
    pub(super) threads: BTreeMap<u32, (u32, String)>,
    pub(super) samples: u64,
    pub(super) lost: u64,
}

impl Collector {
    /// A collector for a clock with this period.
    pub(super) fn new(period_ns: u64) -> Self {
        Self {
            period_ns,
            stacks: Stacks::default(),
            waiting: Vec::new(),
            threads: HashMap::new(),
            sums: HashMap::new(),
            locks: HashMap::new(),
            samples: 0,
            lost: 0,
        }
    }

    /// Takes a sample, which is looked at later.
    pub(super) fn take(&mut self, sample: &Sample<'_>, kind: Kind) {
        let stack = match kind {
            Kind::OnCore | Kind::LockBegins { .. } | Kind::Switch { .. } => self.stacks.number(sample),
            Kind::LockEnds { .. } | Kind::Wakeup { .. } => 0,
        };
        self.waiting.push(Entry { time_ns: sample.time_ns, tid: sample.tid, kind, stack });
    }

    /// Counts samples that the kernel dropped.
    pub(super) fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Looks at all records until a time, at which every older record has been taken.
    pub(super) fn settle(&mut self, until_ns: u64, members: &Members) {
        self.waiting.sort_by_key(|entry| entry.time_ns);
        let settled = self.waiting.partition_point(|entry| entry.time_ns <= until_ns);
        let settled = settled.max(self.waiting.len().saturating_sub(WAITING_MOST));
        let entries: Vec<Entry> = self.waiting.drain(..settled).collect();
        for entry in entries {
            self.look(entry, members);
        }
    }

    /// Ends all that goes on at the end.
    pub(super) fn finish(&mut self, end_ns: u64, members: &Members) {
        self.waiting.retain(|entry| entry.time_ns <= end_ns);
        self.settle(end_ns, members);
        for (tid, thread) in std::mem::take(&mut self.threads) {
            for wait in thread.waits {
                self.add_lock(wait, end_ns);
            }
            if let Some(off) = thread.off {
                self.back(tid, off, end_ns);
            }
        }
    }

    fn look(&mut self, entry: Entry, members: &Members) {
        let Entry { time_ns, tid, kind, stack } = entry;
        let is_member = members.threads.contains_key(&tid);
        match kind {
            Kind::OnCore if is_member => {
                self.samples += 1;
                self.add(tid, Spent::OnCore, stack, self.period_ns);
            }
            Kind::OnCore if members.interrupts.contains(&tid) => {
                self.add(0, Spent::OnCore, stack, self.period_ns);
            }
            Kind::LockBegins { lock, flags } if is_member => {
                let waits = &mut self.threads.entry(tid).or_default().waits;
                // A wait may begin twice, first awake and then asleep.
                if waits.len() < LOCKS_MOST && waits.iter().all(|wait| wait.lock != lock) {
                    waits.push(Wait { lock, since_ns: time_ns, flags, stack });
                }
            }
            Kind::LockEnds { lock } if is_member => {
                let waits = &mut self.threads.entry(tid).or_default().waits;
                if let Some(at) = waits.iter().position(|wait| wait.lock == lock) {
                    let wait = waits.swap_remove(at);
                    self.add_lock(wait, time_ns);
                }
            }
            Kind::Switch { next, is_ready, is_for_lock } => {
                if is_member {
                    let spent = if is_ready { Spent::Ready } else { Spent::Asleep { is_for_lock } };
                    let off = Off { since_ns: time_ns, spent, stack, ready_ns: None };
                    self.threads.entry(tid).or_default().off = Some(off);
                }
                if let Some(off) = self.threads.get_mut(&next).and_then(|thread| thread.off.take()) {
                    self.back(next, off, time_ns);
                }
            }
            Kind::Wakeup { tid } => {
                if let Some(off) = self.threads.get_mut(&tid).and_then(|thread| thread.off.as_mut()) {
                    off.ready_ns.get_or_insert(time_ns);
                }
            }
            Kind::OnCore | Kind::LockBegins { .. } | Kind::LockEnds { .. } => {}
        }
    }

    /// A thread has a core again.
    fn back(&mut self, tid: u32, off: Off, at_ns: u64) {
        let ready_ns = match off.spent {
            Spent::Ready => off.since_ns,
            _ => off.ready_ns.unwrap_or(at_ns).clamp(off.since_ns, at_ns.max(off.since_ns)),
        };
        if ready_ns > off.since_ns {
            self.add(tid, off.spent, off.stack, ready_ns - off.since_ns);
        }
        if at_ns > ready_ns {
            self.add(tid, Spent::Ready, off.stack, at_ns - ready_ns);
        }
    }

    fn add(&mut self, tid: u32, spent: Spent, stack: StackId, ns: u64) {
        let key = (tid, spent, stack);
        let is_full = self.sums.len() >= SUMS_MOST && !self.sums.contains_key(&key);
        let key = if is_full { (tid, spent, 0) } else { key };
        self.sums.entry(key).or_default().add(ns);
    }

    fn add_lock(&mut self, wait: Wait, end_ns: u64) {
        let total = self.locks.entry((wait.flags, wait.stack)).or_default();
        total.add(end_ns.saturating_sub(wait.since_ns));
    }

    /// All that was summed up.
    pub(super) fn gathered(self, members: Members) -> Gathered {
        Gathered {
            sums: self.sums,
            locks: self.locks,
            stacks: self.stacks.all(),
            threads: members.threads,
            samples: self.samples,
            lost: self.lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEPS: Kind = Kind::Switch { next: 0, is_ready: false, is_for_lock: false };
    const LOCKED: Kind = Kind::Switch { next: 0, is_ready: false, is_for_lock: true };

    fn members() -> Members {
        Members { threads: [(7, (5, "worker".into()))].into(), interrupts: [0].into() }
    }

    /// The sums after these records, of which the first are not the oldest.
    fn gathered(records: &[(u64, u32, Kind, StackId)]) -> Gathered {
        let mut collector = Collector::new(10);
        for &(time_ns, tid, kind, stack) in records.iter().rev() {
            collector.waiting.push(Entry { time_ns, tid, kind, stack });
        }
        collector.settle(500, &members());
        collector.finish(1000, &members());
        collector.gathered(members())
    }

    fn ns(gathered: &Gathered, tid: u32, spent: Spent, stack: StackId) -> u64 {
        gathered.sums.get(&(tid, spent, stack)).map_or(0, |total| total.ns)
    }

    #[test]
    fn time_off_a_core_is_split_at_the_moment_when_the_thread_is_ready() {
        let on = Kind::Switch { next: 7, is_ready: true, is_for_lock: false };
        let gathered = gathered(&[
            (100, 7, SLEEPS, 3),
            (250, 9, Kind::Wakeup { tid: 7 }, 0),
            (300, 9, on, 4),
            (400, 7, LOCKED, 5),
            (600, 9, on, 4),
            (700, 7, Kind::Switch { next: 9, is_ready: true, is_for_lock: false }, 6),
            (720, 9, on, 4),
            (900, 7, SLEEPS, 3),
        ]);
        assert_eq!(ns(&gathered, 7, Spent::Asleep { is_for_lock: false }, 3), 150 + 100);
        assert_eq!(ns(&gathered, 7, Spent::Ready, 3), 50);
        assert_eq!(ns(&gathered, 7, Spent::Asleep { is_for_lock: true }, 5), 200);
        assert_eq!(ns(&gathered, 7, Spent::Ready, 6), 20);
        assert!(gathered.sums.keys().all(|(tid, ..)| *tid == 7), "other threads are not the subject's");
    }

    #[test]
    fn samples_count_for_their_thread_and_interrupts_for_none() {
        let gathered = gathered(&[
            (1, 7, Kind::OnCore, 1),
            (2, 7, Kind::OnCore, 1),
            (3, 0, Kind::OnCore, 2),
            (4, 8, Kind::OnCore, 1),
            (1001, 7, Kind::OnCore, 1),
        ]);
        assert_eq!((ns(&gathered, 7, Spent::OnCore, 1), ns(&gathered, 0, Spent::OnCore, 2)), (20, 10));
        assert_eq!((gathered.samples, gathered.sums.len()), (2, 2));
    }

    #[test]
    fn a_wait_that_begins_twice_is_one_and_others_may_lie_in_it() {
        let begins = |lock, flags| Kind::LockBegins { lock, flags };
        let gathered = gathered(&[
            (100, 7, begins(1, 33), 3),
            (150, 7, begins(1, 32), 4),
            (160, 7, begins(2, 1), 5),
            (170, 7, Kind::LockEnds { lock: 2 }, 0),
            (200, 7, Kind::LockEnds { lock: 1 }, 0),
            (210, 7, Kind::LockEnds { lock: 9 }, 0),
            (990, 7, begins(1, 33), 3),
            (300, 8, begins(1, 1), 3),
        ]);
        let wanted = [((33, 3), Total { count: 2, ns: 110 }), ((1, 5), Total { count: 1, ns: 10 })];
        assert_eq!(gathered.locks, wanted.into());
    }
}
