//! Queries by server and by question, exact and in bounded memory: each thread counts for itself, and all are added up at
//! the end.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use kqps_message::header::HEADER_BYTES;
use kqps_message::name::{self, NameText};
use kqps_message::rtype::RtypeName;

use super::lateness::Lateness;
use crate::report::{RankedCount, RankedCounts};

/// The most servers, and the most questions, that a thread counts one by one.
const MOST: usize = 65_536;

/// The longest name in wire format, and its type (RFC 1035, section 2.3.4).
const QUESTION_BYTES: usize = 255 + 2;

/// The counts of one thread.
pub(super) struct Census {
    servers: Bounded<IpAddr>,
    /// By name in wire format and lower case, and type.
    questions: Bounded<Box<[u8]>>,
    pub(super) lateness: Lateness,
}

/// Counts of the first [`MOST`] keys. All others are counted together.
struct Bounded<K> {
    /// Keys come from resolvers that the user chose, so a fast hash is enough.
    counts: HashMap<K, u64, RandomState>,
    others: u64,
}

impl<K: Hash + Ord> Bounded<K> {
    fn new() -> Self {
        Self { counts: HashMap::with_capacity_and_hasher(MOST, RandomState::default()), others: 0 }
    }

    /// Counts a query under a key, which `own` makes if it is a new one.
    #[inline]
    fn add<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, own: impl FnOnce() -> K)
    where
        K: Borrow<Q>,
    {
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
        } else if self.counts.len() < MOST {
            self.counts.insert(own(), 1);
        } else {
            self.others += 1;
        }
    }

    fn add_all(&mut self, other: Self) {
        for (key, count) in other.counts {
            *self.counts.entry(key).or_default() += count;
        }
        self.others += other.others;
    }

    /// The counts of the `top` keys with the highest ones, as text. Of keys with equal counts the lower come first.
    fn ranked(&self, top: usize, text: impl Fn(&K) -> String) -> RankedCounts {
        let mut all: Vec<(&K, u64)> = self.counts.iter().map(|(key, count)| (key, *count)).collect();
        if all.len() > top && top > 0 {
            all.select_nth_unstable_by(top - 1, |(one, of_one), (other, of_other)| {
                of_other.cmp(of_one).then_with(|| one.cmp(other))
            });
        }
        all.truncate(top);
        let each = all.into_iter().map(|(key, queries)| RankedCount { name: text(key), queries });
        let mut ranked: Vec<RankedCount> = each.collect();
        ranked.sort_unstable_by(|one, other| {
            other.queries.cmp(&one.queries).then_with(|| one.name.cmp(&other.name))
        });
        RankedCounts { top: ranked, distinct: self.counts.len() as u64, others: self.others }
    }
}

impl Census {
    /// Without counts; its memory is allocated.
    pub(super) fn new() -> Self {
        Self { servers: Bounded::new(), questions: Bounded::new(), lateness: Lateness::default() }
    }

    /// Counts a query. One without a readable question counts for its server alone.
    pub(super) fn add(&mut self, server: IpAddr, query: &[u8]) {
        self.servers.add(&server, || server);
        let mut key = [0; QUESTION_BYTES];
        let Some(bytes) = question(query, &mut key) else { return };
        let key = &key[..bytes];
        // The only allocation, at most once for each question that is counted by itself.
        self.questions.add(key, || key.into());
    }

    /// Adds the counts of another thread.
    pub(super) fn add_all(&mut self, other: Self) {
        self.servers.add_all(other.servers);
        self.questions.add_all(other.questions);
        self.lateness.add_all(&other.lateness);
    }

    /// The servers that got most queries.
    pub(super) fn servers(&self, top: usize) -> RankedCounts {
        self.servers.ranked(top, IpAddr::to_string)
    }

    /// The questions that came most often, as `NAME TYPE`.
    pub(super) fn questions(&self, top: usize) -> RankedCounts {
        self.questions.ranked(top, |key| match key.split_last_chunk() {
            Some((wire, rtype)) => format!("{} {}", NameText(wire), RtypeName(u16::from_be_bytes(*rtype))),
            None => String::new(),
        })
    }
}

/// Writes the name of a query's question in lower case, and its type. Returns their length; `None` if there is no
/// question, or if its name is compressed or malformed.
fn question(query: &[u8], key: &mut [u8; QUESTION_BYTES]) -> Option<usize> {
    if query.get(4..6)? == [0, 0] {
        return None;
    }
    let end = name::literal_end(query, HEADER_BYTES)?;
    let name = &query[HEADER_BYTES..end];
    let rtype = query.get(end..end + 2)?;
    let place = key.get_mut(..name.len() + 2)?;
    place[..name.len()].copy_from_slice(name);
    place[..name.len()].make_ascii_lowercase();
    place[name.len()..].copy_from_slice(rtype);
    Some(place.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &[u8], rtype: u16) -> Vec<u8> {
        [&[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], name, &rtype.to_be_bytes()[..], &[0, 1]].concat()
    }

    #[test]
    fn queries_count_for_their_server_and_their_question() {
        let mut census = Census::new();
        let server = |last| IpAddr::from([192, 0, 2, last]);
        census.add(server(1), &query(b"\x03WwW\x04test\0", 1));
        census.add(server(2), &query(b"\x03www\x04TEST\0", 1));
        census.add(server(2), &query(b"\x03www\x04test\0", 28));
        census.add(server(2), &[0; 12]);
        let mut other = Census::new();
        other.add(server(1), &query(b"\x03www\x04test\0", 1));
        census.add_all(other);
        let named = |name: &str, queries| RankedCount { name: name.into(), queries };
        let servers = census.servers(9);
        assert_eq!(servers.top, [named("192.0.2.2", 3), named("192.0.2.1", 2)]);
        let questions = census.questions(1);
        assert_eq!(questions.top, [named("www.test. A", 3)]);
        assert_eq!((questions.distinct, questions.others), (2, 0));
        assert_eq!(census.questions(0).top, []);
    }

    #[test]
    fn keys_beyond_the_limit_are_counted_together() {
        let mut census = Census::new();
        let all = u32::try_from(MOST).unwrap() + 5;
        for number in 0..all {
            census.add(IpAddr::from(number.to_be_bytes()), &[]);
        }
        let servers = census.servers(1);
        assert_eq!((servers.distinct, servers.others), (MOST as u64, 5));
        assert_eq!(servers.top[0].name, "0.0.0.0", "all have one query, and this address is the lowest");
    }

    #[test]
    fn odd_questions_are_left_out() {
        let mut key = [0; QUESTION_BYTES];
        assert_eq!(question(&query(b"\x03www\xc0\x0c", 1), &mut key), None);
        assert_eq!(question(&query(b"\0", 2)[..14], &mut key), None);
        assert_eq!(question(&query(b"\0", 2), &mut key), Some(3));
        assert_eq!(question(&[], &mut key), None);
    }
}
