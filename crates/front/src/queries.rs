//! The outstanding queries, each with its client and its bytes, since it may have to be sent again. They are in one
//! table. The queries of each back end also form a list in the order of sending, so the query that has waited longest
//! is the first.

use kqps_kernel::{Address, LocalAddress};

use super::parsed_query::ParsedQuery;
use super::short;

/// The maximum number of outstanding queries of a worker. Places have 16 bits, and one value means none.
pub(super) const QUERIES_MOST: usize = u16::MAX as usize;

/// Marks the absence of a place.
const NONE: u16 = u16::MAX;

/// The receiver of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// A client that sent a datagram.
    Udp {
        /// The index of the worker's endpoint at which the query arrived.
        endpoint: u16,
        to: Address,
        /// The address to which the query was sent, if the reply must name it.
        from: Option<LocalAddress>,
    },
    /// A client on a connection.
    Tcp(Caller),
    /// Another server of this process, by its number for the query.
    Inner(u32),
    /// The front itself, which checks a back end.
    Check,
}

/// A client's connection: its slot, and the number of connections that had this slot before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) slot: u32,
    pub(super) turn: u32,
}

/// Where a query is outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts {
    pub(super) back_end: u16,
    pub(super) link: u16,
    /// Its ID on the link.
    pub(super) id: u16,
}

#[derive(Debug)]
pub(super) struct Query {
    pub(super) client: Client,
    /// The query as it arrived, with the client's ID.
    pub(super) bytes: Vec<u8>,
    pub(super) asked: ParsedQuery,
    /// The rule that it matches.
    pub(super) rule: Option<u16>,
    /// How often it was sent.
    pub(super) tries: u8,
    /// It got a truncated answer, and its client, over TCP, needs the whole.
    pub(super) wants_whole: bool,
    /// It was answered BADCOOKIE, and was sent again with the cookie of that answer.
    pub(super) had_bad_cookie: bool,
    /// Its datagram was sent a second time, with the same ID and from the same port.
    pub(super) is_repeated: bool,
    pub(super) at: Whereabouts,
    /// When it was last sent, in nanoseconds.
    pub(super) sent_ns: u64,
    older: u16,
    newer: u16,
}

impl Query {
    /// How often it was sent without an answer. Tries that brought a truncated answer, or a better cookie, do not
    /// count.
    pub(super) fn lost(&self) -> u8 {
        self.tries.saturating_sub(u8::from(self.wants_whole) + u8::from(self.had_bad_cookie))
    }
}

pub(super) struct Queries {
    all: Vec<Query>,
    free: Vec<u16>,
    most: usize,
    lists: Vec<List>,
}

/// The queries of one back end.
#[derive(Clone, Copy)]
struct List {
    oldest: u16,
    newest: u16,
    length: usize,
}

impl Queries {
    /// Makes a table for this many queries, at most [`QUERIES_MOST`].
    pub(super) fn new(most: usize) -> Self {
        Self { all: Vec::new(), free: Vec::new(), most: most.min(QUERIES_MOST), lists: Vec::new() }
    }

    /// Makes sure that there is a list for this back end, and for those with lower numbers.
    pub(super) fn make_list(&mut self, back_end: usize) {
        let empty = List { oldest: NONE, newest: NONE, length: 0 };
        if self.lists.len() <= back_end {
            self.lists.resize(back_end + 1, empty);
        }
    }

    /// The number of queries in the table.
    pub(super) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// The number of queries outstanding at one back end.
    #[inline]
    pub(super) fn at(&self, back_end: usize) -> usize {
        self.lists[back_end].length
    }

    /// Adds a query, which is in no list yet. `None` if there is no room.
    #[inline]
    pub(super) fn add(
        &mut self,
        client: Client,
        bytes: &[u8],
        asked: ParsedQuery,
        rule: Option<usize>,
    ) -> Option<u16> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.all.len() < self.most => {
                self.all.push(Query {
                    client,
                    bytes: Vec::with_capacity(bytes.len().max(128)),
                    asked,
                    rule: None,
                    tries: 0,
                    wants_whole: false,
                    had_bad_cookie: false,
                    is_repeated: false,
                    at: Whereabouts::default(),
                    sent_ns: 0,
                    older: NONE,
                    newer: NONE,
                });
                short(self.all.len() - 1)
            }
            None => return None,
        };
        let query = &mut self.all[usize::from(place)];
        query.client = client;
        query.bytes.clear();
        query.bytes.extend_from_slice(bytes);
        query.asked = asked;
        query.rule = rule.map(short);
        query.tries = 0;
        (query.wants_whole, query.had_bad_cookie, query.is_repeated) = (false, false, false);
        Some(place)
    }

    /// Appends a query to a back end's list when it is sent there.
    #[inline]
    pub(super) fn send(&mut self, place: u16, at: Whereabouts, now_ns: u64) {
        let list = &mut self.lists[usize::from(at.back_end)];
        let newest = std::mem::replace(&mut list.newest, place);
        list.length += 1;
        if newest == NONE {
            list.oldest = place;
        } else {
            self.all[usize::from(newest)].newer = place;
        }
        let query = &mut self.all[usize::from(place)];
        query.at = at;
        query.sent_ns = now_ns;
        query.tries += 1;
        (query.older, query.newer) = (newest, NONE);
    }

    /// Removes a query from its list; it is then outstanding nowhere.
    #[inline]
    pub(super) fn take_back(&mut self, place: u16) {
        let Query { older, newer, at, .. } = self.all[usize::from(place)];
        let list = &mut self.lists[usize::from(at.back_end)];
        list.length -= 1;
        match older {
            NONE => list.oldest = newer,
            older => self.all[usize::from(older)].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => self.all[usize::from(newer)].older = older,
        }
    }

    /// Removes a query that is outstanding nowhere.
    #[inline]
    pub(super) fn forget(&mut self, place: u16) {
        self.all[usize::from(place)].tries = 0;
        self.free.push(place);
    }

    /// Whether there is a query in this place that was sent.
    pub(super) fn is_outstanding(&self, place: u16) -> bool {
        self.get(place).tries > 0
    }

    /// The queries at a back end, the one that was sent first at the front.
    pub(super) fn places_at(&self, back_end: usize) -> impl Iterator<Item = u16> {
        let oldest = self.oldest_at(back_end);
        std::iter::successors(oldest, |&place| Some(self.get(place).newer).filter(|&newer| newer != NONE))
    }

    /// Changes each query that was sent.
    pub(super) fn each_sent(&mut self, change: impl FnMut(&mut Query)) {
        self.all.iter_mut().filter(|query| query.tries > 0).for_each(change);
    }

    #[inline]
    pub(super) fn get(&self, place: u16) -> &Query {
        &self.all[usize::from(place)]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: u16) -> &mut Query {
        &mut self.all[usize::from(place)]
    }

    /// The query that has been outstanding at a back end longest.
    #[inline]
    pub(super) fn oldest_at(&self, back_end: usize) -> Option<u16> {
        Some(self.lists[back_end].oldest).filter(|&place| place != NONE)
    }

    /// The query that was sent before all others.
    pub(super) fn oldest(&self) -> Option<u16> {
        let oldest = (0..self.lists.len()).filter_map(|back_end| self.oldest_at(back_end));
        oldest.min_by_key(|&place| self.get(place).sent_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(back_end: u16) -> Whereabouts {
        Whereabouts { back_end, link: 0, id: 0 }
    }

    fn places(queries: &mut Queries, back_end: usize) -> Vec<u16> {
        let mut found = Vec::new();
        while let Some(place) = queries.oldest_at(back_end) {
            queries.take_back(place);
            found.push(place);
        }
        found
    }

    #[test]
    fn lists_keep_the_order_of_sending_whatever_leaves() {
        let mut queries = Queries::new(10);
        queries.make_list(1);
        let added: Vec<u16> =
            (0..6).map(|_| queries.add(Client::Check, b"x", ParsedQuery::default(), None).unwrap()).collect();
        for (&place, now_ns) in added.iter().zip(10..) {
            queries.send(place, at(place % 2), now_ns);
        }
        assert_eq!((queries.at(0), queries.at(1), queries.oldest()), (3, 3, Some(0)));
        queries.take_back(2);
        queries.send(2, at(1), 20);
        queries.take_back(0);
        assert_eq!(queries.oldest(), Some(1));
        assert_eq!(queries.get(2).tries, 2);
        assert_eq!(places(&mut queries, 0), [4]);
        assert_eq!(places(&mut queries, 1), [1, 3, 5, 2]);
        assert_eq!((queries.at(0), queries.at(1), queries.oldest()), (0, 0, None));
    }

    #[test]
    fn there_is_room_for_so_many_and_places_are_used_again() {
        let mut queries = Queries::new(2);
        let mut add = |bytes| queries.add(Client::Check, bytes, ParsedQuery::default(), Some(3));
        let (first, second) = (add(b"first").unwrap(), add(b"second").unwrap());
        assert_eq!(add(b"third"), None);
        queries.forget(first);
        assert_eq!(queries.len(), 1);
        let third = queries.add(Client::Check, b"third", ParsedQuery::default(), None).unwrap();
        assert_eq!((third, &queries.get(third).bytes[..]), (first, &b"third"[..]));
        assert_eq!((queries.get(second).rule, queries.get(third).rule), (Some(3), None));
    }
}
