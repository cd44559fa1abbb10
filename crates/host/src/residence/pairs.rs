//! Queries with their replies. A function of the packets that are handed in, in the order in which they passed.
//!
//! A pair is made only if nothing else can be meant: the reply has the client, the server, the ID and the question of a
//! query that waits, and of no other one.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use kqps_kernel::tap::Sample;
use kqps_observation::{Histogram, ResidenceFacts};

use super::datagram::Datagram;

/// A query waits for its reply until so many others came. With their keys they take about 40 MB, and while the table
/// grows about 55 MB.
const WAITING_MOST: usize = 1 << 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    client: SocketAddr,
    server: SocketAddr,
    id: u16,
}

/// A query that waits for its reply.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u64,
    stamped_ns: u64,
    question: Option<u64>,
    /// Whether it came more than once. Then nobody knows which of them a reply belongs to.
    is_repeated: bool,
}

/// Queries that wait, and the residence of those that have their reply.
#[derive(Debug)]
pub(super) struct Pairs {
    servers: Vec<SocketAddr>,
    sample: Sample,
    waiting: HashMap<Key, Waiting>,
    /// The keys of all queries that may wait, with their numbers, the oldest first.
    order: VecDeque<(u64, Key)>,
    waiting_most: usize,
    counts: ResidenceFacts,
    residence: Histogram,
}

impl Pairs {
    /// No pairs yet, of queries to these servers, and of the sample's IDs.
    pub(super) fn new(servers: Vec<SocketAddr>, sample: Sample) -> Self {
        Self {
            servers,
            sample,
            waiting: HashMap::new(),
            order: VecDeque::new(),
            waiting_most: WAITING_MOST,
            counts: ResidenceFacts::default(),
            residence: Histogram::default(),
        }
    }

    /// Takes a datagram that passed at this time. Those of other servers and other IDs do not count.
    pub(super) fn take(&mut self, datagram: &Datagram<'_>, is_outgoing: bool, stamped_ns: u64) {
        let &Datagram { client, server, .. } = datagram;
        let is_meant = |id| self.servers.contains(&server) && self.sample.takes(id);
        let Some(id) = datagram.id().filter(|id| is_meant(*id)) else { return };
        let Some(message) = datagram.message() else {
            self.counts.unreadable += 1;
            return;
        };
        let key = Key { client, server, id };
        if is_outgoing {
            self.reply(key, message.question, stamped_ns);
        } else {
            self.query(key, message.question, stamped_ns);
        }
    }

    fn query(&mut self, key: Key, question: Option<u64>, stamped_ns: u64) {
        let number = self.counts.queries;
        self.counts.queries += 1;
        if let Some(first) = self.waiting.get_mut(&key).filter(|first| first.question == question) {
            self.counts.repeated += if first.is_repeated { 1 } else { 2 };
            first.is_repeated = true;
            return;
        }
        if self.order.len() == self.waiting_most
            && let Some((number, oldest)) = self.order.pop_front()
            && self.waiting.get(&oldest).is_some_and(|one| one.number == number)
        {
            self.forget(oldest);
        }
        // The client has given up another query with this ID.
        self.forget(key);
        self.order.push_back((number, key));
        self.waiting.insert(key, Waiting { number, stamped_ns, question, is_repeated: false });
    }

    fn reply(&mut self, key: Key, question: Option<u64>, stamped_ns: u64) {
        self.counts.replies += 1;
        let waiting = self.waiting.get(&key).filter(|waiting| waiting.question == question);
        let Some(&Waiting { stamped_ns: began_ns, is_repeated, .. }) = waiting else {
            self.counts.unasked += 1;
            return;
        };
        if is_repeated {
            self.counts.of_repeated += 1;
            return;
        }
        self.waiting.remove(&key);
        self.counts.pairs += 1;
        self.residence.record_us(stamped_ns.saturating_sub(began_ns) / 1_000);
    }

    /// Waits no longer for the reply to a query.
    fn forget(&mut self, key: Key) {
        if let Some(one) = self.waiting.remove(&key) {
            self.counts.unanswered += u64::from(!one.is_repeated);
        }
    }

    /// The counts and the residence. Queries that still wait have no reply.
    pub(super) fn facts(mut self) -> ResidenceFacts {
        let unanswered = self.waiting.values().filter(|one| !one.is_repeated).count() as u64;
        self.counts.unanswered += unanswered;
        ResidenceFacts {
            residence_us: self.residence.quantiles(),
            histogram: self.residence.encode(),
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::datagram::tests::query;
    use super::*;

    const SERVER: &str = "192.0.2.1:53";

    fn pairs(one_in: u32) -> Pairs {
        Pairs::new(vec![SERVER.parse().unwrap()], Sample::one_in(one_in))
    }

    /// A client's port, the message, its direction, and when it passed, microseconds.
    fn take(pairs: &mut Pairs, port: u16, message: &[u8], is_outgoing: bool, at_us: u64) {
        let client = SocketAddr::from(([192, 0, 2, 7], port));
        let datagram = Datagram { client, server: SERVER.parse().unwrap(), payload: message };
        pairs.take(&datagram, is_outgoing, 1_700_000_000_000_000_000 + at_us * 1_000);
    }

    fn facts(pairs: Pairs) -> ResidenceFacts {
        let facts = pairs.facts();
        assert_eq!(facts.contradiction(), None);
        facts
    }

    #[test]
    fn a_reply_has_the_client_the_id_and_the_question_of_its_query() {
        let mut all = pairs(1);
        take(&mut all, 5_000, &query(1, "www"), false, 0);
        take(&mut all, 5_001, &query(1, "www"), false, 10);
        take(&mut all, 5_000, &query(2, "www"), false, 20);
        for (port, id, name) in [(5_002, 1, "www"), (5_000, 3, "www"), (5_000, 1, "wwx")] {
            take(&mut all, port, &query(id, name), true, 25);
        }
        take(&mut all, 5_001, &query(1, "WWW"), true, 40);
        take(&mut all, 5_000, &query(1, "www"), true, 100);
        take(&mut all, 5_000, &query(1, "www"), true, 110);
        let facts = facts(all);
        assert_eq!((facts.queries, facts.replies, facts.pairs), (3, 6, 2));
        assert_eq!((facts.unanswered, facts.unasked, facts.repeated), (1, 4, 0));
        assert_eq!((facts.residence_us.min, facts.residence_us.max), (Some(30), Some(100)));
        assert_eq!(Histogram::decode(&facts.histogram).unwrap().len(), 2);
    }

    #[test]
    fn queries_that_cannot_be_told_apart_are_in_no_pair() {
        let mut all = pairs(1);
        for at_us in [0, 10, 20] {
            take(&mut all, 5_000, &query(1, "www"), false, at_us);
        }
        for at_us in [30, 40, 50, 60] {
            take(&mut all, 5_000, &query(1, "www"), true, at_us);
        }
        // With another question it is another query.
        take(&mut all, 5_000, &query(1, "wwx"), false, 70);
        take(&mut all, 5_000, &query(1, "wwx"), true, 71);
        let facts = facts(all);
        assert_eq!((facts.queries, facts.repeated, facts.pairs, facts.unanswered), (4, 3, 1, 0));
        assert_eq!((facts.replies, facts.of_repeated, facts.unasked), (5, 4, 0));
        assert_eq!(facts.residence_us.max, Some(1));
    }

    #[test]
    fn an_id_that_is_used_again_ends_the_wait_for_its_first_query() {
        let mut all = pairs(1);
        take(&mut all, 5_000, &query(1, "www"), false, 0);
        take(&mut all, 5_000, &query(1, "wwx"), false, 100);
        take(&mut all, 5_000, &query(1, "www"), true, 110);
        take(&mut all, 5_000, &query(1, "wwx"), true, 150);
        let facts = facts(all);
        assert_eq!((facts.pairs, facts.unanswered, facts.unasked), (1, 1, 1));
        assert_eq!(facts.residence_us.max, Some(50));
    }

    #[test]
    fn only_ids_of_the_sample_and_the_subjects_addresses_count() {
        let mut all = pairs(8);
        let sample = Sample::one_in(8);
        let ids = 0..4_000;
        for id in ids.clone() {
            take(&mut all, 5_000, &query(id, "www"), false, u64::from(id));
            take(&mut all, 5_000, &query(id, "www"), true, u64::from(id) + 3);
        }
        let client = "192.0.2.7:5000".parse().unwrap();
        let message = query(0, "www");
        let other = Datagram { client, server: "192.0.2.2:53".parse().unwrap(), payload: &message };
        all.take(&other, false, 1);
        take(&mut all, 5_000, &message[..11], false, 1);
        take(&mut all, 5_000, &message[..1], false, 1);
        let facts = facts(all);
        let sampled = ids.filter(|id| sample.takes(*id)).count() as u64;
        assert_eq!((facts.pairs, facts.queries, facts.replies), (sampled, sampled, sampled));
        assert_eq!(facts.unreadable, 1, "one has no ID");
        assert_eq!((facts.residence_us.min, facts.residence_us.p50), (Some(3), Some(3)));
    }

    #[test]
    fn memory_is_bounded_and_a_query_that_waited_too_long_has_no_reply() {
        let mut all = Pairs { waiting_most: 100, ..pairs(1) };
        for id in 0..1_000 {
            take(&mut all, 5_000, &query(id, "www"), false, 0);
            assert!(all.order.len() <= 100 && all.waiting.len() <= 100);
            // Every other query is answered at once.
            if id % 2 == 0 {
                take(&mut all, 5_000, &query(id, "www"), true, 5);
            }
        }
        take(&mut all, 5_000, &query(1, "www"), true, 9);
        take(&mut all, 5_000, &query(999, "www"), true, 9);
        let facts = facts(all);
        assert_eq!((facts.pairs, facts.unanswered, facts.unasked), (501, 499, 1));
    }
}
