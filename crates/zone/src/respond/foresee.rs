//! Prefetching: finds the places of the answers to a batch of queries before answering any of them. A zone is
//! larger than a core's caches, so each answer waits for memory two or three times, and each wait depends on the
//! one before. For many queries these waits can overlap.

use std::hint::black_box;

use kqps_message::HEADER_BYTES;

use crate::name::Name;
use crate::respond::Responder;
use crate::zone::{NodeRef, Zone};
use crate::zones::{Entry, Zones};

/// The most queries that are prefetched together: the largest batch that a server receives.
const AHEAD: usize = 64;

/// With fewer queries there is nothing to gain.
const WORTHWHILE: usize = 2;

/// The names of a batch, split once for prefetching and for the answer.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    /// As many as the largest batch so far had.
    names: Vec<Name>,
    count: usize,
    next: usize,
}

impl Foreseen {
    /// The expected name of the next query. If the query has another name, this is room for it.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&mut Name> {
        let next = self.next;
        if next == self.count {
            return None;
        }
        self.next += 1;
        self.names.get_mut(next)
    }
}

impl Responder {
    /// Prefetches into the core's caches what [`Responder::respond`] will need for these queries, which should be
    /// the next ones. It changes no answer. If other queries come, it has no use.
    #[inline]
    pub fn foresee<'m>(&mut self, zones: &Zones, queries: impl ExactSizeIterator<Item = &'m [u8]>) {
        let Foreseen { names, count, next } = &mut self.foreseen;
        (*count, *next) = (0, 0);
        if queries.len() < WORTHWHILE {
            return;
        }
        if names.len() < queries.len().min(AHEAD) {
            names.resize_with(queries.len().min(AHEAD), Name::root);
        }
        let mut sighted: [Option<(&Zone, u64)>; AHEAD] = [None; AHEAD];
        for ((query, name), sighted) in queries.zip(&mut *names).zip(&mut sighted) {
            *sighted = sight(zones, query, name);
            *count += 1;
        }
        let mut nodes: [Option<(&Zone, NodeRef)>; AHEAD] = [None; AHEAD];
        for (node, sighted) in nodes.iter_mut().zip(&sighted[..*count]) {
            *node = sighted.and_then(|(zone, hash)| Some((zone, zone.first_of(hash)?)));
        }
        for (zone, place) in nodes[..*count].iter().flatten() {
            black_box(zone.node(*place).glance());
        }
    }
}

/// The zone for a query, and the hash of its name.
#[inline]
fn sight<'z>(zones: &'z Zones, query: &[u8], name: &mut Name) -> Option<(&'z Zone, u64)> {
    if !name.set(query.get(HEADER_BYTES..)?) {
        return None;
    }
    match zones.find(name, 0)? {
        Entry::Loaded(zone) => Some((zone, name.hash(0))),
        Entry::Broken(_) => None,
    }
}
