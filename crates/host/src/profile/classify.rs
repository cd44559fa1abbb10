//! The meaning of a call chain: what a thread does on its core, what it sleeps for, and which lock it waits for.

use kqps_observation::profile::LockFacts;
use strum::VariantArray;

/// A function of a call chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) kernel: bool,
}

/// The name of a function of the kernel whose name is hidden.
pub(super) const UNNAMED: &str = "[kernel]";

/// A state of a thread, as in [`kqps_observation::profile::ThreadTimes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, VariantArray)]
pub(super) enum State {
    User,
    System,
    Softirq,
    Spinning,
    Lock,
    Io,
    Sleep,
    Core,
}

/// The kernel's functions that wait awake for a lock.
const SPINS: [&str; 12] = [
    "native_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "pv_wait_head_or_lock",
    "virt_spin_lock",
    "resilient_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "osq_lock",
    "mutex_spin_on_owner",
    "rwsem_spin_on_owner",
    "rwsem_optimistic_spin",
];

/// The kernel's entries to softirq, and to the threads that do its work (`napi/…`, `irq/…`).
const SOFTIRQ: [&str; 10] = [
    "__do_softirq",
    "handle_softirqs",
    "do_softirq",
    "__softirqentry_text_start",
    "run_ksoftirqd",
    "napi_threaded_poll",
    "napi_threaded_poll_loop",
    "irq_thread",
    "irq_thread_fn",
    "irq_forced_thread_fn",
];

/// Beginnings of the names of the kernel's functions that are locks themselves.
const KERNEL_LOCKS: [&str; 24] = [
    "_raw_",
    "__raw_",
    "do_raw_",
    "native_queued",
    "queued_",
    "resilient_",
    "__pv_",
    "pv_",
    "virt_spin",
    "mutex_",
    "__mutex_",
    "rwsem_",
    "down_",
    "__down_",
    "osq_",
    // Counters by core take locks, and are none.
    "percpu_down",
    "__percpu_down",
    "percpu_rwsem",
    "rt_mutex",
    "__rt_mutex",
    "rt_spin",
    "trace_contention",
    "__traceiter_",
    "perf_trace_",
];

/// The kernel's functions that take a socket for one thread, and give it back. One that finds it taken sleeps until it
/// is free.
const SOCKET_LOCKS: [&str; 8] = [
    "lock_sock",
    "lock_sock_nested",
    "lock_sock_fast",
    "__lock_sock",
    "__lock_sock_fast",
    "release_sock",
    "__release_sock",
    "unlock_sock_fast",
];

/// Parts of the names of functions that are locks of programs themselves.
const USER_LOCKS: [&str; 10] = [
    "lock_contended",
    "futex",
    "syscall",
    "pthread_mutex",
    "pthread_rwlock",
    "pthread_spin",
    "lll_lock",
    "std::sys::",
    "std::sync::",
    "parking_lot",
];

/// Parts of the names of functions in which a program waits for another thread, but for no lock.
const CONDITIONS: [&str; 5] = ["pthread_cond", "Condvar", "condvar", "sem_wait", "thread::park"];

fn is_one_of(names: &[&str], name: &Name) -> bool {
    names.contains(&name.text.as_str())
}

/// Returns the state of a thread on a core. The chain begins with the innermost function.
pub(super) fn on_core(chain: &[Name]) -> State {
    let Some(innermost) = chain.first() else { return State::System };
    if !innermost.kernel {
        return State::User;
    }
    // The function that spins may have called one that pauses.
    if chain.iter().take(2).any(|name| name.kernel && is_one_of(&SPINS, name)) {
        return State::Spinning;
    }
    if chain.iter().any(|name| name.kernel && is_one_of(&SOFTIRQ, name)) {
        return State::Softirq;
    }
    State::System
}

/// Returns the state of a thread that sleeps, which names the reason. `is_for_lock` says that the reason would be a
/// lock if the thread sleeps in futex(2).
pub(super) fn asleep(chain: &[Name], is_for_lock: bool) -> State {
    let has = |parts: &[&str]| {
        let mut kernel = chain.iter().filter(|name| name.kernel);
        kernel.any(|name| parts.iter().any(|part| name.text.contains(part)))
    };
    if has(&["mutex_lock", "rwsem_down", "rt_mutex", "percpu_rwsem", "__lock_sock"]) {
        return State::Lock;
    }
    if is_for_lock && is_unnamed(chain) {
        return State::Lock;
    }
    if has(&["futex"]) {
        return if is_lock_of_program(chain, is_for_lock) { State::Lock } else { State::Sleep };
    }
    if has(&["nanosleep", "do_wait", "sigtimedwait", "sigsuspend"]) { State::Sleep } else { State::Io }
}

/// Whether the names of the kernel's functions in a call chain are hidden.
pub(super) fn is_unnamed(chain: &[Name]) -> bool {
    let mut kernel = chain.iter().filter(|name| name.kernel).peekable();
    kernel.peek().is_some() && kernel.all(|name| name.text == UNNAMED)
}

/// Whether a thread in futex(2) waits for a lock: its functions say so, or else the value that it waits on.
fn is_lock_of_program(chain: &[Name], is_for_lock: bool) -> bool {
    let has = |parts: &[&str]| {
        let mut user = chain.iter().filter(|name| !name.kernel);
        user.any(|name| parts.iter().any(|part| name.text.contains(part)))
    };
    if has(&CONDITIONS) {
        return false;
    }
    is_for_lock || has(&["lock_contended", "lll_lock", "pthread_mutex_lock", "pthread_rwlock"])
}

/// The callers of a lock that are kept.
const CALLERS_MOST: usize = 12;

/// The lock of the kernel that a call chain waits for.
pub(super) fn kernel_lock(chain: &[Name], flags: u32) -> LockFacts {
    of_kernel(kind(flags), chain)
}

/// The lock of the kernel that a call chain waits for awake.
pub(super) fn spinning_lock(chain: &[Name]) -> LockFacts {
    // The function that spins may have called one that pauses.
    let innermost = chain.iter().take(2).position(|name| is_one_of(&SPINS, name)).unwrap_or(0);
    let kind = match chain.get(innermost).map_or("", |name| name.text.as_str()) {
        "osq_lock" | "mutex_spin_on_owner" => "mutex",
        name if name.starts_with("rwsem") => "rwsem",
        "queued_read_lock_slowpath" | "queued_write_lock_slowpath" => "rwlock",
        _ => "spinlock",
    };
    of_kernel(kind, chain.get(innermost..).unwrap_or_default())
}

/// The socket that a call chain sleeps for; `None` if it waits for something else.
pub(super) fn socket_lock(chain: &[Name]) -> Option<LockFacts> {
    let first = chain.iter().position(is_socket_lock)?;
    let skipped = chain[first..].iter().take_while(|name| is_socket_lock(name)).count();
    Some(taken_by(SOCKET, chain, first + skipped))
}

/// The kind of the lock of a socket.
const SOCKET: &str = "socket";

fn is_socket_lock(name: &Name) -> bool {
    name.kernel && is_one_of(&SOCKET_LOCKS, name)
}

/// A lock of the kernel at the head of a call chain. The spinlock inside of a socket's lock counts as the socket's.
fn of_kernel(kind: &str, chain: &[Name]) -> LockFacts {
    let is_lock = |name: &&Name| name.kernel && KERNEL_LOCKS.iter().any(|start| name.text.starts_with(start));
    let skipped = chain.iter().take_while(is_lock).count();
    let of_socket = chain[skipped..].iter().take_while(|name| is_socket_lock(name)).count();
    taken_by(if of_socket > 0 { SOCKET } else { kind }, chain, skipped + of_socket)
}

/// The lock of a program that a call chain waits for, a word at this address.
pub(super) fn program_lock(chain: &[Name], address: Option<u64>) -> LockFacts {
    let is_lock = |name: &&Name| {
        // A library without symbols is most likely that of C.
        name.kernel
            || name.text.starts_with("[libc")
            || USER_LOCKS.iter().any(|part| name.text.contains(part))
    };
    LockFacts { address, ..taken_by("futex", chain, chain.iter().take_while(is_lock).count()) }
}

/// The lock that the function behind the first `skipped` ones takes.
fn taken_by(kind: &str, chain: &[Name], skipped: usize) -> LockFacts {
    let skipped = if skipped < chain.len() { skipped } else { chain.len().saturating_sub(1) };
    let mut rest = chain[skipped..].iter().map(|name| name.text.clone());
    LockFacts {
        kind: kind.into(),
        place: rest.next().unwrap_or_else(|| "an unknown function".into()),
        callers: rest.take(CALLERS_MOST).collect(),
        ..LockFacts::default()
    }
}

/// The kind of a lock by the flags of `contention_begin` (`trace/events/lock.h`).
fn kind(flags: u32) -> &'static str {
    const SPIN: u32 = 1;
    const READ: u32 = 2;
    const WRITE: u32 = 4;
    const RT: u32 = 8;
    const PERCPU: u32 = 16;
    const MUTEX: u32 = 32;
    let has = |flag| flags & flag != 0;
    match () {
        () if has(MUTEX) => "mutex",
        () if has(PERCPU) => "percpu-rwsem",
        () if has(RT) => "rt-mutex",
        () if has(SPIN) && has(READ | WRITE) => "rwlock",
        () if has(SPIN) => "spinlock",
        () if has(READ | WRITE) => "rwsem",
        () => "lock",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of a chain; those of the program have a colon.
    fn chain(names: &[&str]) -> Vec<Name> {
        let name = |text: &&str| Name { text: text.replace("user:", ""), kernel: !text.starts_with("user:") };
        names.iter().map(name).collect()
    }

    #[test]
    fn a_thread_on_a_core_is_where_its_innermost_functions_are() {
        let of = |names: &[&str]| on_core(&chain(names));
        assert_eq!(of(&["user:answer", "user:main"]), State::User);
        assert_eq!(of(&["copy_user", "udp_recvmsg", "user:recvmmsg"]), State::System);
        assert_eq!(of(&["udp_queue_rcv", "net_rx_action", "handle_softirqs", "user:sendto"]), State::Softirq);
        let spinning =
            ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "handle_softirqs", "user:sendto"];
        assert_eq!(of(&spinning), State::Spinning);
        assert_eq!(of(&[]), State::System);
        let in_thread = ["mlx5e_napi_poll", "__napi_poll", "napi_threaded_poll_loop", "napi_threaded_poll"];
        assert_eq!(of(&in_thread), State::Softirq, "a thread that polls a device");
    }

    #[test]
    fn a_sleeping_thread_waits_for_what_its_system_call_says() {
        let of = |names: &[&str], is_for_lock| asleep(&chain(names), is_for_lock);
        assert_eq!(of(&["schedule", "ep_poll", "do_epoll_wait"], false), State::Io);
        assert_eq!(of(&["schedule", "do_nanosleep", "hrtimer_nanosleep"], false), State::Sleep);
        assert_eq!(of(&SOCKET_TAKEN, false), State::Lock);
        assert_eq!(of(&["schedule", "__mutex_lock.constprop.0", "ep_send_events"], false), State::Lock);
        let waiting = ["schedule", "schedule_timeout", "inet_csk_accept", "inet_accept", "do_accept"];
        assert_eq!(of(&waiting, false), State::Io, "no connection is there");
        assert_eq!(of(&["schedule", "futex_wait_queue", "do_futex"], true), State::Lock);
        assert_eq!(of(&["schedule", "futex_wait_queue", "do_futex"], false), State::Sleep);
        let condition = ["schedule", "futex_wait_queue", "user:syscall", "user:std::sync::Condvar::wait"];
        assert_eq!(of(&condition, true), State::Sleep, "a condition whose counter is 2");
        assert_eq!(of(&["[kernel]", "[kernel]", "user:lookup"], true), State::Lock, "its names are hidden");
        assert_eq!(of(&["[kernel]", "[kernel]", "user:lookup"], false), State::Io);
        let named = ["schedule", "futex_wait_queue", "user:__lll_lock_wait", "user:lookup"];
        assert_eq!(of(&named, false), State::Lock);
    }

    /// Another thread accepts at the same socket.
    const SOCKET_TAKEN: [&str; 6] =
        ["__schedule", "schedule", "__lock_sock", "lock_sock_nested", "inet_csk_accept", "inet_accept"];

    #[test]
    fn the_lock_of_a_socket_is_one_whether_a_thread_sleeps_or_spins_for_it() {
        let asleep = socket_lock(&chain(&SOCKET_TAKEN)).unwrap();
        let names = [
            "native_queued_spin_lock_slowpath",
            "_raw_spin_lock_bh",
            "lock_sock_nested",
            "inet_csk_accept",
            "inet_accept",
        ];
        for lock in [&asleep, &kernel_lock(&chain(&names), 1), &spinning_lock(&chain(&names))] {
            assert_eq!((lock.kind.as_str(), lock.place.as_str()), ("socket", "inet_csk_accept"));
            assert_eq!(lock.callers, ["inet_accept"]);
        }
        assert_eq!(
            kernel_lock(&chain(&["_raw_spin_lock_bh", "release_sock", "tcp_close"]), 1).place,
            "tcp_close"
        );
        assert_eq!(socket_lock(&chain(&["schedule", "ep_poll"])), None);
    }

    #[test]
    fn a_lock_that_is_spun_for_has_the_kind_of_the_function_that_spins() {
        let of = |names: &[&str]| {
            let lock = spinning_lock(&chain(names));
            (lock.kind, lock.place)
        };
        let spins =
            ["virt_spin_lock", "native_queued_spin_lock_slowpath", "_raw_spin_lock", "ep_poll_callback"];
        assert_eq!(of(&spins), ("spinlock".into(), "ep_poll_callback".into()));
        let optimist = ["osq_lock", "__mutex_lock.constprop.0", "ep_send_events"];
        assert_eq!(of(&optimist), ("mutex".into(), "ep_send_events".into()));
        // A counter by core takes a lock, and is none.
        let counter =
            ["queued_spin_lock_slowpath", "_raw_spin_lock", "percpu_counter_add_batch", "tcp_recvmsg"];
        assert_eq!(of(&counter).1, "percpu_counter_add_batch");
    }

    #[test]
    fn a_lock_is_known_by_its_kind_and_by_the_function_that_takes_it() {
        let names = [
            "schedule",
            "do_futex",
            "user:syscall",
            "user:std::sys::sync::mutex::futex::Mutex::lock_contended",
            "user:kqps_server::services::echo::answer_in_turn",
            "user:main",
        ];
        let lock = program_lock(&chain(&names), Some(0x7f00));
        assert_eq!((lock.kind.as_str(), lock.address), ("futex", Some(0x7f00)));
        assert_eq!(
            (lock.place.as_str(), lock.callers.len()),
            ("kqps_server::services::echo::answer_in_turn", 1)
        );
        let unknown = program_lock(&chain(&["user:syscall"]), Some(0x7f00));
        assert_eq!((unknown.place.as_str(), unknown.callers.len()), ("syscall", 0), "better than nothing");
        assert_eq!([33, 8, 16, 3, 4].map(kind), ["mutex", "rt-mutex", "percpu-rwsem", "rwlock", "rwsem"]);
    }
}
