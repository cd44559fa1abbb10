//! Sums up samples: time on a core by thread and call chain, time off it by what the thread left it for, and waits for
//! locks. Records come ring by ring, and are looked at in the order of their times.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kqps_kernel::perf::Sample;

use super::classify::State;
use super::members::Members;
use super::stacks::{ByNumber, StackId, Stacks, TakenBy, Told};
use super::symbols::Kernel;

/// The kind of a record, with its details.
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
        /// The lock of the program that it leaves to wait for, if it waits in futex(2), by its address.
        lock: Option<u64>,
    },
    /// Another thread becomes ready.
    Wakeup { tid: u32 },
    /// Events before this moment are missing: what went on may have ended in between.
    Lost,
}

/// How a thread spent its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spent {
    /// It ran.
    OnCore,
    /// It slept; its call chain says for what.
    Asleep {
        /// As in [`Kind::Switch`].
        lock: Option<u64>,
    },
    /// It was ready.
    Ready,
}

/// How often, and for how long altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) ns: u64,
    /// Nanoseconds of waits whose end was not seen, up to the moment at which their thread was seen on a core.
    pub(super) open_ns: u64,
}

impl Total {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
    }

    fn add_open(&mut self, ns: u64) {
        self.count += 1;
        self.open_ns += ns;
    }
}

/// More sums than these are not kept apart.
const SUMS_MOST: usize = 1 << 16;

/// Records that wait for their turn. If there are more, the oldest are looked at before all of their time are read.
const WAITING_MOST: usize = 1 << 18;

/// A thread waits for this many locks at once at most: interrupts have locks, too.
const LOCKS_MOST: usize = 4;

/// Whose thread a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Subject,
    /// A thread of the kernel that handles interrupts on a core of the subject.
    Interrupts,
    Others,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time_ns: u64,
    tid: u32,
    whose: Whose,
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
    /// Events that were read, and those that the kernel dropped.
    events: [u64; 2],
    lost: u64,
    /// Whether the next record follows a gap.
    is_after_gap: bool,
}

/// The sums of a profile, with its call chains, threads and counts.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Thread, what it did and its call chain → how long.
    pub(super) sums: HashMap<(u32, Spent, StackId), Total>,
    /// Kind of a lock and call chain → how long threads waited.
    pub(super) locks: HashMap<(u32, StackId), Total>,
    /// The call chains, with their process.
    pub(super) stacks: ByNumber,
    /// Thread → its process and its name.
    pub(super) threads: BTreeMap<u32, (u32, String)>,
    /// Thread → its CPU time by the kernel's own count, nanoseconds.
    pub(super) kernel_ns: BTreeMap<u32, u64>,
    /// How long was sampled, nanoseconds.
    pub(super) span_ns: u64,
    pub(super) samples: u64,
    /// Samples and events that the kernel dropped.
    pub(super) lost: u64,
    /// Events that were read, and those that the kernel dropped.
    pub(super) events: [u64; 2],
    /// Samples and events whose call chain had no room.
    pub(super) roomless: u64,
}

impl Collector {
    /// A collector for a clock with this period.
    pub(super) fn new(period_ns: u64, kernel: Arc<Kernel>) -> Self {
        Self {
            period_ns,
            stacks: Stacks::new(kernel),
            waiting: Vec::new(),
            threads: HashMap::new(),
            sums: HashMap::new(),
            locks: HashMap::new(),
            samples: 0,
            events: [0; 2],
            lost: 0,
            is_after_gap: false,
        }
    }

    /// Takes a sample, which is looked at later. Only chains of the subject are kept.
    pub(super) fn take(&mut self, sample: &Sample<'_>, kind: Kind, members: &mut Members) {
        let Some(whose) = self.whose(kind, sample.pid, sample.tid, members) else { return };
        let stack = match kind {
            _ if whose == Whose::Others => 0,
            Kind::OnCore => self.stacks.number(sample, TakenBy::Clock, |told| told.on_core),
            Kind::Switch { is_ready, lock, .. } => {
                let spent = left_for(is_ready, lock);
                self.stacks.number(sample, TakenBy::Event, |told| state(spent, told))
            }
            Kind::LockBegins { .. } => self.stacks.number(sample, TakenBy::Event, |_| State::Lock),
            Kind::LockEnds { .. } | Kind::Wakeup { .. } | Kind::Lost => 0,
        };
        self.push(Entry { time_ns: sample.time_ns, tid: sample.tid, whose, kind, stack });
    }

    /// Whose thread a record is about; `None` if the record shows nothing of the subject.
    fn whose(&mut self, kind: Kind, pid: u32, tid: u32, members: &mut Members) -> Option<Whose> {
        self.events[0] += u64::from(kind != Kind::OnCore);
        if members.has(pid, tid) {
            return Some(Whose::Subject);
        }
        let is_of_subject = match kind {
            Kind::OnCore => return members.handles_interrupts(tid).then_some(Whose::Interrupts),
            Kind::Switch { next, .. } => members.knows(next),
            Kind::Wakeup { tid } => members.knows(tid),
            Kind::LockBegins { .. } | Kind::LockEnds { .. } | Kind::Lost => false,
        };
        is_of_subject.then_some(Whose::Others)
    }

    fn push(&mut self, entry: Entry) {
        if std::mem::take(&mut self.is_after_gap) {
            self.waiting.push(lost_at(entry.time_ns));
        }
        self.waiting.push(entry);
    }

    /// Counts samples of the clock that the kernel dropped.
    pub(super) fn lose_samples(&mut self, count: u64) {
        self.lost += count;
    }

    /// Counts events that the kernel dropped, as was found at this time. Whatever goes on may have ended meanwhile, so
    /// its duration is not known.
    pub(super) fn lose_events(&mut self, count: u64, found_ns: u64) {
        self.lost += count;
        self.events[1] += count;
        self.is_after_gap = true;
        self.waiting.push(lost_at(found_ns));
    }

    /// Looks at all records until a time, at which every older record has been taken.
    pub(super) fn settle(&mut self, until_ns: u64) {
        self.waiting.sort_by_key(|entry| entry.time_ns);
        let settled = self.waiting.partition_point(|entry| entry.time_ns <= until_ns);
        let settled = settled.max(self.waiting.len().saturating_sub(WAITING_MOST));
        let entries: Vec<Entry> = self.waiting.drain(..settled).collect();
        for entry in entries {
            self.look(entry);
        }
    }

    /// Ends all that goes on at the end.
    pub(super) fn finish(&mut self, end_ns: u64) {
        // A loss that was found after the end may lie before it.
        let is_cut = self.waiting.iter().any(|entry| entry.kind == Kind::Lost && entry.time_ns > end_ns);
        self.waiting.retain(|entry| entry.time_ns <= end_ns);
        self.settle(end_ns);
        if is_cut {
            self.threads.clear();
        }
        for (tid, thread) in std::mem::take(&mut self.threads) {
            for wait in thread.waits {
                self.add_lock(wait, end_ns);
            }
            if let Some(off) = thread.off {
                self.back(tid, off, end_ns);
            }
        }
    }

    fn look(&mut self, entry: Entry) {
        let Entry { time_ns, tid, whose, kind, stack } = entry;
        if whose == Whose::Subject {
            self.seen_on_core(tid, time_ns);
        }
        match kind {
            Kind::OnCore if whose == Whose::Subject => {
                self.samples += 1;
                self.add(tid, Spent::OnCore, stack, self.period_ns);
            }
            Kind::OnCore => self.add(0, Spent::OnCore, stack, self.period_ns),
            Kind::LockBegins { lock, flags } => {
                let waits = &mut self.threads.entry(tid).or_default().waits;
                // A wait may begin twice, first awake and then asleep.
                if waits.len() < LOCKS_MOST && waits.iter().all(|wait| wait.lock != lock) {
                    waits.push(Wait { lock, since_ns: time_ns, flags, stack });
                }
            }
            Kind::LockEnds { lock } => {
                let waits = &mut self.threads.entry(tid).or_default().waits;
                if let Some(at) = waits.iter().position(|wait| wait.lock == lock) {
                    let wait = waits.swap_remove(at);
                    self.add_lock(wait, time_ns);
                }
            }
            Kind::Switch { next, is_ready, lock } => {
                if whose == Whose::Subject {
                    let spent = left_for(is_ready, lock);
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
            Kind::Lost => self.threads.clear(),
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

    /// A thread does something. If it is not known since when it has a core, the end of its wait was not seen.
    fn seen_on_core(&mut self, tid: u32, at_ns: u64) {
        let Some(off) = self.threads.get_mut(&tid).and_then(|thread| thread.off.take()) else { return };
        let Off { since_ns, spent, stack, ready_ns } = off;
        match ready_ns.filter(|_| spent != Spent::Ready) {
            Some(ready_ns) => {
                self.add(tid, spent, stack, ready_ns.saturating_sub(since_ns));
                self.sum(tid, Spent::Ready, stack).add_open(at_ns.saturating_sub(ready_ns));
            }
            None => self.sum(tid, spent, stack).add_open(at_ns.saturating_sub(since_ns)),
        }
    }

    fn add(&mut self, tid: u32, spent: Spent, stack: StackId, ns: u64) {
        self.sum(tid, spent, stack).add(ns);
    }

    fn sum(&mut self, tid: u32, spent: Spent, stack: StackId) -> &mut Total {
        let mut key = (tid, spent, stack);
        if self.sums.len() >= SUMS_MOST && !self.sums.contains_key(&key) {
            let stack = self.stacks.without_room(stack, |told| state(spent, told));
            // Locks without room are not kept apart either.
            let spent =
                if matches!(spent, Spent::Asleep { .. }) { Spent::Asleep { lock: None } } else { spent };
            key = (tid, spent, stack);
        }
        self.sums.entry(key).or_default()
    }

    fn add_lock(&mut self, wait: Wait, end_ns: u64) {
        let total = self.locks.entry((wait.flags, wait.stack)).or_default();
        total.add(end_ns.saturating_sub(wait.since_ns));
    }

    /// All that was summed up in a time of `span_ns`, with the CPU time of threads by the kernel's own count.
    pub(super) fn gathered(self, members: Members, kernel_ns: BTreeMap<u32, u64>, span_ns: u64) -> Gathered {
        let (stacks, roomless) = self.stacks.all();
        Gathered {
            sums: self.sums,
            locks: self.locks,
            stacks,
            threads: members.into_threads(),
            kernel_ns,
            span_ns,
            samples: self.samples,
            lost: self.lost,
            events: self.events,
            roomless,
        }
    }
}

fn lost_at(time_ns: u64) -> Entry {
    Entry { time_ns, tid: 0, whose: Whose::Others, kind: Kind::Lost, stack: 0 }
}

/// How a thread spends its time after it leaves its core.
fn left_for(is_ready: bool, lock: Option<u64>) -> Spent {
    if is_ready { Spent::Ready } else { Spent::Asleep { lock } }
}

/// The state of a thread by its call chain.
fn state(spent: Spent, told: Told) -> State {
    match spent {
        Spent::OnCore => told.on_core,
        Spent::Asleep { lock } => told.asleep[usize::from(lock.is_some())],
        Spent::Ready => State::Core,
    }
}

/// A record as tests write it: its time, the process and the thread that ran, what it is about, and its chain.
#[cfg(test)]
pub(super) type Written = (u64, [u32; 2], Kind, StackId);

#[cfg(test)]
impl Collector {
    /// Takes a record that a test wrote.
    pub(super) fn take_written(&mut self, record: Written, members: &mut Members) {
        let (time_ns, [pid, tid], kind, stack) = record;
        if let Some(whose) = self.whose(kind, pid, tid, members) {
            self.push(Entry { time_ns, tid, whose, kind, stack });
        }
    }
}

#[cfg(test)]
mod tests;
