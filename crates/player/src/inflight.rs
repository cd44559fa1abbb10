//! The outstanding queries of one socket: an array indexed by query ID.
//!
//! IDs are issued in order. A query holds its slot until its fate is settled: until a reply settles it, or until
//! timeout and drain have both passed, when it is lost. An ID whose slot is not settled is skipped, never reused. If
//! the array has fewer than 65,536 slots, the upper bits of the ID count generations. They distinguish a reply to an
//! earlier holder of the slot from a reply to the present holder. Such an array can grow: an ID says its slot among
//! twice as many, too.
//!
//! Over a connection the reply to a lost query may still come, as late as the server likes. So the ID of a lost query
//! rests there: it is skipped until that reply comes, or until few other IDs are left.

mod resting;

use std::collections::VecDeque;

use kqps_dataset::Position;

use crate::books::{Expired, Outstanding, State, Table};
use resting::Resting;

/// A query that was sent, and its state.
#[derive(Clone, Copy, Debug)]
struct Slot {
    due_ns: u64,
    query: Position,
    /// The ID in the sent query, counted from the socket's first ID.
    id: u16,
    /// How often the IDs had wrapped around before this query, modulo 256.
    round: u8,
    state: State,
}

// A socket has many of these.
const _: () = assert!(size_of::<Slot>() == 16);

/// The most slots: as many as there are IDs.
const SLOTS_MOST: usize = 1 << 16;

/// IDs that neither rest nor are held by a query. If there are fewer, those that rest are used again, the oldest first.
const IDS_FREE_LEAST: usize = SLOTS_MOST / 4;

/// The outstanding queries of one socket. See the module.
#[derive(Debug)]
pub struct Inflight {
    slots: Box<[Slot]>,
    mask: u32,
    /// Random, so that the IDs of successive trials differ.
    first_id: u16,
    /// The number of the next query. Queries are numbered from 0, and query `n` takes the slot `n & mask` if
    /// it is free.
    head: u64,
    /// All queries with lower numbers are settled or in one of the two queues.
    tail: u64,
    /// Numbers of queries that still waited when the head reached their slot again, oldest first.
    lapped: VecDeque<u64>,
    overdue: VecDeque<u64>,
    waiting: u32,
    unsettled: u32,
    /// IDs of lost queries whose replies have not come, counted from the socket's first ID.
    resting: Resting,
    /// Whether IDs rest.
    lets_rest: bool,
}

impl Inflight {
    /// A table without queries, with room for `capacity`: a power of two up to 65,536. Panics otherwise.
    pub fn new(capacity: usize, first_id: u16) -> Self {
        assert!(capacity.is_power_of_two() && capacity <= SLOTS_MOST, "a power of two, at most 65,536");
        Self {
            slots: vec![Slot::free(); capacity].into_boxed_slice(),
            mask: capacity as u32 - 1,
            first_id,
            head: 0,
            tail: 0,
            lapped: VecDeque::new(),
            overdue: VecDeque::new(),
            waiting: 0,
            unsettled: 0,
            resting: Resting::default(),
            lets_rest: false,
        }
    }

    /// Lets IDs of lost queries rest, for a connection that loses nothing and where a reply is known by its ID.
    #[must_use]
    pub fn of_connection(self) -> Self {
        Self { lets_rest: true, ..self }
    }

    /// Bytes on the heap of a table with room for `capacity`, without the two queues, which are usually empty.
    #[cfg(test)]
    pub(crate) fn bytes(capacity: usize) -> usize {
        capacity * size_of::<Slot>()
    }

    /// The head has reached the tail's slot again. A query that still waits there moves to `lapped`, and the
    /// head skips its slot.
    fn pass_tail(&mut self) {
        if self.waits_since(self.tail).is_some() {
            self.lapped.push_back(self.tail);
        }
        self.tail += 1;
    }

    fn turn_overdue(
        &mut self,
        number: u64,
        expired: &mut Expired,
        each_overdue: &mut impl FnMut(Position, u16),
    ) {
        let first_id = self.first_id;
        let slot = self.slot_of(number);
        if slot.is_in(number, State::Waiting) {
            slot.state = State::Overdue;
            each_overdue(slot.query, slot.id.wrapping_add(first_id));
            self.waiting -= 1;
            self.overdue.push_back(number);
            expired.overdue += 1;
        }
    }

    /// When query `number` was due, if it waits. Its slot may hold another query: an earlier one that still
    /// waits, or a later one that was issued after this one was settled.
    fn waits_since(&mut self, number: u64) -> Option<u64> {
        let slot = self.slot_of(number);
        slot.is_in(number, State::Waiting).then_some(slot.due_ns)
    }

    #[inline]
    fn slot_of(&mut self, number: u64) -> &mut Slot {
        &mut self.slots[(number as u32 & self.mask) as usize]
    }

    /// Ends the query with this ID, which waits or is overdue. Returns whether it waited.
    #[inline]
    fn end(&mut self, id: u16, state: State) -> bool {
        let index = (u32::from(id.wrapping_sub(self.first_id)) & self.mask) as usize;
        let was_waiting = self.slots[index].state == State::Waiting;
        self.slots[index].state = state;
        self.waiting -= u32::from(was_waiting);
        self.unsettled -= 1;
        was_waiting
    }

    /// Whether there are enough other IDs for one that rests to be skipped.
    #[inline]
    fn can_rest(&self) -> bool {
        self.resting.len() + self.unsettled as usize + IDS_FREE_LEAST <= SLOTS_MOST
    }

    /// The slot of the query that was sent with this ID; `None` if the slot's query has another ID.
    #[inline]
    fn slot_with(&mut self, id: u16) -> Option<&mut Slot> {
        let id = id.wrapping_sub(self.first_id);
        let slot = &mut self.slots[(u32::from(id) & self.mask) as usize];
        (slot.id == id && slot.state != State::Free).then_some(slot)
    }
}

impl Table for Inflight {
    /// The query's ID.
    type Key = u16;

    #[inline]
    fn is_full(&self) -> bool {
        self.unsettled as usize == self.slots.len()
    }

    #[inline]
    fn slots(&self) -> usize {
        self.slots.len()
    }

    #[cold]
    fn grow(&mut self) -> bool {
        if self.slots.len() >= SLOTS_MOST {
            return false;
        }
        let mut grown = vec![Slot::free(); self.slots.len() * 2].into_boxed_slice();
        self.mask = grown.len() as u32 - 1;
        // IDs that differ in their lower bits differ in one bit more as well.
        for slot in self.slots.iter().filter(|slot| slot.state != State::Free) {
            grown[(u32::from(slot.id) & self.mask) as usize] = *slot;
        }
        self.slots = grown;
        true
    }

    #[inline]
    fn issue(&mut self, due_ns: u64, query: Position) -> u16 {
        assert!(!self.is_full(), "no ID is free");
        // In the second round all slots are tried, since those of the other IDs may all be taken.
        let second_round = self.head + SLOTS_MOST as u64;
        let can_rest = self.can_rest();
        loop {
            if self.head - self.tail > u64::from(self.mask) {
                self.pass_tail();
            }
            let number = self.head;
            self.head += 1;
            let slot = &mut self.slots[(number as u32 & self.mask) as usize];
            if matches!(slot.state, State::Waiting | State::Overdue) {
                continue;
            }
            let id = number as u16;
            if can_rest && number < second_round && self.resting.has(id) {
                continue;
            }
            *slot = Slot { due_ns, query, id, round: (number >> 16) as u8, state: State::Waiting };
            self.waiting += 1;
            self.unsettled += 1;
            return id.wrapping_add(self.first_id);
        }
    }

    fn take_back(&mut self, id: u16) {
        if let Some(slot) = self.slot_with(id)
            && slot.state == State::Waiting
        {
            slot.state = State::Free;
            self.waiting -= 1;
            self.unsettled -= 1;
        }
    }

    #[inline]
    fn find(&mut self, id: u16) -> Option<Outstanding> {
        let &mut Slot { due_ns, query, state, .. } = self.slot_with(id)?;
        Some(Outstanding { due_ns, query, state })
    }

    #[inline]
    fn settle(&mut self, id: u16) -> bool {
        self.end(id, State::Settled)
    }

    fn lose(&mut self, id: u16) -> bool {
        self.end(id, State::Lost)
    }

    #[inline]
    fn misses(&self, id: u16) -> bool {
        self.resting.has(id.wrapping_sub(self.first_id))
    }

    fn came(&mut self, id: u16) -> bool {
        self.resting.remove(id.wrapping_sub(self.first_id))
    }

    fn renew(&mut self) {
        self.resting.clear();
    }

    #[inline]
    fn waiting(&self) -> u32 {
        self.waiting
    }

    #[inline]
    fn unsettled(&self) -> u32 {
        self.unsettled
    }

    fn expire(
        &mut self,
        overdue_before_ns: u64,
        lost_before_ns: u64,
        mut each_overdue: impl FnMut(Position, u16),
        mut each_lost: impl FnMut(Position, u64),
    ) -> Expired {
        let mut expired = Expired::default();
        while let Some(&number) = self.lapped.front() {
            if self.waits_since(number).is_some_and(|due_ns| due_ns >= overdue_before_ns) {
                break;
            }
            self.lapped.pop_front();
            self.turn_overdue(number, &mut expired, &mut each_overdue);
        }
        while self.tail < self.head {
            if self.waits_since(self.tail).is_some_and(|due_ns| due_ns >= overdue_before_ns) {
                break;
            }
            self.turn_overdue(self.tail, &mut expired, &mut each_overdue);
            self.tail += 1;
        }
        while let Some(&number) = self.overdue.front() {
            let slot = self.slot_of(number);
            if slot.is_in(number, State::Overdue) {
                if slot.due_ns >= lost_before_ns {
                    break;
                }
                slot.state = State::Lost;
                let id = slot.id;
                each_lost(slot.query, slot.due_ns);
                self.unsettled -= 1;
                expired.lost += 1;
                if self.lets_rest {
                    self.resting.add(id);
                }
            }
            self.overdue.pop_front();
        }
        expired
    }
}

impl Slot {
    fn free() -> Self {
        Self { due_ns: 0, query: Position::default(), id: 0, round: 0, state: State::Free }
    }

    /// Whether the slot holds query `number` in this state.
    fn is_in(&self, number: u64, state: State) -> bool {
        self.state == state && self.id == number as u16 && self.round == (number >> 16) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> Position {
        Position::default()
    }

    #[test]
    fn every_query_is_settled_once() {
        let mut inflight = Inflight::new(4, 65_534);
        let ids: Vec<u16> = (0..4).map(|due_ns| inflight.issue(due_ns, query())).collect();
        assert_eq!(ids, [65_534, 65_535, 0, 1]);
        assert!(inflight.is_full());
        assert!(inflight.settle(0));
        assert_eq!(inflight.find(0).unwrap().state, State::Settled);
        let mut overdue = Vec::new();
        let expired = inflight.expire(1, 0, |_, id| overdue.push(id), |_, _| ());
        assert_eq!((expired, overdue), (Expired { overdue: 1, lost: 0 }, vec![65_534]));
        assert!(!inflight.settle(65_534), "a late reply");
        assert_eq!(inflight.expire(10, 2, |_, _| (), |_, _| ()), Expired { overdue: 2, lost: 1 });
        assert_eq!(inflight.expire(u64::MAX, u64::MAX, |_, _| (), |_, _| ()).lost, 1);
        assert_eq!((inflight.waiting(), inflight.unsettled()), (0, 0));
    }

    #[test]
    fn a_slot_that_still_waits_is_passed_over() {
        let mut inflight = Inflight::new(4, 0);
        for due_ns in 0..4 {
            inflight.issue(due_ns, query());
        }
        for id in [1, 2, 3] {
            inflight.settle(id);
        }
        // Number 4 would take the slot of query 0, which waits. The next free slot is that of number 5.
        assert_eq!(inflight.issue(5, query()), 5);
        assert_eq!(inflight.find(0).unwrap().state, State::Waiting);
        assert!(inflight.find(4).is_none());
        assert!(inflight.find(1).is_none(), "the slot's earlier holder differs from the present one");
        assert_eq!(inflight.expire(1, 0, |_, _| (), |_, _| ()), Expired { overdue: 1, lost: 0 });
        assert_eq!(inflight.expire(100, 1, |_, _| (), |_, _| ()), Expired { overdue: 1, lost: 1 });
        assert_eq!(inflight.expire(u64::MAX, u64::MAX, |_, _| (), |_, _| ()).lost, 1);
    }

    #[test]
    fn a_table_that_grows_keeps_its_queries_and_what_became_of_earlier_ones() {
        let mut inflight = Inflight::new(2, 65_533);
        let first: Vec<u16> = (0..2).map(|due_ns| inflight.issue(due_ns, query())).collect();
        assert!(inflight.settle(first[0]));
        let third = inflight.issue(2, query());
        assert!(inflight.is_full() && inflight.grow() && inflight.slots() == 4 && !inflight.is_full());
        let more: Vec<u16> = (3..5).map(|due_ns| inflight.issue(due_ns, query())).collect();
        let due = |inflight: &mut Inflight, id: u16| inflight.find(id).map(|found| found.due_ns);
        assert_eq!(
            [first[1], third, more[0], more[1]].map(|id| due(&mut inflight, id)),
            [1, 2, 3, 4].map(Some)
        );
        assert_eq!(
            inflight.expire(u64::MAX, u64::MAX, |_, _| (), |_, _| ()),
            Expired { overdue: 4, lost: 4 }
        );
        let mut inflight = Inflight::new(1 << 15, 0);
        assert!(inflight.grow() && !inflight.grow(), "there are no more IDs");
    }

    #[test]
    fn the_id_of_a_lost_query_rests_until_its_reply_comes_or_few_are_left() {
        let mut inflight = Inflight::new(4, 65_533).of_connection();
        let all: Vec<u16> = (0..4).map(|due_ns| inflight.issue(due_ns, query())).collect();
        assert_eq!(inflight.expire(u64::MAX, 2, |_, _| (), |_, _| ()).lost, 2);
        assert_eq!([0, 1, 2, 3].map(|index| inflight.misses(all[index])), [true, true, false, false]);
        inflight.settle(all[2]);
        inflight.settle(all[3]);
        assert!(inflight.came(all[0]) && !inflight.came(all[0]));
        let round = |inflight: &mut Inflight, count: u32| -> Vec<u16> {
            let issue = |due_ns: u32| {
                let id = inflight.issue(u64::from(due_ns), query());
                inflight.settle(id);
                id
            };
            (0..count).map(issue).collect()
        };
        let issued = round(&mut inflight, (1 << 16) - 1);
        assert!(
            issued.contains(&all[0]) && !issued.contains(&all[1]),
            "its reply has come, or may still come"
        );

        inflight.renew();
        assert!(!inflight.misses(all[1]));
        assert!(round(&mut inflight, 1 << 16).contains(&all[1]), "on a new connection it is like any other");
    }

    #[test]
    fn if_most_ids_rest_the_oldest_are_used_again() {
        let mut inflight = Inflight::new(SLOTS_MOST, 0).of_connection();
        let next = |inflight: &mut Inflight| {
            let id = inflight.issue(0, query());
            inflight.settle(id);
            id
        };
        assert_eq!(next(&mut inflight), 0);
        // Lost queries, 1 more than IDs may rest.
        let lost = SLOTS_MOST - IDS_FREE_LEAST + 1;
        (0..lost).for_each(|_| assert!(inflight.issue(0, query()) > 0));
        assert_eq!(inflight.expire(u64::MAX, u64::MAX, |_, _| (), |_, _| ()).lost, lost as u64);
        while next(&mut inflight) != u16::MAX {}
        assert_eq!([next(&mut inflight), next(&mut inflight)], [0, 1], "the oldest that rests comes first");
        assert!(inflight.misses(1), "an earlier query may still be answered");
        (40_000..40_010).for_each(|id| assert!(inflight.came(id)));
        assert_eq!(next(&mut inflight), 40_000, "few enough rest now");

        let mut of_datagrams = Inflight::new(1, 0);
        let id = of_datagrams.issue(0, query());
        of_datagrams.expire(u64::MAX, u64::MAX, |_, _| (), |_, _| ());
        assert!(!of_datagrams.misses(id));
    }

    /// Compares random traffic with a model that keeps every query. No query may be lost, counted twice or
    /// settled twice. A table that may grow does so when it is full.
    #[test]
    fn it_agrees_with_a_model_over_many_rounds() {
        for (capacity, seed, grows) in [(8, 1, false), (64, 2, false), (65_536, 3, false), (1, 4, true)] {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut inflight = Inflight::new(capacity, random.u16(..));
            if seed % 2 == 0 {
                inflight = inflight.of_connection();
            }
            let mut model = std::collections::BTreeMap::new();
            let (mut issued, mut answered, mut lost) = (0_u64, 0_u64, 0_u64);
            for now_ns in 0..400_000_u64 {
                if !inflight.is_full() || (grows && inflight.grow()) {
                    let id = inflight.issue(now_ns, query());
                    issued += 1;
                    assert_eq!(model.insert(id, now_ns), None, "ID {id} was reused while open");
                }
                if random.u8(..) < 250 && !model.is_empty() {
                    let (&id, &due_ns) = model.iter().nth(random.usize(..model.len().min(8))).unwrap();
                    assert_eq!(inflight.find(id).unwrap().due_ns, due_ns);
                    inflight.settle(id);
                    model.remove(&id);
                    answered += 1;
                }
                let horizon_ns = now_ns.saturating_sub(5_000);
                lost += inflight.expire(now_ns.saturating_sub(2_000), horizon_ns, |_, _| (), |_, _| ()).lost;
                model.retain(|_, due_ns| *due_ns >= horizon_ns);
                assert_eq!(inflight.unsettled() as usize, model.len());
            }
            lost += inflight.expire(u64::MAX, u64::MAX, |_, _| (), |_, _| ()).lost;
            assert_eq!(issued, answered + lost);
            assert!((inflight.slots() > capacity) == grows, "{}", inflight.slots());
        }
    }
}
