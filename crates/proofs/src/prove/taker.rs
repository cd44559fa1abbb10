//! A thread that takes a known part of a core from all ordinary threads, by running first at intervals.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kqps_faults::thread::Background;
use kqps_kernel::{affinity, clock, priority};

/// The thread. Dropping this ends it.
pub(super) struct Taker {
    /// The thread's ID, by which its CPU time is read.
    id: u32,
    thread: Background<Vec<Range<u64>>>,
}

impl Taker {
    /// Begins to take pieces of CPU time of this length, one every `every`. It has taken two pieces when this
    /// returns, so that it takes its part evenly from then on. An error without the right to run before
    /// others (`CAP_SYS_NICE`, or a limit of `RLIMIT_RTPRIO`).
    pub(super) fn start(cpu: u32, piece: Duration, every: Duration) -> Result<Self> {
        let (begins, begun) = channel();
        let run = move |stop: &AtomicBool| {
            priority::run_first()
                .context("a thread that runs first needs CAP_SYS_NICE, or a limit of RLIMIT_RTPRIO")?;
            let (piece_ns, every_ns) = (piece.as_nanos() as u64, every.as_nanos() as u64);
            let mut at_ns = clock::now_ns() + every_ns;
            let mut taken = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let piece = take(at_ns, piece_ns);
                // It does not make up for pieces that it missed while the core was withheld.
                at_ns = (at_ns + every_ns).max(piece.end);
                taken.push(piece);
                if taken.len() == 2 {
                    // The caller may have given up waiting, and then stops the thread.
                    let _ = begins.send(affinity::thread_id());
                }
            }
            Ok(taken)
        };
        let thread = Background::start(("the thread that takes a core", "taker"), Some(cpu), run)?;
        match begun.recv() {
            Ok(id) => Ok(Self { id, thread }),
            Err(_) => thread.stop().and(Err(anyhow!("it ended at once"))),
        }
    }

    /// CPU time that it took since its start, nanoseconds, including the time to wake up and to read clocks.
    pub(super) fn taken_ns(&self) -> Result<u64> {
        clock::thread_cpu_ns_of(self.id).context("cannot read the CPU time of the thread that takes a core")
    }

    /// Ends it after the current piece. Returns the begin and the end of each piece, nanoseconds on
    /// `CLOCK_MONOTONIC`.
    pub(super) fn stop(self) -> Result<Vec<Range<u64>>> {
        self.thread.stop()
    }
}

/// Takes a piece of CPU time at `at_ns`, and returns its begin and end.
fn take(at_ns: u64, piece_ns: u64) -> Range<u64> {
    clock::sleep_until_ns(at_ns);
    let (began_ns, cpu_ns) = (clock::now_ns(), clock::thread_cpu_ns());
    while clock::thread_cpu_ns() < cpu_ns + piece_ns {
        std::hint::spin_loop();
    }
    began_ns..clock::now_ns()
}
