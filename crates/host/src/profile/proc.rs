//! Profiles without any right to sample: the state of each thread, read from `/proc` a hundred times a second. It shows
//! what threads wait for, but not which functions run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kqps_observation::profile::{LockFacts, ProfileFacts, ProfileSource, ThreadTimes};

use super::classify::{Name, State, asleep};
use super::fold::{of_state, threads_of};
use super::locks::Locks;
use super::members::Members;
use crate::process::{Thread, ticks_ns};

/// Readings a second.
const HZ: f64 = 100.0;

/// The pause between two readings.
const PAUSE: Duration = Duration::from_millis(10);

/// In one reading the states of this many threads are read; further ones have their turn in the next readings.
const THREADS_MOST: usize = 64;

/// Time asleep whose reason was not seen is reported from this share of the profile's time on.
const UNKNOWN_MOST: f64 = 0.1;

/// Readings of the threads' states from `/proc`.
#[derive(Debug, Default)]
pub(super) struct Read {
    members: Members,
    /// How often a thread was found in a state.
    seen: BTreeMap<u32, ThreadReadings>,
    samples: u64,
    /// File of a thread → why it could not be read, for the first thread.
    unreadable: BTreeMap<String, String>,
}

/// A thread over all readings.
#[derive(Debug, Default)]
struct ThreadReadings {
    /// The reason of a sleep, as its place in [`ASLEEP`], and the kernel's function → readings.
    waiting: BTreeMap<(usize, String), u64>,
    /// Its times at the first reading and at the last one.
    times: Option<[Times; 2]>,
}

/// The states of a thread that sleeps.
const ASLEEP: [State; 3] = [State::Lock, State::Io, State::Sleep];

/// The kernel's own times of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    user_ns: u64,
    system_ns: u64,
    on_cpu_ns: u64,
    /// Ready, but without a core.
    ready_ns: u64,
}

/// Reads the states of all threads of these processes until the given time is not 0.
pub(super) fn read(pids: &[u32], stop_ns: &AtomicU64) -> Read {
    let mut read = Read { members: Members::read(pids), ..Read::default() };
    let mut next = 0;
    while stop_ns.load(Ordering::Acquire) == 0 {
        let threads: Vec<(u32, u32)> = read.members.pairs().collect();
        let turns = threads.len().min(THREADS_MOST);
        for _ in 0..turns {
            let (pid, tid) = threads[next % threads.len()];
            next += 1;
            read.look(pid, tid);
        }
        if read.samples.is_multiple_of(32) {
            read.members.look(pids);
        }
        std::thread::sleep(PAUSE);
    }
    read
}

impl Read {
    fn look(&mut self, pid: u32, tid: u32) {
        let folder = format!("/proc/{pid}/task/{tid}");
        let Some(times) = times(pid, tid) else { return };
        let unreadable = &mut self.unreadable;
        let mut file = |name: &str| {
            let text = fs::read_to_string(format!("{folder}/{name}"));
            text.unwrap_or_else(|error| {
                note(unreadable, name, &error);
                String::new()
            })
        };
        let (wchan, call) = (file("wchan"), file("syscall"));
        let seen = self.seen.entry(tid).or_default();
        self.samples += 1;
        seen.times = Some(seen.times.map_or([times; 2], |[first, _]| [first, times]));
        let wchan = wchan.trim();
        if wchan.is_empty() || wchan == "0" || call.starts_with("running") {
            return;
        }
        let found = asleep(&[Name { text: wchan.to_owned(), kernel: true }], waits_for_lock(&call));
        if let Some(state) = ASLEEP.iter().position(|state| *state == found) {
            *seen.waiting.entry((state, wchan.to_owned())).or_default() += 1;
        }
    }
}

/// Notes why a file of a thread cannot be read, unless the thread has ended.
fn note(unreadable: &mut BTreeMap<String, String>, name: &str, error: &io::Error) {
    // ENOENT, and ESRCH for a file that was open already.
    const ESRCH: i32 = 3;
    if error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(ESRCH) {
        let file = format!("/proc/PID/task/TID/{name}");
        unreadable.entry(file).or_insert_with(|| error.to_string());
    }
}

fn times(pid: u32, tid: u32) -> Option<Times> {
    let thread = Thread::read(pid, tid).ok()?;
    let schedstat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
    let ready_ns = schedstat.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Some(Times {
        user_ns: ticks_ns(thread.user_ticks),
        system_ns: ticks_ns(thread.system_ticks),
        on_cpu_ns: thread.on_cpu_ns,
        ready_ns,
    })
}

/// Whether a thread in futex(2) waits for a lock, from its file `syscall`: the number of the call and its arguments. A
/// lock of the C library and one of Rust's is a word that is 2 while threads wait for it.
fn waits_for_lock(call: &str) -> bool {
    call.split_whitespace().nth(3) == Some("0x2")
}

/// The facts of what was read in `seconds`.
pub(super) fn facts(read: Read, seconds: f64) -> ProfileFacts {
    let Read { members, seen, samples, mut unreadable } = read;
    let mut locks = Locks::default();
    let mut unknown_s = 0.0;
    let mut times: BTreeMap<u32, ThreadTimes> = BTreeMap::new();
    for (tid, seen) in seen {
        let sum = times.entry(tid).or_default();
        let [first, last] = seen.times.unwrap_or_default();
        let s = |of: fn(&Times) -> u64| of(&last).saturating_sub(of(&first)) as f64 / 1e9;
        let (on_cpu_s, ready_s) = (s(|times| times.on_cpu_ns), s(|times| times.ready_ns));
        let (user_s, system_s) = (s(|times| times.user_ns), s(|times| times.system_ns));
        // Ticks are coarse, but they show how the exact time divides.
        let user = if user_s + system_s > 0.0 { user_s / (user_s + system_s) } else { 0.0 };
        (sum.user_s, sum.system_s, sum.core_s) = (on_cpu_s * user, on_cpu_s * (1.0 - user), ready_s);
        let asleep_s = (seconds - on_cpu_s - ready_s).max(0.0);
        let waiting: u64 = seen.waiting.values().sum();
        if waiting == 0 {
            unknown_s += asleep_s;
        }
        for ((state, wchan), count) in seen.waiting {
            let share_s = asleep_s * count as f64 / waiting as f64;
            let state = ASLEEP[state];
            *of_state(sum, state) += share_s;
            if state == State::Lock {
                let kind = if wchan.contains("futex") { "futex" } else { "lock" };
                let lock = LockFacts { kind: kind.into(), place: wchan, ..LockFacts::default() };
                locks.add(lock, 0, share_s);
            }
        }
    }
    // A thread is asleep for a moment without being seen in it.
    if unknown_s > UNKNOWN_MOST * seconds {
        let why =
            format!("{unknown_s:.1} s of threads that were never seen to wait in a function of the kernel");
        unreadable.insert("what threads waited for".into(), why);
    }
    ProfileFacts {
        by: ProfileSource::Proc,
        hz: HZ,
        samples,
        threads: threads_of(times, &members.into_threads()),
        unreadable,
        locks: locks.most(),
        ..ProfileFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_share_the_time_that_a_thread_slept() {
        let last = Times { user_ns: 100, system_ns: 300, on_cpu_ns: 400_000_000, ready_ns: 100_000_000 };
        let waiting = [((0, "futex_wait_queue".to_owned()), 30), ((1, "ep_poll".to_owned()), 10)].into();
        let seen = ThreadReadings { waiting, times: Some([Times::default(), last]) };
        let members = Members::known(&[(7, 5, "one")]);
        let read = Read { members, seen: [(7, seen)].into(), samples: 80, ..Read::default() };
        let facts = facts(read, 1.0);
        assert!(facts.unreadable.is_empty());
        let ms = facts.threads[0].times.seconds().map(|seconds| (seconds * 1e3).round() as u64);
        assert_eq!(ms, [100, 300, 0, 0, 375, 125, 0, 100]);
        assert_eq!(
            (facts.locks[0].kind.as_str(), facts.locks[0].place.as_str()),
            ("futex", "futex_wait_queue")
        );
    }

    /// Without the right to trace the subject, the kernel hides what its threads wait for.
    #[test]
    fn waits_that_are_hidden_have_a_reason() {
        let last = Times { user_ns: 1, on_cpu_ns: 200_000_000, ..Times::default() };
        let seen = ThreadReadings { times: Some([Times::default(), last]), ..ThreadReadings::default() };
        let members = Members::known(&[(7, 5, "one")]);
        let mut read = Read { members, seen: [(7, seen)].into(), samples: 80, ..Read::default() };
        note(&mut read.unreadable, "syscall", &io::Error::from(io::ErrorKind::PermissionDenied));
        note(&mut read.unreadable, "wchan", &io::Error::from(io::ErrorKind::NotFound));
        let facts = facts(read, 1.0);
        let reasons: Vec<&str> = facts.unreadable.keys().map(String::as_str).collect();
        assert_eq!(reasons, ["/proc/PID/task/TID/syscall", "what threads waited for"]);
        assert!(facts.unreadable["what threads waited for"].starts_with("0.8 s"), "{:?}", facts.unreadable);
    }

    #[test]
    fn a_lock_is_a_word_that_is_waited_on_while_it_is_2() {
        assert!(waits_for_lock("202 0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f01"));
        assert!(!waits_for_lock("202 0x7f00 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f01"));
        assert!(!waits_for_lock("running"));
    }

    #[test]
    fn a_sleeping_thread_of_this_process_is_seen() {
        let stop_ns = AtomicU64::new(0);
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(&[std::process::id()], &stop_ns));
            std::thread::sleep(Duration::from_millis(60));
            stop_ns.store(1, Ordering::Release);
            reader.join().unwrap()
        });
        assert!(read.samples > 0 && !read.seen.is_empty());
    }
}
