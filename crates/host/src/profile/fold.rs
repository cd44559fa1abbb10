//! Folds samples with the names of their functions into facts: the time of each thread, the locks, and one tree of all
//! call chains.

use std::collections::{BTreeMap, HashMap};

use kqps_kernel::perf::Frame;
use kqps_observation::profile::{ProfileFacts, StackNode, ThreadProfile, ThreadTimes};

use super::classify::{self, Name, State};
use super::collect::{Gathered, Spent};
use super::locks::Locks;
use super::open;
use super::stacks::state_without_room;

/// Threads beyond this number are summed up.
const THREADS_MOST: usize = 64;

/// A function whose share of all time on a core is less has no node of its own.
const SHARE_LEAST: f64 = 0.002;

/// If the kernel dropped a greater share of the events, no wait is known: what ends a wait may be among them.
const LOST_MOST: f64 = 0.01;

/// Names of the functions of a process at these addresses, innermost first.
pub(super) type Names<'a> = &'a mut dyn FnMut(u32, &[Frame]) -> Vec<Name>;

/// Folds what was gathered.
pub(super) fn facts(mut gathered: Gathered, names: Names<'_>) -> ProfileFacts {
    let open_share = open::close(&mut gathered);
    let (factors, sampled_share) = factors(&gathered);
    let Gathered { sums, locks: kernel_locks, stacks, threads, samples, lost, events, roomless, .. } =
        gathered;
    let chains: HashMap<u32, Vec<Name>> =
        stacks.iter().map(|(number, (pid, frames))| (*number, names(*pid, frames))).collect();
    let chain = |number: u32| chains.get(&number).map_or(&[][..], Vec::as_slice);
    let mut unreadable = BTreeMap::new();
    let has_waits = events[1] as f64 <= LOST_MOST * (events[0] + events[1]) as f64;
    if !has_waits {
        let why = format!("the kernel dropped {} of {} events", events[1], events[0] + events[1]);
        unreadable.insert("waits".into(), why);
    }
    if has_waits && open_share > LOST_MOST {
        let why = format!("the kernel did not report them for {:.0} % of the waiting", open_share * 100.0);
        unreadable.insert("the ends of some waits".into(), why);
    }
    if roomless > 0 {
        let why = format!("{roomless} samples and events came when the table of call chains was full");
        unreadable.insert("some call chains".into(), why);
    }
    let mut times: BTreeMap<u32, ThreadTimes> = BTreeMap::new();
    let (mut locks, mut spun) = (Locks::default(), Locks::default());
    let mut tree = Tree::default();
    for ((tid, spent, stack), total) in sums {
        let factor = if spent == Spent::OnCore { factors.get(&tid).copied().unwrap_or(1.0) } else { 1.0 };
        let (chain, seconds) = (chain(stack), factor * total.ns as f64 / 1e9);
        let state = state_without_room(stack).unwrap_or_else(|| match spent {
            Spent::OnCore => classify::on_core(chain),
            Spent::Asleep { lock } => classify::asleep(chain, lock.is_some()),
            Spent::Ready => State::Core,
        });
        // Other threads matter only for their interrupts.
        if tid == 0 && state != State::Softirq || spent != Spent::OnCore && !has_waits {
            continue;
        }
        *of_state(times.entry(tid).or_default(), state) += seconds;
        match (spent, state) {
            (Spent::OnCore, _) => tree.add(chain, seconds),
            (Spent::Asleep { lock }, State::Lock) => {
                let is_of_program = chain.iter().any(|name| name.kernel && name.text.contains("futex"));
                if let Some(socket) = classify::socket_lock(chain) {
                    locks.add(socket, total.count, seconds);
                } else if is_of_program || chain.is_empty() || classify::is_unnamed(chain) {
                    locks.add(classify::program_lock(chain, lock), total.count, seconds);
                }
            }
            _ => {}
        }
        if state == State::Spinning && !chain.is_empty() {
            spun.add(classify::spinning_lock(chain), 0, seconds);
        }
    }
    if has_waits {
        for ((flags, stack), total) in kernel_locks {
            let lock = classify::kernel_lock(chain(stack), flags);
            locks.add(lock, total.count, total.ns as f64 / 1e9);
        }
        // The kernel reports a wait for a spinlock from the third thread on: the second one spins without an event.
        locks.raise_to(spun);
    }
    ProfileFacts {
        samples,
        lost,
        sampled_share,
        threads: threads_of(times, &threads),
        locks: locks.most(),
        stacks: tree.nodes(),
        unreadable,
        ..ProfileFacts::default()
    }
}

/// Factors that the samples of each thread are multiplied with to show the CPU time that the kernel counted for it, and
/// the share of that time that samples show over all of these threads. Timers are late while interrupts are off and
/// while a hypervisor runs something else.
fn factors(gathered: &Gathered) -> (HashMap<u32, f64>, Option<f64>) {
    let mut sampled_ns: HashMap<u32, u64> = HashMap::new();
    for ((tid, spent, _), total) in &gathered.sums {
        if *spent == Spent::OnCore {
            *sampled_ns.entry(*tid).or_default() += total.ns;
        }
    }
    let counted = |tid: &u32| gathered.kernel_ns.get(tid).copied().filter(|ns| *ns > 0);
    let pairs = sampled_ns.iter().filter_map(|(tid, ns)| Some((*tid, *ns as f64, counted(tid)? as f64)));
    let (mut factors, mut sums) = (HashMap::new(), [0.0; 2]);
    for (tid, sampled_ns, kernel_ns) in pairs {
        factors.insert(tid, kernel_ns / sampled_ns);
        sums = [sums[0] + sampled_ns, sums[1] + kernel_ns];
    }
    (factors, (sums[1] > 0.0).then(|| sums[0] / sums[1]))
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
        for thread in &rest {
            others.times += thread.times;
        }
        threads.push(others);
    }
    threads
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
        for name in chain.iter().rev().take(StackNode::DEPTH_MOST) {
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

    /// The functions as a list, parents before children. All time on a core is in it.
    fn nodes(&self) -> Vec<StackNode> {
        let (mut nodes, least_s) = (Vec::new(), self.seconds() * SHARE_LEAST);
        self.list(None, least_s, &mut nodes);
        let small = self.children.values().map(Self::seconds).filter(|seconds| *seconds < least_s);
        // The time of small functions without a caller, and of samples without a call chain.
        others(None, self.own_s + small.sum::<f64>(), &mut nodes);
        nodes
    }

    fn list(&self, parent: Option<u32>, least_s: f64, nodes: &mut Vec<StackNode>) {
        for ((kernel, name), child) in &self.children {
            let seconds = child.seconds();
            if seconds < least_s {
                continue;
            }
            let small = child.children.values().map(Self::seconds).filter(|seconds| *seconds < least_s);
            let small_s = small.sum::<f64>();
            // Many small functions are seen together, and a few count for their caller.
            let has_others = small_s >= least_s && small_s > 0.0;
            let own_s = child.own_s + if has_others { 0.0 } else { small_s };
            let number = u32::try_from(nodes.len()).expect("each node has its share of the time");
            nodes.push(StackNode { name: name.clone(), kernel: *kernel, parent, seconds, own_s });
            child.list(Some(number), least_s, nodes);
            if has_others {
                others(Some(number), small_s, nodes);
            }
        }
    }
}

/// Adds the node of the functions that are too small to be told apart, if they take any time.
fn others(parent: Option<u32>, seconds: f64, nodes: &mut Vec<StackNode>) {
    if seconds > 0.0 {
        let name = StackNode::OTHERS.to_owned();
        let kernel = parent.is_some_and(|parent| nodes[parent as usize].kernel);
        nodes.push(StackNode { name, kernel, parent, seconds, own_s: seconds });
    }
}

#[cfg(test)]
mod tests {
    use super::super::collect::Total;
    use super::*;

    fn total(count: u64, ms: u64) -> Total {
        Total { count, ns: ms * 1_000_000, open_ns: 0 }
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
            ((7, Spent::Asleep { lock: Some(0x7f00) }, 5), total(40, 250)),
            ((8, Spent::Asleep { lock: None }, 5), total(1, 60)),
            ((8, Spent::Asleep { lock: None }, 6), total(9, 70)),
            ((8, Spent::Ready, 6), total(9, 30)),
            ((0, Spent::OnCore, 3), total(5, 10)),
            ((0, Spent::OnCore, 2), total(5, 10)),
        ]);
        let threads = BTreeMap::from([(7, (5, "one".to_owned())), (8, (5, "other".to_owned()))]);
        let locks = HashMap::from([((1, 4), total(30, 390))]);
        Gathered { sums, locks, stacks, threads, samples: 500, lost: 3, ..Gathered::default() }
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
        // Events show 390 ms of 398 ms of spinning: the second thread at a lock spins without an event.
        assert!((facts.locks[0].seconds - 0.398).abs() < 1e-9, "{:?}", facts.locks);
        assert_eq!(locks, [("udp_recvmsg", 30), ("answer", 40)]);
        assert_eq!([facts.locks[0].kind.as_str(), facts.locks[1].kind.as_str()], ["spinlock", "futex"]);
        assert!((facts.locks[1].seconds - 0.25).abs() < 1e-9, "{:?}", facts.locks);
    }

    #[test]
    fn two_threads_at_a_spinlock_are_seen_without_any_event() {
        let facts = facts(Gathered { locks: HashMap::new(), ..gathered() }, &mut names);
        let lock = facts.locks.iter().find(|lock| lock.kind == "spinlock").unwrap();
        assert_eq!((lock.place.as_str(), lock.waits), ("udp_recvmsg", 0));
        assert!((lock.seconds - 0.398).abs() < 1e-9);
    }

    #[test]
    fn times_on_a_core_are_those_that_the_kernel_counted() {
        let mut gathered = gathered();
        // Samples show 510 ms and 500 ms.
        gathered.kernel_ns = [(7, 1_020_000_000), (8, 1_000_000_000)].into();
        let facts = facts(gathered, &mut names);
        assert!((facts.sampled_share.unwrap() - 0.5).abs() < 1e-9);
        let one = facts.threads.iter().find(|thread| thread.tid == 7).unwrap();
        assert!((one.times.user_s - 0.4).abs() < 1e-9 && (one.times.system_s - 0.62).abs() < 1e-9);
        assert!((one.times.lock_s - 0.25).abs() < 1e-9, "waits are measured from event to event");
        let roots: f64 =
            facts.stacks.iter().filter(|node| node.parent.is_none()).map(|node| node.seconds).sum();
        assert!((roots - 2.03).abs() < 1e-9, "and so is the drawing: {roots}");
    }

    #[test]
    fn no_wait_is_known_if_many_events_were_lost() {
        let facts_of = |lost| facts(Gathered { events: [1000 - lost, lost], ..gathered() }, &mut names);
        assert_eq!((facts_of(10).locks.len(), facts_of(10).unreadable.len()), (2, 0));
        let lost = facts_of(11);
        assert_eq!(lost.unreadable["waits"], "the kernel dropped 11 of 1000 events");
        let times = lost.times();
        assert!(lost.locks.is_empty() && times.lock_s + times.io_s + times.sleep_s + times.core_s == 0.0);
        assert!(times.on_core_s() > 1.0, "samples of the clock stay");
    }

    #[test]
    fn small_functions_without_a_caller_are_in_a_box_of_their_own() {
        let mut tree = Tree::default();
        let chain = |text: String| [Name { text, kernel: false }];
        tree.add(&chain("main".into()), 0.9);
        (0..100).for_each(|number| tree.add(&chain(format!("small{number}")), 0.001));
        tree.add(&[], 0.05);
        let nodes = tree.nodes();
        assert_eq!(
            nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
            ["main", StackNode::OTHERS]
        );
        assert!((nodes[1].seconds - 0.15).abs() < 1e-9, "{nodes:?}");
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
