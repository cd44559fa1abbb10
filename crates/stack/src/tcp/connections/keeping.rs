//! Where connections are kept, found and queued.

use super::{ConnectError, Connections, Ends, Id, Marks, NONE, Now, Pair, Path, Segment, State, Tcb, emit};
use crate::tcp::segment::Flags;

impl Connections {
    /// The number of the connection of a pair with this hash.
    #[inline]
    pub(super) fn find(&self, pair: &Pair, hash: u64) -> Option<u32> {
        self.table.find(hash as u32, |index| self.tcbs[index as usize].pair == *pair)
    }

    /// The number of a connection that has not ended.
    #[inline]
    pub(super) fn index(&self, id: Id) -> Option<u32> {
        let tcb = self.tcbs.get(id.index as usize)?;
        (tcb.generation == id.generation && !tcb.marks.has(Marks::FREED)).then_some(id.index)
    }

    #[inline]
    pub(super) fn id(&self, index: u32) -> Id {
        Id { index, generation: self.tcbs[index as usize].generation }
    }

    /// The number of a path. There are few.
    pub(super) fn path(&mut self, path: &Path) -> Result<u16, ConnectError> {
        let known = self.paths.iter().position(|known| known == path);
        let number = known.unwrap_or(self.paths.len());
        let number = u16::try_from(number).map_err(|_| ConnectError::Paths)?;
        if known.is_none() {
            self.paths.push(*path);
        }
        Ok(number)
    }

    /// Puts a connection in a free place.
    pub(super) fn place(&mut self, tcb: Tcb, now: Now) -> Result<u32, ConnectError> {
        if self.free == NONE && self.tcbs.len() == self.most as usize {
            self.give_up(now);
        }
        if self.free != NONE {
            let index = self.free;
            let place = &mut self.tcbs[index as usize];
            self.free = place.next;
            *place = Tcb { generation: place.generation, ..tcb };
            return Ok(index);
        }
        if self.tcbs.len() == self.most as usize {
            return Err(ConnectError::Full);
        }
        self.tcbs.push(tcb);
        self.wheel.grow();
        Ok(self.tcbs.len() as u32 - 1)
    }

    /// Gives up a half-closed connection that the caller has closed. The hand goes round: those that it has not passed
    /// since they began are the oldest.
    #[cold]
    fn give_up(&mut self, now: Now) {
        let all = self.tcbs.len() as u32;
        for _ in 0..all {
            let index = self.hand;
            self.hand = if index + 1 < all { index + 1 } else { 0 };
            let tcb = &self.tcbs[index as usize];
            let is_half_closed = tcb.state == State::FinWait2 && tcb.marks.has(Marks::RELEASED);
            if is_half_closed && !tcb.marks.has(Marks::QUEUED) {
                self.shared.counts.fin_wait_given_up += 1;
                self.let_go(index, now);
                return;
            }
        }
    }

    /// After anything happened to a connection: queues it if it has something to send, sets its timer, and lets it go
    /// if nothing is left to do.
    #[inline]
    pub(super) fn settle(&mut self, index: u32, now: Now) {
        let tcb = &mut self.tcbs[index as usize];
        let has_next = emit::next(tcb).is_some();
        if !has_next && matches!(tcb.state, State::Closed | State::TimeWait) {
            self.let_go(index, now);
            return;
        }
        if tcb.is_blocked() && !tcb.marks.has(Marks::ARMED) {
            tcb.arm(now, &self.shared.limits);
        }
        if let Some(at) = tcb.deadline() {
            self.wheel.set(index, at);
        }
        if has_next && !tcb.marks.has(Marks::QUEUED) {
            tcb.marks.set(Marks::QUEUED);
            tcb.next = NONE;
            match self.queue.1 {
                NONE => self.queue.0 = index,
                last => self.tcbs[last as usize].next = index,
            }
            self.queue.1 = index;
        }
    }

    /// Gives back all that an ended connection has. A place in the queue is free when its turn comes.
    fn let_go(&mut self, index: u32, now: Now) {
        let tcb = &mut self.tcbs[index as usize];
        let hash = tcb.pair.hash(self.key);
        if tcb.state == State::TimeWait {
            self.ended.remember(hash, (tcb.snd_max, tcb.rcv_nxt), now.tick());
        }
        self.shared.output.clear(&mut tcb.output);
        self.shared.held.clear(&mut tcb.held);
        tcb.state = State::Closed;
        tcb.generation = tcb.generation.wrapping_add(1);
        let is_queued = tcb.marks.has(Marks::QUEUED);
        tcb.marks = Marks::default();
        tcb.marks.set(Marks::FREED);
        if is_queued {
            tcb.marks.set(Marks::QUEUED);
        } else {
            tcb.next = self.free;
            self.free = index;
        }
        self.table.remove(hash as u32, index);
        self.wheel.clear(index);
        self.count -= 1;
    }

    /// Takes the first connection out of the queue.
    #[inline]
    pub(super) fn pop(&mut self) {
        let index = self.queue.0;
        if index == NONE {
            return;
        }
        let tcb = &mut self.tcbs[index as usize];
        self.queue.0 = tcb.next;
        if self.queue.0 == NONE {
            self.queue.1 = NONE;
        }
        tcb.marks.clear(Marks::QUEUED);
        if tcb.marks.has(Marks::FREED) {
            tcb.next = self.free;
            self.free = index;
        }
    }

    /// Answers a segment that belongs to no connection. The peer of an ended one gets its ACK once more; others get a
    /// RST (RFC 9293, section 3.10.7.1).
    #[cold]
    pub(super) fn stranger(&mut self, ends: &Ends, segment: &Segment<'_>, hash: u64, now: Now) {
        self.shared.counts.strangers += 1;
        let flags = segment.header.flags;
        if flags.has(Flags::RST) {
            return;
        }
        if let Some(last) = self.ended.find(hash, now.tick()).filter(|_| !flags.has(Flags::SYN)) {
            if segment.length() > 0 {
                let numbers = (last.sequence, last.acknowledgment);
                self.shared.acknowledge_late(ends, segment, numbers, now);
            }
            return;
        }
        self.shared.counts.strangers_reset += 1;
        self.shared.refuse(ends, segment);
    }
}
