//! Replies that a subject held back. Either the reply was cut to the header (TC=1 and no record) although the answer
//! would have fitted, or it was REFUSED for a query that the subject answers at other times. Servers limit their
//! response rate in both ways.
//!
//! A server also cuts a reply that is too large, but then it cuts every reply to that query. So a cut reply counts as
//! held back if the same query had a whole answer at another time of the trial. If it never had one, the player
//! compares similar replies. A negative answer holds what all negative answers to its type hold. If none of them came
//! whole, it holds an SOA record at most (RFC 2308, section 2), unless the query asks for signatures: then it would
//! have fitted by construction. A query for an address that was asked once is assumed to have an answer like the
//! others, if those need at most half of the room.

use std::collections::{HashMap, HashSet};

use kqps_dataset::{Dataset, Expected, Position, Query};
use kqps_message::header::HEADER_BYTES;
use kqps_message::{edns, rcode, rtype};

/// Queries that are marked one by one at most, in units of the dataset: 16 MiB of marks.
const MARKS_MOST: usize = 1 << 27;

/// Queries whose second and further cut replies are counted, at most.
const AGAIN_MOST: usize = 1 << 14;

/// Types are distinguished by their lower 6 bits.
const TYPES: usize = 64;

/// A reply without an OPT record fits in this many bytes (RFC 1035, section 4.2.1).
const ROOM_LEAST: usize = 512;

/// The longest datagram that servers send by default, whatever size the query offers.
const ROOM_MOST: usize = edns::UDP_PAYLOAD_BYTES as usize;

/// The bytes of an SOA record whose owner is compressed, and whose two names have up to 100 bytes each: owner 2, type,
/// class, TTL and length 10, numbers 20 (RFC 1035, section 3.3.13).
const SOA_MOST: usize = 2 + 10 + 2 * 100 + 20;

/// The cut, refused and whole replies to one thread. Counting a reply allocates nothing.
#[derive(Debug, Default)]
pub struct HeldBack {
    /// Queries that had a whole answer.
    whole: Marks,
    /// The longest whole reply by type, without header and question: negative answers, then other answers.
    longest_negative: Longest,
    longest_positive: Longest,
    negative: Cut,
    positive: Cut,
    refused: Cut,
}

/// The number of replies that the subject held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBackCounts {
    /// Replies cut to the header although the answer would have fitted.
    pub slipped: u64,
    /// REFUSED replies to queries that were answered at other times.
    pub refused: u64,
}

impl HeldBack {
    /// No replies yet, with room for the queries of a dataset.
    pub fn new(dataset: &Dataset) -> Self {
        let marks = || Marks::new(dataset);
        let cut = || Cut { first: marks(), again: HashMap::with_capacity(AGAIN_MOST) };
        Self { whole: marks(), negative: cut(), positive: cut(), refused: cut(), ..Self::default() }
    }

    /// Counts a whole reply of `bytes` bytes.
    #[inline]
    pub fn whole(&mut self, position: Position, query: &Query<'_>, rcode: u16, bytes: usize) {
        match rcode {
            rcode::NOERROR | rcode::NXDOMAIN => {
                self.whole.set(position);
                let longest = if rcode == rcode::NOERROR {
                    &mut self.longest_positive
                } else {
                    &mut self.longest_negative
                };
                longest.note(query, bytes.saturating_sub(HEADER_BYTES + query.question_bytes));
            }
            rcode::REFUSED if query.expected_rcode != Some(rcode::REFUSED) => self.refused.note(position),
            _ => {}
        }
    }

    /// Counts a reply with TC and no record.
    #[inline]
    pub fn bare(&mut self, position: Position, rcode: u16) {
        if rcode == rcode::NXDOMAIN { self.negative.note(position) } else { self.positive.note(position) }
    }

    /// Counts a REFUSED reply that the dataset does not expect.
    #[inline]
    pub fn refused(&mut self, position: Position) {
        self.refused.note(position);
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        self.whole.add(&other.whole);
        self.longest_negative.add(&other.longest_negative);
        self.longest_positive.add(&other.longest_positive);
        self.negative.add(&other.negative);
        self.positive.add(&other.positive);
        self.refused.add(&other.refused);
    }

    /// Returns how many replies were held back, from the counts of all threads. A question may stand in the dataset
    /// more than once. So if any reply was cut, this searches all queries that had a whole answer.
    pub fn counts(&self, dataset: &Dataset) -> HeldBackCounts {
        let [negative, positive, refused] =
            [&self.negative, &self.positive, &self.refused].map(|cut| cut.by_message(dataset));
        let is_cut = |message: &&[u8]| {
            negative.contains_key(message) || positive.contains_key(message) || refused.contains_key(message)
        };
        if [&negative, &positive, &refused].iter().all(|cut| cut.is_empty()) {
            return HeldBackCounts::default();
        }
        let whole = self.whole.all().map(|position| dataset.query(position).message);
        let whole: HashSet<&[u8]> = whole.filter(is_cut).collect();
        let negative = negative.iter().filter(|(message, cut)| {
            whole.contains(*message) || self.would_fit_as_negative(&dataset.query(cut.first))
        });
        let positive = positive.iter().filter(|(message, cut)| {
            let is_like_others = || {
                let query = dataset.query(cut.first);
                let has_no_data = dataset.expected(cut.first) == Expected::NoData;
                has_no_data && fits_as_unsigned_negative(&query)
                    || cut.count == 1
                        && is_address(qtype(&query))
                        && self.longest_positive.fits(&query, 2) == Some(true)
            };
            whole.contains(*message) || is_like_others()
        });
        let slipped = negative.chain(positive).map(|(_, cut)| cut.count).sum();
        let refused = refused.iter().filter(|(message, _)| whole.contains(*message));
        HeldBackCounts { slipped, refused: refused.map(|(_, cut)| cut.count).sum() }
    }

    /// Whether a negative answer to this query would have fitted: by the longest whole one to its type, or by
    /// construction if none came whole.
    fn would_fit_as_negative(&self, query: &Query<'_>) -> bool {
        self.longest_negative.fits(query, 1).unwrap_or_else(|| fits_as_unsigned_negative(query))
    }
}

/// Whether a negative answer of an SOA record and no signature fits in a reply to this query. `false` if the query asks
/// for signatures (DO, RFC 3225).
fn fits_as_unsigned_negative(query: &Query<'_>) -> bool {
    let opt = edns::find(query.message).ok().flatten();
    let asks_for_signatures = opt.is_some_and(|opt| opt.ttl_s & edns::DO != 0);
    let opt_bytes = if opt.is_some() { edns::OPT_BYTES } else { 0 };
    !asks_for_signatures && HEADER_BYTES + query.question_bytes + SOA_MOST + opt_bytes <= room(query)
}

/// The cut replies to one question.
struct OfMessage {
    /// A position of the question in the dataset.
    first: Position,
    count: u64,
}

/// Whether the data of this type has one fixed length.
fn is_address(qtype: u16) -> bool {
    matches!(qtype, rtype::A | rtype::AAAA)
}

/// The query's type; 0 if it has no question.
#[inline]
fn qtype(query: &Query<'_>) -> u16 {
    if query.question_bytes < 4 {
        return 0;
    }
    let at = HEADER_BYTES + query.question_bytes - 4;
    u16::from_be_bytes([query.message[at], query.message[at + 1]])
}

/// The longest reply that the query has room for, in bytes.
fn room(query: &Query<'_>) -> usize {
    let offered = edns::find(query.message).ok().flatten().map_or(0, |opt| usize::from(opt.class));
    offered.clamp(ROOM_LEAST, ROOM_MOST)
}

/// The replies of one kind that were held back, by query.
#[derive(Debug, Default)]
struct Cut {
    first: Marks,
    /// The number of cut replies after the first.
    again: HashMap<Position, u64>,
}

impl Cut {
    #[inline]
    fn note(&mut self, position: Position) {
        if self.first.set(position) {
            self.note_again(position, 1);
        }
    }

    fn note_again(&mut self, position: Position, count: u64) {
        if self.again.len() < AGAIN_MOST || self.again.contains_key(&position) {
            *self.again.entry(position).or_default() += count;
        }
    }

    fn add(&mut self, other: &Self) {
        self.first.make_room_as(&other.first);
        for (position, count) in other.counts() {
            let further = if self.first.set(position) { count } else { count - 1 };
            if further > 0 {
                self.note_again(position, further);
            }
        }
    }

    /// Counts of cut replies by the bytes of the query.
    fn by_message<'a>(&self, dataset: &'a Dataset) -> HashMap<&'a [u8], OfMessage> {
        let mut by_message: HashMap<&[u8], OfMessage> = HashMap::new();
        for (first, count) in self.counts() {
            let of_message = by_message.entry(dataset.query(first).message);
            of_message.or_insert(OfMessage { first, count: 0 }).count += count;
        }
        by_message
    }

    /// Each query with a cut reply, and the number of cut replies.
    fn counts(&self) -> impl Iterator<Item = (Position, u64)> {
        self.first.all().map(|position| (position, 1 + self.again.get(&position).copied().unwrap_or(0)))
    }
}

/// A mark for each query of a dataset, or for the first [`MARKS_MOST`] units of a very long one.
#[derive(Debug, Default)]
struct Marks(Vec<u64>);

impl Marks {
    fn new(dataset: &Dataset) -> Self {
        let units = (dataset.end().number() as usize).min(MARKS_MOST);
        Self(vec![0; units.div_ceil(64)])
    }

    /// Sets a mark. Returns whether it was already set.
    #[inline]
    fn set(&mut self, position: Position) -> bool {
        let number = position.number() as usize;
        let Some(word) = self.0.get_mut(number / 64) else { return false };
        let bit = 1 << (number % 64);
        let was_set = *word & bit != 0;
        *word |= bit;
        was_set
    }

    /// Grows to the length of `other`.
    fn make_room_as(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
    }

    fn add(&mut self, other: &Self) {
        self.make_room_as(other);
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            *ours |= theirs;
        }
    }

    fn all(&self) -> impl Iterator<Item = Position> {
        let words = self.0.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            let bits = (0..64).filter(move |bit| word & 1 << bit != 0);
            bits.map(move |bit| Position::of_number((at * 64 + bit) as u32))
        })
    }
}

/// The longest whole reply by type, without header and question, in bytes; `None` if there was none.
#[derive(Debug)]
struct Longest([Option<u16>; TYPES]);

impl Default for Longest {
    fn default() -> Self {
        Self([None; TYPES])
    }
}

impl Longest {
    #[inline]
    fn note(&mut self, query: &Query<'_>, bytes: usize) {
        let longest = &mut self.0[usize::from(qtype(query)) % TYPES];
        *longest = (*longest).max(Some(bytes as u16));
    }

    /// Whether `times` times the longest reply fits in a reply to this query; `None` if there was no whole reply.
    fn fits(&self, query: &Query<'_>, times: usize) -> Option<bool> {
        let longest = self.0[usize::from(qtype(query)) % TYPES]?;
        Some(HEADER_BYTES + query.question_bytes + times * usize::from(longest) <= room(query))
    }

    fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            *ours = (*ours).max(*theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_dataset::{Dataset, Options};

    /// The dataset of a query file with this text, and the position of each query.
    fn queries(text: &str) -> (Dataset, Vec<Position>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queries");
        std::fs::write(&file, text).unwrap();
        let options = Options { cache_dir: Some(folder.path().join("cache")), ..Options::default() };
        let dataset = Dataset::open(&file, &options).unwrap();
        let positions = (0..dataset.queries()).map(|index| dataset.position(index)).collect();
        (dataset, positions, folder)
    }

    /// A reply to a query: whole, with its rcode and length in bytes; cut, with its rcode; or REFUSED.
    enum TestReply {
        Whole(u16, usize),
        Bare(u16),
        Refused,
    }

    fn held_back(text: &str, replies: &[(usize, TestReply)]) -> (u64, u64) {
        let (dataset, positions, _folder) = queries(text);
        let mut all = HeldBack::default();
        // Two threads, each with half of the replies.
        for half in replies.chunks(replies.len().div_ceil(2)) {
            let mut held_back = HeldBack::new(&dataset);
            for (number, reply) in half {
                let position = positions[*number];
                match reply {
                    TestReply::Whole(rcode, bytes) => {
                        held_back.whole(position, &dataset.query(position), *rcode, *bytes);
                    }
                    TestReply::Bare(rcode) => held_back.bare(position, *rcode),
                    TestReply::Refused => held_back.refused(position),
                }
            }
            all.add(&held_back);
        }
        let HeldBackCounts { slipped, refused } = all.counts(&dataset);
        (slipped, refused)
    }

    #[test]
    fn what_came_whole_at_another_time_was_held_back() {
        use TestReply::{Bare, Whole};
        let text = "a.test TXT\nb.test TXT\n";
        // The second name never had a whole answer, so its size may be the reason.
        let replies =
            [(0, Bare(0)), (1, Bare(0)), (0, Bare(0)), (1, Bare(0)), (0, Whole(0, 60)), (0, Bare(0))];
        assert_eq!(held_back(text, &replies), (3, 0));
        assert_eq!(held_back(text, &replies[..4]), (0, 0));
    }

    #[test]
    fn a_question_may_stand_on_several_lines() {
        use TestReply::{Bare, Refused, Whole};
        let text = "a.test TXT\na.test TXT\na.test TXT E\nb.test A\nb.test A\nc.test A\n";
        assert_eq!(held_back(text, &[(0, Bare(0)), (0, Bare(0)), (1, Whole(0, 60))]), (2, 0));
        assert_eq!(held_back(text, &[(0, Bare(0)), (2, Whole(0, 60))]), (0, 0), "EDNS gives more room");
        assert_eq!(held_back(text, &[(0, Refused), (1, Whole(0, 60))]), (0, 1));
        // A question on two lines, cut each time.
        assert_eq!(held_back(text, &[(3, Bare(0)), (4, Bare(0)), (5, Whole(0, 40))]), (0, 0));
    }

    #[test]
    fn a_negative_answer_is_like_the_others() {
        use TestReply::{Bare, Whole};
        let text = "a.test A\nb.test A\nc.test AAAA\n";
        assert_eq!(held_back(text, &[(0, Whole(3, 100)), (1, Bare(3)), (1, Bare(3))]), (2, 0));
        // There is no whole answer to the third query's type, and an SOA record fits.
        assert_eq!(held_back(text, &[(0, Whole(3, 100)), (2, Bare(3))]), (1, 0));
        // A reply that fills the room is cut for its size.
        assert_eq!(held_back("a.test A\nlonger.test A\n", &[(0, Whole(3, 510)), (1, Bare(3))]), (0, 0));
    }

    /// A limit that lets every response slip leaves no whole one to compare with.
    #[test]
    fn an_unsigned_negative_answer_fits_by_construction() {
        use TestReply::Bare;
        let all = [(0, Bare(3)), (1, Bare(3)), (2, Bare(3)), (2, Bare(3))];
        assert_eq!(held_back("a.test A\nb.test TXT\nc.test A E\n", &all), (4, 0));
        // Signatures may need more than the room, and so may data.
        assert_eq!(held_back("a.test A D\nb.test TXT D\nc.test A D\n", &all), (0, 0));
        // The file expects no data of the first query. Those of the second may be large.
        let none = kqps_dataset::Digest::of_none(0, true).number();
        let text = format!("a.test A NOERROR ={none:016x}\nb.test TXT NOERROR\n");
        assert_eq!(held_back(&text, &[(0, Bare(0)), (1, Bare(0))]), (1, 0));
    }

    #[test]
    fn an_address_asked_once_is_like_others_that_leave_half_of_the_room() {
        use TestReply::{Bare, Whole};
        let text = "a.test A\nb.test A\nc.test TXT\nd.test TXT\n";
        assert_eq!(held_back(text, &[(0, Whole(0, 40)), (1, Bare(0))]), (1, 0));
        assert_eq!(held_back(text, &[(0, Whole(0, 40)), (1, Bare(0)), (1, Bare(0))]), (0, 0), "each time");
        assert_eq!(held_back(text, &[(0, Whole(0, 300)), (1, Bare(0))]), (0, 0));
        assert_eq!(held_back(text, &[(2, Whole(0, 40)), (3, Bare(0))]), (0, 0), "a text may be long");
        // With EDNS there are 1232 bytes of room.
        assert_eq!(held_back("a.test A E\nb.test A E\n", &[(0, Whole(0, 300)), (1, Bare(0))]), (1, 0));
    }

    #[test]
    fn a_refusal_counts_where_the_query_was_answered_at_another_time() {
        use TestReply::{Refused, Whole};
        let replies = [(0, Refused), (1, Refused), (0, Whole(0, 40)), (0, Refused)];
        assert_eq!(held_back("a.test A\nb.test A\n", &replies), (0, 2));
        let replies = [(0, Whole(5, 12)), (0, Whole(0, 40))];
        assert_eq!(held_back("a.test A\n", &replies), (0, 1), "no rcode was expected");
        assert_eq!(held_back("a.test A REFUSED\n", &replies), (0, 0));
    }
}
