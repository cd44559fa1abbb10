//! State that the threads of a trial share past the kernel: the program, and how far each of them has come.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, OnceLock, PoisonError};

use kqps_kernel::xdp::Attached;

use super::counts::Selected;

pub(super) struct Shared {
    /// The program on the device, until the first thread takes it off. `None` without a kernel.
    attached: Mutex<Option<Attached>>,
    /// How many frames the program selected in all, or why that is not known.
    selected: OnceLock<Result<Option<Selected>, String>>,
    threads: usize,
    opened: AtomicUsize,
    finished: AtomicUsize,
    /// By thread: until when it has read its queues, nanoseconds of the monotonic clock.
    read_ns: Box<[AtomicU64]>,
    /// By thread: frames that it read, or that its sockets dropped.
    accounted: Box<[AtomicU64]>,
}

impl Shared {
    pub(super) fn new(attached: Option<Attached>, threads: usize) -> Self {
        let of_each = || (0..threads).map(|_| AtomicU64::new(0)).collect();
        Self {
            attached: Mutex::new(attached),
            selected: OnceLock::new(),
            threads,
            opened: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            read_ns: of_each(),
            accounted: of_each(),
        }
    }

    pub(super) fn opened(&self) {
        self.opened.fetch_add(1, Release);
    }

    pub(super) fn have_all_opened(&self) -> bool {
        self.opened.load(Acquire) >= self.threads
    }

    pub(super) fn finished(&self) {
        self.finished.fetch_add(1, Release);
    }

    pub(super) fn have_all_finished(&self) -> bool {
        self.finished.load(Acquire) >= self.threads
    }

    /// Notes until when a thread has read its queues, and handed over what is not its own.
    pub(super) fn note_read(&self, thread: usize, clock_ns: u64) {
        // Frames that a thread handed over before it stored its time have arrived for those that load the time.
        self.read_ns[thread].store(clock_ns, Release);
    }

    /// Notes until when a thread has read its queues. Returns until when all have.
    pub(super) fn all_read(&self, thread: usize, clock_ns: u64) -> u64 {
        self.note_read(thread, clock_ns);
        self.read_ns.iter().map(|read_ns| read_ns.load(Acquire)).min().unwrap_or(clock_ns)
    }

    /// Takes the program off the device, unless another thread has. Returns how many frames it selected in all;
    /// `None` without a program.
    pub(super) fn detach(&self) -> io::Result<Option<Selected>> {
        let detach = || {
            let attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner).take();
            let count = |attached: Attached| -> io::Result<Selected> {
                attached.detach()?;
                Ok(Selected { matched: attached.matched()?, unclaimed: attached.unclaimed()? })
            };
            attached.map(count).transpose().map_err(|error| error.to_string())
        };
        self.selected.get_or_init(detach).clone().map_err(io::Error::other)
    }

    /// Notes how many frames a thread has accounted for. Returns how many all have. What they handed over before that
    /// has arrived.
    pub(super) fn accounted(&self, thread: usize, frames: u64) -> u64 {
        self.accounted[thread].store(frames, Release);
        self.accounted.iter().map(|frames| frames.load(Acquire)).sum()
    }
}
