//! A worker thread, apart from its loop.

pub mod threads;

use std::io::{self, PipeWriter, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::counts::Counts;
use crate::frames::Queue;
use crate::sockets::Endpoint;

/// The state with which a loop works.
pub(crate) struct Worker<A> {
    /// The addresses that the worker serves, at least one.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) answer: A,
    pub(crate) counts: Counts,
    pub(crate) stop: StopFlag,
    /// The worker's queue of a device, if frames pass the kernel.
    pub(crate) queue: Option<Queue>,
}

/// A thread's stop flag, and its way to report that it is ready and that it has ended.
pub struct StopFlag {
    flag: Arc<AtomicBool>,
    /// Receives a byte when the worker can answer, and another when it has ended for any
    /// reason.
    news: PipeWriter,
}

impl StopFlag {
    /// A flag that is set with `flag`. `news` receives the reports.
    pub(crate) fn new(flag: Arc<AtomicBool>, news: PipeWriter) -> Self {
        Self { flag, news }
    }

    /// Reports that the loop is set up and about to begin.
    pub fn report_ready(&mut self) -> io::Result<()> {
        self.news.write_all(b"r")
    }

    /// Whether the thread must stop. Loops check it once per turn.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        // While everything stops, nothing receives this.
        let _ = self.news.write_all(b"e");
    }
}
