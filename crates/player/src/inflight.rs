//! What is outstanding on one socket: an array indexed by query ID.
//!
//! IDs are issued in order. A slot is a query's until its fate is settled: until a reply settles it, or until
//! timeout and drain have both gone by, when it is lost. An ID whose slot is not settled is passed over, never
//! reused. Where the array is smaller than 65,536, the upper bits of the ID count generations, so that a reply
//! to an earlier holder of the slot is told from a reply to this one.

use std::collections::VecDeque;

use kqps_dataset::Position;

/// A query that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// When it was due, nanoseconds since the trial's start.
    pub due_ns: u64,
    /// Where it stands in the dataset.
    pub query: Position,
    /// The ID that it went out under, counted from the socket's first.
    id: u16,
    /// How often the IDs had gone round before it (modulo 256).
    round: u8,
    /// What is known of it.
    pub state: State,
}

/// What is known of the query that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No query yet.
    Free,
    /// Sent; its timeout has not gone by.
    Waiting,
    /// Sent; its timeout has gone by, a reply would be late.
    Overdue,
    /// Answered: a further reply is a duplicate.
    Settled,
    /// Given up: a reply is nobody's any more.
    Lost,
}

/// The outstanding queries of one socket.
#[derive(Debug)]
pub struct Inflight {
    slots: Box<[Slot]>,
    mask: u32,
    /// Random, so that IDs of successive trials differ.
    first_id: u16,
    /// Queries are numbered from 0; query `n` looks for its slot at `n & mask`. `head` is the next number.
    head: u64,
    /// All queries numbered below are settled, or stand in one of the two queues.
    tail: u64,
    /// Numbers of queries whose slot the head came round to while they still waited, oldest first.
    lapped: VecDeque<u64>,
    /// Numbers of overdue queries, oldest first.
    overdue: VecDeque<u64>,
    /// Queries in state `Waiting`.
    waiting: u32,
    /// Queries in state `Waiting` or `Overdue`.
    unsettled: u32,
}

/// Fates that time alone decided, since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Queries whose timeout went by: they leave the window of a closed loop.
    pub overdue: u64,
    /// Queries that are lost.
    pub lost: u64,
}

impl Inflight {
    /// Room for `capacity` outstanding queries: a power of two up to 65,536.
    pub fn new(capacity: usize, first_id: u16) -> Self {
        assert!(capacity.is_power_of_two() && capacity <= 1 << 16, "a power of two, at most 65,536");
        let free = Slot { due_ns: 0, query: Position::default(), id: 0, round: 0, state: State::Free };
        Self {
            slots: vec![free; capacity].into_boxed_slice(),
            mask: capacity as u32 - 1,
            first_id,
            head: 0,
            tail: 0,
            lapped: VecDeque::new(),
            overdue: VecDeque::new(),
            waiting: 0,
            unsettled: 0,
        }
    }

    /// Whether all slots are taken by queries whose fate is open.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.unsettled as usize == self.slots.len()
    }

    /// Gives the query an ID and books it as waiting. Must not be called when [`Self::is_full`].
    #[inline]
    pub fn issue(&mut self, due_ns: u64, query: Position) -> u16 {
        assert!(!self.is_full(), "no ID is free");
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
            *slot = Slot { due_ns, query, id, round: (number >> 16) as u8, state: State::Waiting };
            self.waiting += 1;
            self.unsettled += 1;
            return id.wrapping_add(self.first_id);
        }
    }

    /// Takes back the query that was just issued under `id`, because the kernel refused it.
    pub fn take_back(&mut self, id: u16) {
        if let Some(slot) = self.find(id)
            && slot.state == State::Waiting
        {
            slot.state = State::Free;
            self.waiting -= 1;
            self.unsettled -= 1;
        }
    }

    /// The slot of the query that went out under this ID; none when the ID is not that of the slot's query.
    #[inline]
    pub fn find(&mut self, id: u16) -> Option<&mut Slot> {
        let id = id.wrapping_sub(self.first_id);
        let slot = &mut self.slots[(u32::from(id) & self.mask) as usize];
        (slot.id == id && slot.state != State::Free).then_some(slot)
    }

    /// Settles the query with this ID, which [`Self::find`] gave as waiting or overdue. Tells whether it
    /// was still waiting.
    #[inline]
    pub fn settle(&mut self, id: u16) -> bool {
        let index = (u32::from(id.wrapping_sub(self.first_id)) & self.mask) as usize;
        let was_waiting = self.slots[index].state == State::Waiting;
        self.slots[index].state = State::Settled;
        self.waiting -= u32::from(was_waiting);
        self.unsettled -= 1;
        was_waiting
    }

    /// Queries whose timeout has not gone by.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Queries whose fate is open.
    pub fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Lets time go by: what is due before `overdue_before_ns` and not answered is overdue, what is due before
    /// `lost_before_ns` is lost. `each_lost` is called for each query that is.
    pub fn expire(
        &mut self,
        overdue_before_ns: u64,
        lost_before_ns: u64,
        mut each_lost: impl FnMut(Position),
    ) -> Expired {
        let mut expired = Expired::default();
        while let Some(&number) = self.lapped.front() {
            if self.waits_since(number).is_some_and(|due_ns| due_ns >= overdue_before_ns) {
                break;
            }
            self.lapped.pop_front();
            self.turn_overdue(number, &mut expired);
        }
        while self.tail < self.head {
            if self.waits_since(self.tail).is_some_and(|due_ns| due_ns >= overdue_before_ns) {
                break;
            }
            self.turn_overdue(self.tail, &mut expired);
            self.tail += 1;
        }
        while let Some(&number) = self.overdue.front() {
            let slot = self.slot_of(number);
            if slot.is_in(number, State::Overdue) {
                if slot.due_ns >= lost_before_ns {
                    break;
                }
                slot.state = State::Lost;
                each_lost(slot.query);
                self.unsettled -= 1;
                expired.lost += 1;
            }
            self.overdue.pop_front();
        }
        expired
    }

    /// Ends the trial: what is not settled is lost.
    pub fn end(&mut self, each_lost: impl FnMut(Position)) -> u64 {
        self.expire(u64::MAX, u64::MAX, each_lost).lost
    }

    /// The head has come round to the tail: a query that still waits there is set aside, and its slot is
    /// passed over.
    fn pass_tail(&mut self) {
        if self.waits_since(self.tail).is_some() {
            self.lapped.push_back(self.tail);
        }
        self.tail += 1;
    }

    fn turn_overdue(&mut self, number: u64, expired: &mut Expired) {
        let slot = self.slot_of(number);
        if slot.is_in(number, State::Waiting) {
            slot.state = State::Overdue;
            self.waiting -= 1;
            self.overdue.push_back(number);
            expired.overdue += 1;
        }
    }

    /// When query `number` was due, if it waits. Its slot may hold another one: an earlier one that was passed
    /// over, or a later one since it was settled.
    fn waits_since(&mut self, number: u64) -> Option<u64> {
        let slot = self.slot_of(number);
        slot.is_in(number, State::Waiting).then_some(slot.due_ns)
    }

    #[inline]
    fn slot_of(&mut self, number: u64) -> &mut Slot {
        &mut self.slots[(number as u32 & self.mask) as usize]
    }
}

impl Slot {
    /// Whether it holds query `number`, in this state.
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
        assert_eq!(inflight.expire(1, 0, |_| ()), Expired { overdue: 1, lost: 0 });
        assert!(!inflight.settle(65_534), "a late reply");
        assert_eq!(inflight.expire(10, 2, |_| ()), Expired { overdue: 2, lost: 1 });
        assert_eq!(inflight.end(|_| ()), 1);
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
        // Number 4 falls on the slot of query 0, which waits; number 5 is the next that is free.
        assert_eq!(inflight.issue(5, query()), 5);
        assert_eq!(inflight.find(0).unwrap().state, State::Waiting);
        assert!(inflight.find(4).is_none());
        assert!(inflight.find(1).is_none(), "the slot's earlier holder is told from the present one");
        assert_eq!(inflight.expire(1, 0, |_| ()), Expired { overdue: 1, lost: 0 });
        assert_eq!(inflight.expire(100, 1, |_| ()), Expired { overdue: 1, lost: 1 });
        assert_eq!(inflight.end(|_| ()), 1);
    }

    /// Random traffic against a model that keeps every query: nothing is lost, doubled or settled twice.
    #[test]
    fn it_agrees_with_a_model_over_many_rounds() {
        for (capacity, seed) in [(8, 1), (64, 2), (65_536, 3)] {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut inflight = Inflight::new(capacity, random.u16(..));
            let mut model = std::collections::BTreeMap::new();
            let (mut issued, mut answered, mut lost) = (0_u64, 0_u64, 0_u64);
            for now_ns in 0..400_000_u64 {
                if !inflight.is_full() {
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
                lost += inflight.expire(now_ns.saturating_sub(2_000), horizon_ns, |_| ()).lost;
                model.retain(|_, due_ns| *due_ns >= horizon_ns);
                assert_eq!(inflight.unsettled() as usize, model.len());
            }
            lost += inflight.end(|_| ());
            assert_eq!(issued, answered + lost);
        }
    }
}
