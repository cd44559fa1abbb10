//! A thread that takes a known part of a core away from all ordinary ones: again and again it runs first for a while.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kqps_kernel::{affinity, clock, priority};

/// The thread. Dropped, it ends.
pub(super) struct Taker {
    /// Its number, by which its CPU time is known.
    id: u32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Vec<Range<u64>>>>>,
}

impl Taker {
    /// Begins to take pieces of CPU time of this length, one in each of these times. It runs when this returns. Fails
    /// without the right to run before others (`CAP_SYS_NICE`, or a limit of `RLIMIT_RTPRIO`).
    pub(super) fn start(cpu: u32, piece: Duration, every: Duration) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let must_stop = Arc::clone(&stop);
        let (begins, begun) = channel();
        let run = move || {
            affinity::pin_thread(cpu)?;
            priority::run_first()?;
            // Who started it may have given up waiting, and then stops it.
            let _ = begins.send(affinity::thread_id());
            Ok(take(&must_stop, piece.as_nanos() as u64, every.as_nanos() as u64))
        };
        let thread = std::thread::Builder::new().name("taker".into()).spawn(run)?;
        let mut taker = Self { id: 0, stop, thread: Some(thread) };
        match begun.recv() {
            Ok(id) => {
                taker.id = id;
                Ok(taker)
            }
            Err(_) => taker.stop().and(Err(anyhow!("it ended at once"))),
        }
    }

    /// CPU time that it took since it began, nanoseconds, what it needs to wake up and to look at clocks included.
    pub(super) fn taken_ns(&self) -> Result<u64> {
        clock::thread_cpu_ns_of(self.id).context("cannot read the CPU time of the thread that takes a core")
    }

    /// Ends it after the piece that it takes now, and returns from when to when it took each one, by `CLOCK_MONOTONIC`.
    pub(super) fn stop(mut self) -> Result<Vec<Range<u64>>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it is stopped once")?;
        let taken = thread.join().map_err(|_| anyhow!("the thread that takes a core panicked"))?;
        taken.context("a thread that runs first needs CAP_SYS_NICE, or a limit of RLIMIT_RTPRIO")
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Something else failed, which is what is reported.
            let _ = thread.join();
        }
    }
}

fn take(must_stop: &AtomicBool, piece_ns: u64, every_ns: u64) -> Vec<Range<u64>> {
    let mut taken = Vec::new();
    let mut at_ns = clock::now_ns() + every_ns;
    while !must_stop.load(Ordering::Relaxed) {
        clock::sleep_until_ns(at_ns);
        let (began_ns, cpu_ns) = (clock::now_ns(), clock::thread_cpu_ns());
        while clock::thread_cpu_ns() < cpu_ns + piece_ns {
            std::hint::spin_loop();
        }
        let ended_ns = clock::now_ns();
        taken.push(began_ns..ended_ns);
        // What it missed while the core was withheld is not made up for.
        at_ns = (at_ns + every_ns).max(ended_ns);
    }
    taken
}
