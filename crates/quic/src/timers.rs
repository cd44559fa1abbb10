//! When something is due at each of many slots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The next time of each slot, in nanoseconds of the caller's clock.
#[derive(Debug, Default)]
pub struct Timers {
    /// Times with their slots. One that is not the slot's any more is obsolete.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// The time of each slot; `u64::MAX` if it has none.
    next_ns: Vec<u64>,
}

impl Timers {
    /// Sets the time of a slot, unless it has an earlier one, which stays: what is due then sets the next one.
    #[inline]
    pub fn set(&mut self, slot: usize, due_ns: u64) {
        if slot >= self.next_ns.len() {
            self.next_ns.resize(slot + 1, u64::MAX);
        }
        if due_ns < self.next_ns[slot] {
            self.next_ns[slot] = due_ns;
            self.heap.push(Reverse((due_ns, slot)));
        }
    }

    /// Takes a slot whose time has come. It then has none.
    pub fn take_due(&mut self, now_ns: u64) -> Option<usize> {
        while let Some(&Reverse((due_ns, slot))) = self.heap.peek() {
            if due_ns > now_ns {
                return None;
            }
            self.heap.pop();
            if self.next_ns[slot] == due_ns {
                self.next_ns[slot] = u64::MAX;
                return Some(slot);
            }
        }
        None
    }

    /// When something may be due; `None` if nothing is. It is never later than the first time.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|&Reverse((due_ns, _))| due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_due_once_at_its_earliest_time() {
        let mut timers = Timers::default();
        for (slot, due_ns) in [(3, 30), (1, 10), (3, 20), (1, 40)] {
            timers.set(slot, due_ns);
        }
        assert_eq!((timers.next_ns(), timers.take_due(9)), (Some(10), None));
        assert_eq!((timers.take_due(20), timers.take_due(20), timers.take_due(20)), (Some(1), Some(3), None));
        timers.set(1, 35);
        assert_eq!(timers.take_due(100), Some(1));
        assert_eq!((timers.take_due(100), timers.next_ns()), (None, None));
    }
}
