//! The counts of all threads, while the server runs and at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kqps_cache::{Counts, Shared};
use kqps_front::status::Reports;
use kqps_server::Report;
use kqps_server::connections::TcpReport;
use kqps_server::report::{BackEndReports, CacheReport, add_back_ends};

use crate::tally::{COUNTS, Count, Tally};

/// The queries that a thread has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Queries of datagrams.
    Datagrams,
    /// Queries of connections.
    Connections,
    /// Queries that wait for a server.
    Resolver,
}

/// The counters of all threads, the caches, and the counts of servers that resolvers reported last.
pub(crate) struct Overview {
    stores: Vec<Arc<Shared>>,
    tallies: Mutex<Vec<(Duty, Arc<Tally>)>>,
    back_ends: Mutex<BTreeMap<usize, BackEndReports>>,
}

impl Overview {
    pub(crate) fn new(stores: Vec<Arc<Shared>>) -> Self {
        Self { stores, tallies: Mutex::default(), back_ends: Mutex::default() }
    }

    /// The counters of a new thread.
    pub(crate) fn tally(&self, duty: Duty) -> Arc<Tally> {
        let tally = Arc::<Tally>::default();
        lock(&self.tallies).push((duty, tally.clone()));
        tally
    }

    /// Keeps the counts of servers of the resolver with this number.
    pub(crate) fn store_back_ends(&self, resolver: usize, reports: BackEndReports) {
        lock(&self.back_ends).insert(resolver, reports);
    }

    /// The counts of servers, of all resolvers.
    pub(crate) fn back_ends(&self) -> BackEndReports {
        let mut all = BackEndReports::new();
        lock(&self.back_ends).values().for_each(|reports| add_back_ends(&mut all, reports));
        all
    }

    /// The counts of the threads with these duties.
    fn counts(&self, has: impl Fn(Duty) -> bool) -> [u64; COUNTS] {
        let mut all = [0; COUNTS];
        for (_, tally) in lock(&self.tallies).iter().filter(|(duty, _)| has(*duty)) {
            all.iter_mut().zip(tally.read()).for_each(|(sum, count)| *sum += count);
        }
        all
    }

    /// The counts of the cache.
    pub(crate) fn cache(&self) -> CacheReport {
        let counts = self.counts(|_| true);
        let of = |count: Count| counts[count as usize];
        let (mut stores, mut memory_bytes) = (Counts::default(), 0);
        for store in &self.stores {
            stores += store.counts();
            memory_bytes += store.memory_bytes();
        }
        CacheReport {
            hits: of(Count::Hits),
            stale: of(Count::Stale),
            failures: of(Count::Failures),
            misses: of(Count::Misses),
            refused: of(Count::Refused),
            coalesced: of(Count::Coalesced),
            overtaken: of(Count::Overtaken),
            stale_after_failure: of(Count::StaleAfterFailure),
            prefetches: of(Count::Prefetches),
            kept: of(Count::Kept),
            not_kept: of(Count::NotKept),
            unusable: of(Count::Unusable),
            evictions: stores.evicted,
            entries: stores.entries,
            memory_bytes,
        }
    }
}

/// The counts while the server runs have no drops: the loops count those for themselves.
impl Reports for Overview {
    fn report(&self) -> Report {
        let of = |has: fn(Duty) -> bool, count: Count| self.counts(has)[count as usize];
        let by_datagrams = |duty: Duty| matches!(duty, Duty::Datagrams | Duty::Resolver);
        let tcp = TcpReport {
            received: of(|duty| duty == Duty::Connections, Count::Received),
            answered: of(|duty| duty == Duty::Connections, Count::Answered)
                + of(|duty| duty == Duty::Resolver, Count::AnsweredConnection),
            ..TcpReport::default()
        };
        let has_connections = lock(&self.tallies).iter().any(|(duty, _)| *duty == Duty::Connections);
        Report {
            received: of(by_datagrams, Count::Received),
            answered: of(by_datagrams, Count::Answered),
            tcp: has_connections.then_some(tcp),
            cache: Some(self.cache()),
            back_ends: self.back_ends(),
            ..Report::default()
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_by_what_the_threads_do() {
        let overview = Overview::new(Vec::new());
        let tallies =
            [Duty::Datagrams, Duty::Connections, Duty::Resolver].map(|duty| (duty, overview.tally(duty)));
        for (duty, tally) in &tallies {
            if *duty != Duty::Resolver {
                tally.add(Count::Received);
                tally.add(Count::Received);
                tally.add(Count::Hits);
            }
            tally.add(Count::Answered);
        }
        tallies[2].1.add(Count::AnsweredConnection);
        let report = overview.report();
        assert_eq!((report.received, report.answered), (2, 2));
        let tcp = report.tcp.unwrap();
        assert_eq!((tcp.received, tcp.answered), (2, 2));
        assert_eq!(report.cache.unwrap().hits, 2);
    }
}
