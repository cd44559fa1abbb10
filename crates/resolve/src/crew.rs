//! The caches and resolvers of a server, from their start to their last count.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use kqps_cache::Shared;
use kqps_kernel::affinity::pin_thread;
use kqps_server::counts::{Counts, Rcodes};
use kqps_server::error::ServeError;
use kqps_server::later::Mailbox;
use kqps_server::report::Ended;
use kqps_server::sockets::{Endpoint, WorkerSockets};

use crate::answer::{CacheAnswer, Common};
use crate::overview::{Duty, Overview};
use crate::replies::Replies;
use crate::resolver::{Parts, Resolver};
use crate::resolvers::Resolvers;
use crate::settings::CacheSettings;
use crate::store::{self, seed};

/// The thread of a resolver, which ends with the counts of replies to datagrams.
type Thread = JoinHandle<io::Result<(Counts, Rcodes)>>;

/// The caches and resolvers of a server. Dropping it stops them.
pub(crate) struct Crew {
    caches: Vec<Arc<Shared>>,
    common: Common,
    pub(crate) overview: Arc<Overview>,
    /// The number of threads of connections so far.
    connections: AtomicUsize,
    stop: Arc<AtomicBool>,
    /// The threads of the resolvers; `None` for one whose end was taken.
    threads: Vec<Option<Thread>>,
    /// Receives the number of each resolver when it has ended.
    news: PipeReader,
}

/// Reports the end of the thread with this number, also if it panics.
struct Farewell(u32, PipeWriter);

impl Drop for Farewell {
    fn drop(&mut self) {
        // While everything stops, nothing receives this.
        let _ = self.1.write_all(&self.0.to_ne_bytes());
    }
}

impl Crew {
    /// Starts a resolver for each worker, on its core. Returns when all have sockets.
    pub(crate) fn start(
        settings: &CacheSettings,
        workers: &[WorkerSockets],
        with_segments: bool,
    ) -> Result<Self, ServeError> {
        let caches = store::caches(&settings.kept, settings.sharing, workers.len())?;
        let resolvers = Resolvers::new(workers.len(), settings.waiting, settings.sharing, seed()?);
        let overview = Arc::new(Overview::new(caches.clone()));
        let (zones, resolvers) = (Arc::new(settings.zones.clone()), Arc::new(resolvers));
        let common = Common { resolvers, zones, payload_bytes: settings.payload_bytes };
        let (connections, stop) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let (news, ends) = io::pipe()?;
        let mut crew = Self { caches, common, overview, connections, stop, threads: Vec::new(), news };
        let upstream = Arc::new(settings.upstream.clone());
        let endpoints: Arc<[Vec<Endpoint>]> = workers.iter().map(|worker| worker.endpoints.clone()).collect();
        let (ready, readiness) = mpsc::channel();
        for (number, worker) in workers.iter().enumerate() {
            let parts = Parts {
                number,
                settings: upstream.clone(),
                resolvers: crew.common.resolvers.clone(),
                cache: crew.cache(number),
                zones: crew.common.zones.clone(),
                overview: crew.overview.clone(),
                waiting: settings.waiting,
                has_stale: settings.kept.stale.is_some(),
            };
            let reported = u32::try_from(number).expect("workers have numbers of 32 bits");
            let farewell = Farewell(reported, ends.try_clone()?);
            let (cpu, stop, ready, endpoints) =
                (worker.cpu, crew.stop.clone(), ready.clone(), endpoints.clone());
            let made = move || {
                cpu.map_or(Ok(()), pin_thread)?;
                Resolver::new(parts, Replies::new(&endpoints, number, with_segments)?)
            };
            let thread = std::thread::Builder::new().name(format!("resolver {number}")).spawn(move || {
                let _farewell = farewell;
                let resolver = made();
                let (resolver, outcome) = match resolver {
                    Ok(resolver) => (Some(resolver), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // If nothing receives this, the start has failed.
                let _ = ready.send(outcome);
                resolver.map_or_else(|| Ok((Counts::default(), Rcodes::default())), |one| one.run(&stop))
            })?;
            crew.threads.push(Some(thread));
        }
        drop(ready);
        for _ in workers {
            readiness.recv().map_err(io::Error::other)??;
        }
        Ok(crew)
    }

    /// The cache of a worker.
    fn cache(&self, worker: usize) -> Arc<Shared> {
        self.caches[worker % self.caches.len()].clone()
    }

    /// The descriptor that becomes readable when a resolver has ended. Until it is stopped, none does without an error.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.news.as_raw_fd()
    }

    /// Why a resolver has ended. Call it when [`Self::descriptor`] is readable.
    pub(crate) fn ended(&mut self) -> io::Error {
        let mut number = [0; 4];
        if let Err(error) = self.news.read_exact(&mut number) {
            return error;
        }
        let thread = self.threads.get_mut(u32::from_ne_bytes(number) as usize).and_then(Option::take);
        match thread.map(JoinHandle::join) {
            Some(Ok(Err(error))) => error,
            Some(Err(_)) => io::Error::other("a resolver panicked"),
            Some(Ok(Ok(_))) | None => io::Error::other("a resolver has ended"),
        }
    }

    /// Answers the datagrams of a worker.
    pub(crate) fn for_worker(&self, number: usize) -> CacheAnswer {
        let tally = self.overview.tally(Duty::Datagrams);
        CacheAnswer::new(self.cache(number), self.common.clone(), number, None, tally)
    }

    /// Answers the queries of a thread of connections. Such threads use the caches of workers in turn.
    pub(crate) fn for_connections(&self) -> io::Result<CacheAnswer> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) % self.common.resolvers.inboxes.len();
        let (tally, mailbox) = (self.overview.tally(Duty::Connections), Arc::new(Mailbox::new()?));
        Ok(CacheAnswer::new(self.cache(number), self.common.clone(), number, Some(mailbox), tally))
    }

    /// Stops the resolvers, after all threads that ask them, and adds their counts and those of the cache.
    pub(crate) fn stop(&mut self, ended: &mut Ended) {
        self.stop.store(true, Ordering::Relaxed);
        self.common.resolvers.inboxes.iter().for_each(super::handoff::Inbox::wake);
        for thread in self.threads.drain(..).flatten() {
            let outcome = thread.join().unwrap_or_else(|_| Err(io::Error::other("a resolver panicked")));
            match outcome {
                Ok((counts, rcodes)) => ended.report.add_later(&counts, rcodes.report()),
                Err(error) => {
                    ended.failed.get_or_insert(error.into());
                }
            }
        }
        ended.report.cache = Some(self.overview.cache());
        ended.report.back_ends = self.overview.back_ends();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // The resolvers have stopped already, unless starting the server failed.
        self.stop(&mut Ended::default());
    }
}

#[cfg(test)]
mod tests {
    use kqps_kernel::poll::PollSet;

    use super::*;

    #[test]
    fn the_end_of_a_thread_is_noticed_whatever_ends_it() {
        let (mut news, ends) = io::pipe().unwrap();
        let mut set = PollSet::new([&news]);
        let farewell = Farewell(7, ends.try_clone().unwrap());
        let (end, may_end) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _farewell = farewell;
            may_end.recv().unwrap();
        });
        assert!(!set.wait(0).unwrap(), "it goes on");
        // Without a sender the thread panics.
        drop(end);
        assert!(thread.join().is_err());
        assert!(set.wait(0).unwrap());
        let mut number = [0; 4];
        news.read_exact(&mut number).unwrap();
        assert_eq!(u32::from_ne_bytes(number), 7);
    }
}
