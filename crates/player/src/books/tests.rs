//! Tests of the books with another table than that of UDP, with many flows, and with flows that break.

use std::collections::BTreeMap;

use kqps_dataset::Position;

use super::*;
use crate::inflight::Inflight;
use crate::loss::Loss;
use crate::plan::Arrivals;
use crate::reply::Cause;
use crate::state::ThreadState;
use crate::state::tests::Fixture;

const SECOND_NS: u64 = 1_000_000_000;

/// The queries of a connection whose replies are known by their streams, as over QUIC (RFC 9250, section 4.2).
#[derive(Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, Outstanding>,
}

impl Table for Streams {
    type Key = u64;

    fn is_full(&self) -> bool {
        self.open.len() == 4
    }

    fn slots(&self) -> usize {
        4
    }

    fn grow(&mut self) -> bool {
        false
    }

    fn waiting(&self) -> u32 {
        self.open.values().filter(|query| query.state == State::Waiting).count() as u32
    }

    fn unsettled(&self) -> u32 {
        self.open.len() as u32
    }

    fn issue(&mut self, due_ns: u64, query: Position) -> u64 {
        let stream = self.next;
        self.next += 4;
        self.open.insert(stream, Outstanding { due_ns, query, state: State::Waiting });
        stream
    }

    fn take_back(&mut self, stream: u64) {
        self.open.remove(&stream);
    }

    fn find(&mut self, stream: u64) -> Option<Outstanding> {
        self.open.get(&stream).copied()
    }

    fn settle(&mut self, stream: u64) -> bool {
        self.open.remove(&stream).is_some_and(|query| query.state == State::Waiting)
    }

    fn lose(&mut self, stream: u64) -> bool {
        self.settle(stream)
    }

    fn misses(&self, _: u64) -> bool {
        false
    }

    fn came(&mut self, _: u64) -> bool {
        false
    }

    fn renew(&mut self) {}

    fn expire(
        &mut self,
        overdue_ns: u64,
        lost_ns: u64,
        mut each_overdue: impl FnMut(Position, u64),
        mut each_lost: impl FnMut(Position, u64),
    ) -> Expired {
        let mut expired = Expired::default();
        for (key, query) in &mut self.open {
            if query.state == State::Waiting && query.due_ns < overdue_ns {
                query.state = State::Overdue;
                each_overdue(query.query, *key);
                expired.overdue += 1;
            }
        }
        self.open.retain(|_, query| {
            let is_lost = query.state == State::Overdue && query.due_ns < lost_ns;
            if is_lost {
                each_lost(query.query, query.due_ns);
                expired.lost += 1;
            }
            !is_lost
        });
        expired
    }
}

/// Deals all that is due, one query at a time, and records it as sent.
fn send_all<T: Table>(state: &mut ThreadState<'_, T>, now_ns: u64) -> Vec<(usize, Due<T::Key>)> {
    let (mut burst, mut sent) = (Vec::new(), Vec::new());
    while state.is_due(now_ns, 1) {
        let flow = state.deal(now_ns, 1, &mut burst);
        if burst.is_empty() {
            break;
        }
        state.sent(flow, now_ns, &burst);
        sent.push((flow, burst[0]));
    }
    sent
}

#[test]
fn a_reply_is_matched_by_its_stream() {
    let fixture = Fixture::new();
    let tables = (0..2).map(|_| Streams::default());
    let mut state = fixture.with_tables(tables, u64::MAX, Arrivals::Even, None);
    let sent = send_all(&mut state, 5_000_000);
    assert_eq!(
        sent.iter().map(|(flow, due)| (*flow, due.key)).collect::<Vec<_>>(),
        [(0, 0), (1, 0), (0, 4), (1, 4), (0, 8), (1, 8)]
    );
    // RFC 9250, section 4.2.1: the ID of every message is 0.
    let mut reply = state.supply.query(sent[0].1.query).message.to_vec();
    reply[..2].fill(0);
    reply[2] |= 0x80;
    state.books.answered(1, 4, &reply, 6_000_000);
    state.books.answered(1, 4, &reply, 6_000_000);
    state.books.expire(4 * SECOND_NS);
    let accounts = state.books.tally.accounts;
    assert_eq!((accounts.correct, accounts.unsolicited, accounts.lost), (1, 1, 5), "{accounts:?}");
    assert!(state.books.is_settled());
    accounts.check().unwrap();
}

#[test]
fn the_queries_of_a_flow_that_breaks_are_lost_by_that() {
    let fixture = Fixture::new();
    let mut state = fixture.state(2, 16, u64::MAX, Arrivals::Even);
    let sent = send_all(&mut state, 5_000_000);
    assert_eq!(sent.len(), 6);
    let mut reply = state.supply.query(sent[0].1.query).message.to_vec();
    reply[..2].copy_from_slice(&sent[0].1.key.to_be_bytes());
    reply[2] |= 0x80;
    state.books.arrived(0, &reply, 6_000_000);
    state.books.broken(0, Loss::Reset, 6_000_000);
    assert_eq!(state.books.tally.accounts.lost, 2);
    assert_eq!(state.books.waiting(), 5, "they hold their places until they would have timed out");
    state.books.broken(0, Loss::Closed, 6_000_000);
    assert_eq!(state.books.waiting(), 5, "nothing was outstanding");
    // A reply that comes after its query was lost belongs to no query.
    reply[..2].copy_from_slice(&sent[2].1.key.to_be_bytes());
    state.books.arrived(0, &reply, 7_000_000);
    state.books.end(u64::MAX);
    let tally = &state.books.tally;
    assert_eq!((tally.accounts.correct, tally.accounts.lost, tally.accounts.unsolicited), (1, 5, 1));
    let by = |loss: Loss| tally.lost_by[loss.number()];
    assert_eq!((by(Loss::Time), by(Loss::Reset), by(Loss::Closed)), (3, 2, 0));
    assert_eq!((tally.latency.len(), tally.cut_short), (6, 3));
    tally.accounts.check().unwrap();
}

#[test]
fn one_query_of_a_flow_is_lost_alone() {
    let fixture = Fixture::new();
    let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
    let sent = send_all(&mut state, 2_000_000);
    let keys: Vec<u16> = sent.iter().map(|(_, due)| due.key).collect();
    assert_eq!(keys.len(), 3);
    state.books.lost(0, keys[1], Loss::StreamReset, 3_000_000);
    state.books.lost(0, keys[1], Loss::StreamReset, 3_000_000);
    assert_eq!((state.books.waiting(), state.books.unsettled_of(0)), (3, 2), "it holds its place");
    let open = [0, 1].map(|number| state.books.open_query(0, keys[number]).map(|open| open.query));
    assert_eq!(open, [Some(sent[0].1.query), None]);
    // A reply that comes after its query was lost belongs to no query.
    let mut reply = state.supply.query(sent[1].1.query).message.to_vec();
    reply[2] |= 0x80;
    assert_eq!(state.books.answered(0, keys[1], &reply, 3_000_000), None);
    assert_eq!(state.books.tally.accounts.unsolicited, 1);
    state.books.wrong(0, keys[0], Cause::Status(503), 4_000_000);
    // An HTTP status is no reply to a query, and has no rcode.
    let shown = fixture.live().snapshot().detail.unwrap();
    assert_eq!((shown.replies(), shown.timed_out), (0, 2));
    state.books.interrupted();
    assert_eq!(fixture.live().snapshot().detail.unwrap().interrupted, 1, "the lost one is not cut off");
    state.books.expire(SECOND_NS + 1_000_000);
    assert_eq!(state.books.waiting(), 1);
    // After its timeout a query holds no place.
    state.books.expire(SECOND_NS + 2_000_001);
    state.books.lost(0, keys[2], Loss::GoAway, SECOND_NS + 3_000_000);
    assert!(state.books.is_settled() && state.books.waiting() == 0);
    let tally = &state.books.tally;
    assert_eq!((tally.accounts.lost, tally.accounts.wrong, tally.latency.len()), (2, 1, 2));
    let by = |loss: Loss| tally.lost_by[loss.number()];
    assert_eq!((by(Loss::StreamReset), by(Loss::GoAway)), (1, 1));
    assert_eq!(tally.wrong_statuses, BTreeMap::from([(503, 1)]));
    tally.accounts.check().unwrap();
}

#[test]
fn progress_has_whole_rcodes() {
    let fixture = Fixture::new();
    let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
    let sent = send_all(&mut state, 0);
    let mut reply = state.supply.query(sent[0].1.query).message.to_vec();
    reply[..2].copy_from_slice(&sent[0].1.key.to_be_bytes());
    // BADCOOKIE, of which the header has four bits and the OPT record the others (RFC 7873, section 8).
    (reply[2], reply[3], reply[11]) = (reply[2] | 0x80, 23 % 16, 1);
    reply.extend_from_slice(b"\0\x00\x29\x04\xd0\x01\0\0\0\0\0");
    state.books.arrived(0, &reply, 1_000_000);
    assert_eq!(fixture.live().snapshot().detail.unwrap().rcodes, BTreeMap::from([(23, 1)]));
}

#[test]
fn a_place_of_a_broken_flow_is_free_after_the_timeout() {
    let fixture = Fixture::new();
    let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
    let sent = send_all(&mut state, 2_000_000);
    assert_eq!(sent.iter().map(|(_, due)| due.due_ns).collect::<Vec<_>>(), [0, 1_000_000, 2_000_000]);
    state.books.broken(0, Loss::Closed, 3_000_000);
    for (now_ns, waiting) in [(SECOND_NS - 1, 3), (SECOND_NS, 2), (SECOND_NS + 2_000_000, 0)] {
        state.books.expire(now_ns);
        assert_eq!(state.books.waiting(), waiting, "{now_ns}");
    }
    // Queries that had timed out before the flow broke hold no place.
    let sent = send_all(&mut state, SECOND_NS + 3_000_000);
    assert!(!sent.is_empty());
    state.books.broken(0, Loss::Closed, 4 * SECOND_NS);
    assert_eq!(state.books.waiting(), 0);
}

#[test]
fn a_flow_takes_as_many_queries_as_it_may() {
    let fixture = Fixture::new();
    let mut state = fixture.state(2, 16, u64::MAX, Arrivals::Even);
    state.books.allow(0, 1);
    state.books.limit_unsettled(3);
    let flows: Vec<usize> = send_all(&mut state, 9_000_000).iter().map(|(flow, _)| *flow).collect();
    assert_eq!(flows, [0, 1, 1, 1]);
    assert_eq!((state.books.left_of(0), state.books.left_of(1)), (0, u32::MAX));
    assert_eq!(state.books.tally.unsent_for_ids, 6);
}

#[test]
fn many_flows_expire_in_turn_and_fit_the_memory() {
    const FLOWS: usize = 100_000;
    let each_bytes = size_of::<Flow<Inflight>>() + Inflight::bytes(16);
    assert!(FLOWS * each_bytes < 50 << 20, "{each_bytes} bytes");
    let fixture = Fixture::new();
    let mut state = fixture.state(FLOWS, 16, u64::MAX, Arrivals::Even);
    assert_eq!(send_all(&mut state, 9_999_999).len(), 10);
    // A call advances 4,096 flows, from the first on.
    state.books.expire(4 * SECOND_NS);
    assert_eq!(state.books.tally.accounts.lost, 10);
    assert_eq!(send_all(&mut state, 10_000_000).len(), 1);
    let mut calls = 0;
    while !state.books.is_settled() {
        state.books.expire(4 * SECOND_NS);
        calls += 1;
    }
    // The query went to flow 10, whose turn was just over.
    assert_eq!(calls, (FLOWS + 10) / 4096);
}
