//! Folds samples with the names of their functions into facts: the time of each thread, the locks, and one tree of all
//! call chains.

use std::collections::{BTreeMap, HashMap};

use kqps_kernel::perf::Frame;
use kqps_observation::profile::{LockFacts, ProfileFacts, StackNode, ThreadProfile, ThreadTimes};

use super::classify::{self, Name, State};
use super::collect::{Gathered, Spent};

/// Threads beyond this number are summed up.
const THREADS_MOST: usize = 64;

/// Locks beyond this number are left out.
const LOCKS_MOST: usize = 40;

/// A function whose share of all time on a core is less counts for its caller.
const SHARE_LEAST: f64 = 0.002;

/// Functions beyond this depth count for their caller.
const DEPTH_MOST: usize = 64;

/// Names of the functions of a process at these addresses, innermost first.
pub(super) type Names<'a> = &'a mut dyn FnMut(u32, &[Frame]) -> Vec<Name>;

/// Folds what was gathered.
pub(super) fn facts(gathered: Gathered, names: Names<'_>) -> ProfileFacts {
    let Gathered { sums, locks: kernel_locks, stacks, threads, samples, lost } = gathered;
    let chains: HashMap<u32, Vec<Name>> =
        stacks.iter().map(|(number, (pid, frames))| (*number, names(*pid, frames))).collect();
    let chain = |number: u32| chains.get(&number).map_or(&[][..], Vec::as_slice);
    let mut times: BTreeMap<u32, ThreadTimes> = BTreeMap::new();
    let mut locks = Locks::default();
    let mut tree = Tree::default();
    for ((tid, spent, stack), total) in sums {
        let (chain, seconds) = (chain(stack), total.ns as f64 / 1e9);
        let state = match spent {
            Spent::OnCore => classify::on_core(chain),
            Spent::Asleep { is_for_lock } => classify::asleep(chain, is_for_lock),
            Spent::Ready => State::Core,
        };
        // Of other threads only interrupts are of interest.
        if tid == 0 && state != State::Softirq {
            continue;
        }
        *of_state(times.entry(tid).or_default(), state) += seconds;
        if spent == Spent::OnCore {
            tree.add(chain, seconds);
        }
        let is_of_program = chain.iter().any(|name| name.kernel && name.text.contains("futex"));
        if state == State::Lock && is_of_program {
            locks.add(classify::program_lock(chain), total.count, seconds);
        }
    }
    for ((flags, stack), total) in kernel_locks {
        locks.add(classify::kernel_lock(chain(stack), flags), total.count, total.ns as f64 / 1e9);
    }
    ProfileFacts {
        samples,
        lost,
        threads: threads_of(times, &threads),
        locks: locks.most(),
        stacks: tree.nodes(),
        ..ProfileFacts::default()
    }
}

pub(super) fn of_state(times: &mut ThreadTimes, state: State) -> &mut f64 {
    match state {
        State::User => &mut times.user_s,
        State::System => &mut times.system_s,
        State::Softirq => &mut times.softirq_s,
        State::Spinning => &mut times.spinning_s,
        State::Lock => &mut times.lock_s,
        State::Io => &mut times.io_s,
        State::Sleep => &mut times.sleep_s,
        State::Core => &mut times.core_s,
    }
}

/// The threads with their names, those with the most time on a core first.
pub(super) fn threads_of(
    times: BTreeMap<u32, ThreadTimes>,
    names: &BTreeMap<u32, (u32, String)>,
) -> Vec<ThreadProfile> {
    let named = |(tid, times): (u32, ThreadTimes)| {
        let (pid, name) = names.get(&tid).cloned().unwrap_or_else(|| (0, "interrupts".into()));
        ThreadProfile { pid, tid, name, times }
    };
    let mut threads: Vec<ThreadProfile> = times.into_iter().map(named).collect();
    threads.sort_by(|one, other| other.times.on_core_s().total_cmp(&one.times.on_core_s()));
    if threads.len() > THREADS_MOST {
        let rest = threads.split_off(THREADS_MOST - 1);
        let mut others = ThreadProfile { name: format!("{} others", rest.len()), ..ThreadProfile::default() };
        rest.iter().for_each(|thread| others.times.add(&thread.times));
        threads.push(others);
    }
    threads
}

/// Locks by kind, place and callers.
#[derive(Default)]
pub(super) struct Locks(HashMap<(String, String, Vec<String>), (u64, f64)>);

impl Locks {
    pub(super) fn add(&mut self, lock: LockFacts, waits: u64, seconds: f64) {
        let sum = self.0.entry((lock.kind, lock.place, lock.callers)).or_default();
        *sum = (sum.0 + waits, sum.1 + seconds);
    }

    /// Those with the most time.
    pub(super) fn most(self) -> Vec<LockFacts> {
        let facts =
            |((kind, place, callers), (waits, seconds))| LockFacts { kind, place, callers, waits, seconds };
        let mut locks: Vec<LockFacts> = self.0.into_iter().map(facts).collect();
        locks.sort_by(|one, other| {
            other.seconds.total_cmp(&one.seconds).then_with(|| one.callers.cmp(&other.callers))
        });
        locks.truncate(LOCKS_MOST);
        locks
    }
}

/// A tree of call chains, from the outermost function on.
#[derive(Default)]
struct Tree {
    own_s: f64,
    children: BTreeMap<(bool, String), Tree>,
}

impl Tree {
    fn add(&mut self, chain: &[Name], seconds: f64) {
        let mut at = self;
        let mut last: Option<&Name> = None;
        for name in chain.iter().rev().take(DEPTH_MOST) {
            // Files without symbols have one name for all their functions.
            if last == Some(name) && name.text.starts_with('[') {
                continue;
            }
            at = at.children.entry((name.kernel, name.text.clone())).or_default();
            last = Some(name);
        }
        at.own_s += seconds;
    }

    fn seconds(&self) -> f64 {
        self.own_s + self.children.values().map(Self::seconds).sum::<f64>()
    }

    /// The functions as a list, parents before children, without small ones.
    fn nodes(&self) -> Vec<StackNode> {
        let mut nodes = Vec::new();
        self.list(None, self.seconds() * SHARE_LEAST, &mut nodes);
        nodes
    }

    fn list(&self, parent: Option<u32>, least_s: f64, nodes: &mut Vec<StackNode>) {
        for ((kernel, name), child) in &self.children {
            let seconds = child.seconds();
            if seconds < least_s {
                continue;
            }
            let small = child.children.values().map(Self::seconds).filter(|seconds| *seconds < least_s);
            let own_s = child.own_s + small.sum::<f64>();
            let number = nodes.len() as u32;
            nodes.push(StackNode { name: name.clone(), kernel: *kernel, parent, seconds, own_s });
            child.list(Some(number), least_s, nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::collect::Total;
    use super::*;

    fn total(count: u64, ms: u64) -> Total {
        Total { count, ns: ms * 1_000_000 }
    }

    /// Addresses as names: above 100 those of the kernel.
    fn names(_: u32, frames: &[Frame]) -> Vec<Name> {
        let of = |frame: &Frame| {
            let (address, kernel) = match frame {
                Frame::Kernel(address) => (address, true),
                Frame::User(address) => (address, false),
            };
            let text = match address {
                1 => "main",
                2 => "answer",
                101 => "udp_recvmsg",
                102 => "handle_softirqs",
                103 => "queued_spin_lock_slowpath",
                104 => "futex_wait_queue",
                105 => "ep_poll",
                _ => "small",
            };
            Name { text: text.into(), kernel }
        };
        frames.iter().map(of).collect()
    }

    fn gathered() -> Gathered {
        let chain = |kernel: &[u64], user: &[u64]| -> (u32, Box<[Frame]>) {
            let kernel = kernel.iter().map(|address| Frame::Kernel(*address));
            (5, kernel.chain(user.iter().map(|address| Frame::User(*address))).collect())
        };
        let stacks = HashMap::from([
            (1, chain(&[], &[2, 1])),
            (2, chain(&[101], &[2, 1])),
            (3, chain(&[102, 101], &[2, 1])),
            (4, chain(&[103, 101], &[2, 1])),
            (5, chain(&[104], &[2, 1])),
            (6, chain(&[105], &[1])),
            (7, chain(&[106, 101], &[2, 1])),
        ]);
        let sums = HashMap::from([
            ((7, Spent::OnCore, 1), total(100, 200)),
            ((7, Spent::OnCore, 2), total(155, 310)),
            ((8, Spent::OnCore, 3), total(50, 100)),
            ((8, Spent::OnCore, 4), total(199, 398)),
            ((8, Spent::OnCore, 7), total(1, 2)),
            ((7, Spent::Asleep { is_for_lock: true }, 5), total(40, 250)),
            ((8, Spent::Asleep { is_for_lock: false }, 5), total(1, 60)),
            ((8, Spent::Asleep { is_for_lock: false }, 6), total(9, 70)),
            ((8, Spent::Ready, 6), total(9, 30)),
            ((0, Spent::OnCore, 3), total(5, 10)),
            ((0, Spent::OnCore, 2), total(5, 10)),
        ]);
        let threads = BTreeMap::from([(7, (5, "one".to_owned())), (8, (5, "other".to_owned()))]);
        let locks = HashMap::from([((1, 4), total(30, 390))]);
        Gathered { sums, locks, stacks, threads, samples: 500, lost: 3 }
    }

    #[test]
    fn known_samples_have_known_shares() {
        let facts = facts(gathered(), &mut names);
        let of = |tid: u32| {
            let thread = facts.threads.iter().find(|thread| thread.tid == tid).unwrap();
            thread.times.seconds().map(|seconds| (seconds * 1e3).round() as u64)
        };
        assert_eq!(of(7), [200, 310, 0, 0, 250, 0, 0, 0]);
        assert_eq!(of(8), [0, 2, 100, 398, 0, 70, 60, 30]);
        assert_eq!(
            of(0),
            [0, 0, 10, 0, 0, 0, 0, 0],
            "what idle cores did in system calls is not the subject's"
        );
        assert_eq!((facts.threads[0].tid, facts.threads[0].name.as_str()), (7, "one"));
        assert_eq!((facts.samples, facts.lost), (500, 3));
        assert!((facts.times().all_s() - 1.43).abs() < 1e-9);
    }

    #[test]
    fn locks_are_named_with_how_long_they_were_waited_for() {
        let facts = facts(gathered(), &mut names);
        let locks: Vec<_> = facts.locks.iter().map(|lock| (lock.place.as_str(), lock.waits)).collect();
        assert_eq!(locks, [("udp_recvmsg", 30), ("answer", 40)]);
        assert_eq!([facts.locks[0].kind.as_str(), facts.locks[1].kind.as_str()], ["spinlock", "futex"]);
        assert!((facts.locks[1].seconds - 0.25).abs() < 1e-9, "{:?}", facts.locks);
    }

    #[test]
    fn chains_fold_into_one_tree_whose_small_functions_count_for_their_callers() {
        let facts = facts(gathered(), &mut names);
        let shown: Vec<String> = facts
            .stacks
            .iter()
            .map(|node| {
                let parent = node.parent.map_or("", |parent| facts.stacks[parent as usize].name.as_str());
                format!("{parent}>{} {:.0} {:.0}", node.name, node.seconds * 1e3, node.own_s * 1e3)
            })
            .collect();
        let wanted = [
            ">main 1020 0",
            "main>answer 1020 200",
            "answer>udp_recvmsg 820 312",
            "udp_recvmsg>handle_softirqs 110 110",
            "udp_recvmsg>queued_spin_lock_slowpath 398 398",
        ];
        assert_eq!(shown, wanted);
    }
}
