//! One worker thread: what surrounds its loop.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use kqps_kernel::affinity::pin_thread;

use crate::answer::Answer;
use crate::counts::Counts;
use crate::front::BackEndReports;
use crate::io::{self as models, Model};
use crate::sockets::Endpoint;
use crate::tcp::TcpReport;
use crate::threads::Assigned;

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

/// A worker thread that was started.
pub(crate) struct Started {
    pub(crate) cpu: Option<u32>,
    pub(crate) thread: JoinHandle<io::Result<Counted>>,
}

/// The result of a worker.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) counts: Counts,
    pub(crate) response_rcodes: BTreeMap<String, u64>,
    /// The counts of connections that the worker serves itself.
    pub(crate) tcp: Option<TcpReport>,
    /// The counts of queries at back ends.
    pub(crate) back_ends: BackEndReports,
}

/// Starts a worker thread on its core.
pub(crate) fn start<A: Answer + Send + 'static>(
    number: usize,
    model: Model,
    assigned: Assigned,
    answer: A,
    going: Going,
) -> io::Result<Started> {
    let Assigned { cpu, endpoints } = assigned;
    let thread = std::thread::Builder::new().name(format!("worker {number}")).spawn(move || {
        let mut worker = Worker { endpoints, answer, counts: Counts::default(), going };
        cpu.map_or(Ok(()), pin_thread)?;
        models::run(model, &mut worker)?;
        let response_rcodes = worker.answer.response_rcodes();
        Ok(Counted { response_rcodes, counts: worker.counts, ..Counted::default() })
    })?;
    Ok(Started { cpu, thread })
}
