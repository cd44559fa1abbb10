//! One worker thread: what surrounds its loop.

pub(crate) mod threads;

use std::io::{self, PipeWriter, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::counts::Counts;
use crate::sockets::Endpoint;

/// What a loop works with.
pub(crate) struct Worker<A> {
    /// The addresses that the worker serves, at least one.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) answer: A,
    pub(crate) counts: Counts,
    pub(crate) going: Going,
}

/// A thread's stop flag, and its way to report that it is ready and that it has ended.
pub(crate) struct Going {
    stop: Arc<AtomicBool>,
    /// Receives a byte when the worker can answer, and another when it has ended for any
    /// reason.
    news: PipeWriter,
}

impl Going {
    pub(crate) fn new(stop: Arc<AtomicBool>, news: PipeWriter) -> Self {
        Self { stop, news }
    }

    /// Reports that the loop is set up and about to begin.
    pub(crate) fn ready(&mut self) -> io::Result<()> {
        self.news.write_all(b"r")
    }

    /// Whether to go on. Loops check it once per turn.
    #[inline]
    pub(crate) fn on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        // While everything stops, nothing receives this.
        let _ = self.news.write_all(b"e");
    }
}
