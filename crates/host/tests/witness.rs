//! Tests the witness of stalls beside a thread that holds its core. One thread runs first, as if the core were withheld.
//! The other only has much to do. Both record when they ran, so the result does not depend on how busy the machine is.

use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;

use kqps_host::Witness;
use kqps_kernel::{affinity, clock, priority};
use kqps_observation::{Stall, StallFacts};
use kqps_skips::{Capability, skip};

/// How long a thread that runs first holds the core, how often, and the time from one start to the next.
const HOLD_NS: u64 = 3_000_000;
const HOLDS: u64 = 8;
const EVERY_NS: u64 = 20_000_000;

/// How long a thread of a server has something to do.
const SPIN_NS: u64 = 200_000_000;

/// The longest time between two successive readings of the clock, unless something else ran.
const LOOK_NS: u64 = 10_000;

/// A core that may be used. The last one has the fewest interrupts.
fn core() -> u32 {
    *affinity::allowed().unwrap().last().unwrap()
}

/// A witness of one core; `None` if the host does not permit it, with the reason printed.
fn witness(cpu: u32) -> Option<Witness> {
    witness_of(cpu, &[])
}

/// A witness of one core that also watches a subject with these processes; `None` as for `witness`.
fn witness_of(cpu: u32, subject: &[u32]) -> Option<Witness> {
    match Witness::begin(&[cpu], subject) {
        Ok(witness) => Some(witness),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}");
            skip(Capability::RealTime, error);
            None
        }
    }
}

/// Calls `act` on one core, on a thread of its own.
fn on<T: Send + 'static>(cpu: u32, act: impl FnOnce() -> T + Send + 'static) -> T {
    let run = move || {
        affinity::pin_thread(cpu).unwrap();
        act()
    };
    thread::spawn(run).join().unwrap()
}

/// Holds the core from time to time, before all ordinary threads, and returns each start and end.
fn hold() -> Vec<(u64, u64)> {
    priority::run_first().unwrap();
    let start_ns = clock::now_ns();
    let hold = |number| {
        clock::sleep_until_ns(start_ns + number * EVERY_NS);
        let began_ns = clock::now_ns();
        while clock::now_ns() < began_ns + HOLD_NS {}
        (began_ns, clock::now_ns())
    };
    (1..=HOLDS).map(hold).collect()
}

#[test]
fn a_core_that_is_held_before_all_others_is_seen_to_stand_still() {
    let cpu = core();
    let Some(witness) = witness(cpu) else { return };
    let held = on(cpu, hold);
    let facts = witness.end();
    let period_ns = facts.period_us * 1000;
    for (from_ns, to_ns) in held {
        // The wake was due within a period, and could not happen before the end. Microseconds are truncated, not rounded.
        let is_it = |stall: &&Stall| stall.at_ns <= from_ns + period_ns && stall.end_ns() + 1000 > to_ns;
        let seen = facts.stalls.iter().find(is_it);
        let seen = seen.unwrap_or_else(|| panic!("held from {from_ns} to {to_ns}, and seen: {facts:?}"));
        assert!((seen.late_us + 1) * 1000 + period_ns >= to_ns - from_ns, "{seen:?}");
        assert_eq!(seen.cpu, cpu);
        assert!(!facts.within(&(from_ns..to_ns)).is_empty());
    }
    plausible(&facts, cpu);
}

/// Spins as a thread of a server may. Returns the start, the end, and the times in which something else ran.
fn spin() -> (u64, u64, Vec<(u64, u64)>) {
    let began_ns = clock::now_ns();
    let (mut looked_ns, mut gaps) = (began_ns, Vec::new());
    while looked_ns < began_ns + SPIN_NS {
        let now_ns = clock::now_ns();
        if now_ns > looked_ns + LOOK_NS {
            gaps.push((looked_ns, now_ns));
        }
        looked_ns = now_ns;
    }
    (began_ns, looked_ns, gaps)
}

#[test]
fn a_core_that_is_busy_with_a_server_is_not_seen_to_stand_still() {
    let cpu = core();
    let Some(witness) = witness(cpu) else { return };
    let (from_ns, to_ns, gaps) = on(cpu, spin);
    let facts = witness.end();
    plausible(&facts, cpu);
    // If the core itself was withheld, the spinning thread did not run either.
    let overlap = |stall: &Stall, &(gap_from_ns, gap_to_ns): &(u64, u64)| {
        gap_to_ns.min(stall.end_ns()).saturating_sub(gap_from_ns.max(stall.at_ns))
    };
    let is_wrong = |stall: &&Stall| {
        let withheld_ns: u64 = gaps.iter().map(|gap| overlap(stall, gap)).sum();
        withheld_ns < stall.late_us * 1000 / 2
    };
    let wrong = facts.within(&(from_ns..to_ns)).iter().filter(is_wrong).count() as u64;
    // A witness that waited for the spinning thread would nearly always be late. A hypervisor's timer may be late too.
    let wakes = (to_ns - from_ns) / 1000 / facts.period_us;
    assert!(wrong * 2 < wakes, "{wrong} of about {wakes}: {facts:?}");
}

/// A program on one core that always has something to do. Dropping this value ends it.
struct Busy(Child);

impl Busy {
    fn start(cpu: u32) -> Self {
        Self(on(cpu, || Command::new("yes").stdout(Stdio::null()).spawn().unwrap()))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Holds the core now and then, as the ordinary thread that yields least. Returns the start and the end of each time in
/// which the program got no CPU time.
fn crowd(pid: u32) -> Vec<(u64, u64)> {
    priority::yield_least().unwrap();
    let start_ns = clock::now_ns();
    let hold = |number| {
        clock::sleep_until_ns(start_ns + number * EVERY_NS);
        let (began_ns, before_ns) = (clock::now_ns(), clock::process_cpu_ns_of(pid).unwrap());
        while clock::now_ns() < began_ns + 3 * HOLD_NS {}
        let got_ns = clock::process_cpu_ns_of(pid).unwrap() - before_ns;
        (got_ns == 0).then(|| (began_ns, clock::now_ns()))
    };
    (1..=HOLDS).filter_map(hold).collect()
}

/// Beginnings and ends of stalls, nanoseconds. A wake that was late itself divides a stall into two that touch.
fn joined(stalls: &[Stall]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for stall in stalls {
        match joined.last_mut().filter(|(_, end_ns)| end_ns.abs_diff(stall.at_ns) < 1000) {
            Some((_, end_ns)) => *end_ns = stall.end_ns(),
            None => joined.push((stall.at_ns, stall.end_ns())),
        }
    }
    joined
}

#[test]
fn a_subject_that_waits_for_an_ordinary_program_is_seen_to_stand_still() {
    let cpu = core();
    let busy = Busy::start(cpu);
    let pid = busy.0.id();
    let Some(witness) = witness_of(cpu, &[pid]) else { return };
    let held = on(cpu, move || crowd(pid));
    let facts = witness.end();
    if held.is_empty() {
        skip(Capability::Chance, "the program always got something");
    }
    let period_ns = facts.period_us * 1000;
    let stalls = joined(&facts.stalls);
    for (from_ns, to_ns) in held {
        // The last wake that saw the program make progress came less than a period after it last ran.
        let is_it = |(at_ns, end_ns): &(u64, u64)| *at_ns <= from_ns + period_ns && end_ns + 1000 > to_ns;
        assert!(stalls.iter().any(is_it), "{from_ns} to {to_ns}: {facts:?}");
    }
}

/// Checks conditions that the result of any witness of this core must meet.
fn plausible(facts: &StallFacts, cpu: u32) {
    assert_eq!(facts.cores, [cpu]);
    let periods = (facts.ended_ns - facts.began_ns) / 1000 / facts.period_us;
    assert!((1..=periods + 1).contains(&facts.wakes), "{facts:?}");
    assert!(facts.seen <= facts.wakes && facts.stalls.len() as u64 <= facts.seen, "{facts:?}");
    assert!(facts.cost_s > 0.0 && facts.covers(&(facts.began_ns..facts.ended_ns)), "{facts:?}");
    for stall in &facts.stalls {
        assert!((facts.began_ns..facts.ended_ns).contains(&stall.at_ns), "{stall:?}");
        assert!(stall.late_us >= 500 && stall.end_ns() <= facts.ended_ns, "{stall:?}");
    }
}

#[test]
fn all_allowed_cores_are_watched_unless_some_are_named() {
    match Witness::begin(&[], &[]) {
        Ok(witness) => assert_eq!(witness.end().cores, affinity::allowed().unwrap()),
        Err(error) => skip(Capability::RealTime, error),
    }
}

#[test]
fn a_core_that_is_not_there_is_named() {
    let error = Witness::begin(&[core(), 1023], &[]).unwrap_err().to_string();
    let lacks_the_right = error.contains("CAP_SYS_NICE");
    assert!(lacks_the_right || error.contains("core 1023"), "{error}");
}
