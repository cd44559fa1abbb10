//! The threads of one process: its workers, and those that serve connections.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use kqps_kernel::UdpSocket;
use kqps_kernel::affinity::pin_thread;

use crate::answer::Answer;
use crate::connections::ConnectionThread;
use crate::counts::Counts;
use crate::error::ServeError;
use crate::frames::{Program, Queue};
use crate::loops;
use crate::model::Model;
use crate::report::{Counted, Ended, XdpReport};
use crate::sockets::{ListeningSocket, WorkerSockets};
use crate::worker::{StopFlag, Worker};

/// Starts a thread for the connections of these sockets on these cores; an empty list means any core.
pub type StartConnections<'a> =
    Box<dyn FnMut(Vec<ListeningSocket>, Vec<u32>, StopFlag) -> io::Result<ConnectionThread> + 'a>;

/// All threads of one process.
pub struct Threads {
    model: Model,
    stop: Arc<AtomicBool>,
    started: Vec<Started>,
    connections: Vec<ConnectionThread>,
    receivers: Vec<Arc<UdpSocket>>,
    /// The program on a device, if frames pass the kernel, until its counts are reported.
    program: Option<Arc<Program>>,
    /// Receives a byte from each thread when it can answer, and another when it has ended.
    news: PipeReader,
}

impl Threads {
    /// Starts every worker that takes datagrams with `start`, which gets its number. Starts a thread with `connections`,
    /// if there is that, for the sockets in `listeners`, and one for each worker that has such sockets of its own.
    /// Sockets of QUIC have a thread apart. Returns when all can answer.
    pub fn start(
        model: Model,
        mut workers: Vec<WorkerSockets>,
        listeners: Vec<ListeningSocket>,
        mut start: impl FnMut(usize, WorkerSockets, StopFlag) -> io::Result<Started>,
        connections: Option<StartConnections<'_>>,
    ) -> Result<Self, ServeError> {
        let (news, reports) = io::pipe()?;
        let endpoints = workers.iter().flat_map(|worker| &worker.endpoints);
        let receivers = endpoints.map(|endpoint| endpoint.receiver.clone()).collect();
        let program = workers.iter().find_map(|worker| Some(worker.queue.as_ref()?.program.clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads =
            Self { model, stop, started: Vec::new(), connections: Vec::new(), receivers, program, news };
        if let Some(mut start) = connections {
            let all_cpus: Vec<u32> = workers.iter().filter_map(|worker| worker.cpu).collect();
            let own = workers
                .iter_mut()
                .map(|worker| (std::mem::take(&mut worker.listeners), Vec::from_iter(worker.cpu)));
            let sets = std::iter::once((listeners, all_cpus)).chain(own);
            for (listeners, cpus) in sets {
                let (apart, others): (Vec<_>, Vec<_>) =
                    listeners.into_iter().partition(ListeningSocket::needs_own_thread);
                for listeners in [others, apart].into_iter().filter(|listeners| !listeners.is_empty()) {
                    let stop = StopFlag::new(threads.stop.clone(), reports.try_clone()?);
                    threads.connections.push(start(listeners, cpus.clone(), stop)?);
                }
            }
        }
        let takes_datagrams = |(_, sockets): &(usize, WorkerSockets)| !sockets.endpoints.is_empty();
        for (number, sockets) in workers.into_iter().enumerate().filter(takes_datagrams) {
            let stop = StopFlag::new(threads.stop.clone(), reports.try_clone()?);
            threads.started.push(start(number, sockets, stop)?);
        }
        let mut ready = vec![0; threads.started.len() + threads.connections.len()];
        threads.news.read_exact(&mut ready)?;
        if ready.contains(&b'e') {
            // A thread has ended instead; stopping returns why.
            threads.stop().failed.map_or(Ok(()), Err)?;
        }
        Ok(threads)
    }

    /// Becomes readable when a thread has ended.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.news.as_raw_fd()
    }

    /// Stops all threads and adds up their counts. Returns why a thread had ended before, if one had.
    pub fn stop(&mut self) -> Ended {
        let program = self.program.take();
        // Frames that come from now on go to the kernel, so that workers can read all others.
        let detached = program.as_ref().map_or(Ok(()), |program| program.detach());
        self.stop.store(true, Ordering::Relaxed);
        self.receivers.iter().for_each(|receiver| receiver.wake_readers());
        let Ended { mut report, mut failed } = Ended::default();
        for (number, Started { cpu, thread }) in self.started.drain(..).enumerate() {
            let outcome = thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
            match outcome {
                Ok(counted) => report.add_worker(cpu, counted),
                Err(error) => {
                    let model = self.model.name();
                    failed = failed.or(Some(ServeError::Worker { worker: number, model, error }));
                }
            }
        }
        for connections in self.connections.drain(..) {
            match connections.stop() {
                Ok(counted) => report.add_connections(counted),
                Err(error) => failed = failed.or(Some(ServeError::Connections(error))),
            }
        }
        if let Some(program) = program {
            let counted = detached.and_then(|()| Ok((program.matched()?, program.unclaimed()?)));
            match counted {
                Ok((matched, unclaimed)) => {
                    let xdp = XdpReport { matched, unclaimed, ..XdpReport::default() };
                    report.xdp.get_or_insert_default().add(xdp);
                }
                Err(error) => failed = failed.or(Some(error.into())),
            }
        }
        Ended { report, failed }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The threads have stopped already, unless starting one of them failed.
        let _ = self.stop();
    }
}

/// A worker thread that was started.
pub struct Started {
    /// The core to which it is pinned, if any.
    pub cpu: Option<u32>,
    /// The thread, which returns its counts.
    pub thread: JoinHandle<io::Result<Counted>>,
}

/// Starts a worker thread on its core.
pub fn start<A: Answer + Send + 'static>(
    number: usize,
    model: Model,
    sockets: WorkerSockets,
    answer: A,
    stop: StopFlag,
) -> io::Result<Started> {
    let WorkerSockets { cpu, endpoints, queue, .. } = sockets;
    let thread = std::thread::Builder::new().name(format!("worker {number}")).spawn(move || {
        let mut worker = Worker { endpoints, answer, counts: Counts::default(), stop, queue };
        cpu.map_or(Ok(()), pin_thread)?;
        loops::run(model, &mut worker)?;
        let response_rcodes = worker.answer.response_rcodes();
        let frames = |queue: &Queue| of_frames(queue, &worker.counts);
        let xdp = worker.queue.as_ref().map(frames).transpose()?;
        Ok(Counted { response_rcodes, xdp, counts: worker.counts, ..Counted::default() })
    })?;
    Ok(Started { cpu, thread })
}

/// The counts of a worker's frames. It received all other datagrams by the kernel.
fn of_frames(queue: &Queue, counts: &Counts) -> io::Result<XdpReport> {
    let read = counts.received - queue.by_kernel;
    Ok(XdpReport::of_worker(read, queue.by_kernel, &queue.socket.statistics()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use kqps_kernel::UdpOptions;

    use super::*;
    use crate::sockets::Endpoint;

    #[test]
    fn the_counts_of_the_others_are_reported_when_one_thread_fails() {
        let address = "127.0.0.1:0".parse().unwrap();
        let receiver = Arc::new(UdpSocket::bind(address, &UdpOptions::default()).unwrap());
        let endpoint = Endpoint { receiver: receiver.clone(), sender: receiver };
        let workers = (0..3)
            .map(|_| {
                let (endpoints, listeners) = (vec![endpoint.clone()], Vec::new());
                WorkerSockets { cpu: None, endpoints, listeners, queue: None }
            })
            .collect();
        let ready = Arc::new(Barrier::new(3));
        let start = |number, _, mut stop: StopFlag| {
            let ready = ready.clone();
            let thread = std::thread::spawn(move || {
                stop.report_ready()?;
                ready.wait();
                if number == 1 {
                    return Err(io::Error::other("it is worn out"));
                }
                while !stop.is_set() {
                    std::thread::yield_now();
                }
                let mut counted = Counted::default();
                counted.counts.received = 3;
                counted.counts.answered = 3;
                Ok(counted)
            });
            Ok(Started { cpu: None, thread })
        };
        let mut threads = Threads::start(Model::Mmsg, workers, Vec::new(), start, None).unwrap();
        let Ended { report, failed } = threads.stop();
        assert_eq!((report.received, report.answered, report.workers.len()), (6, 6, 2));
        assert_eq!(failed.unwrap().to_string(), "worker 1 (mmsg): it is worn out");
    }
}
