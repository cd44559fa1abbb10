//! The order of what waits: by time, and of equal times by arrival. What comes in order costs a few instructions. What
//! does not costs a place in a heap, whatever the times are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The bits of a number.
const NUMBER_BITS: u32 = 20;

/// A time, and the arrival with the number in its lowest bits.
type Entry = (u64, u64);

#[derive(Default)]
pub(super) struct Order {
    /// Entries that came after all others in time.
    run: VecDeque<Entry>,
    /// Entries that did not.
    strays: BinaryHeap<Reverse<Entry>>,
    arrivals: u64,
}

impl Order {
    /// Adds a number, which is below 2^20.
    pub(super) fn push(&mut self, at_ns: u64, number: u32) {
        let entry = (at_ns, self.arrivals << NUMBER_BITS | u64::from(number));
        self.arrivals += 1;
        if self.run.back().is_none_or(|last| last.0 <= at_ns) {
            self.run.push_back(entry);
        } else {
            self.strays.push(Reverse(entry));
        }
    }

    /// The earliest time.
    pub(super) fn first_ns(&self) -> Option<u64> {
        let stray = self.strays.peek().map(|Reverse(entry)| *entry);
        self.run.front().copied().into_iter().chain(stray).min().map(|(at_ns, _)| at_ns)
    }

    /// Removes the number with the earliest time.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let is_stray = match (self.run.front(), self.strays.peek()) {
            (Some(first), Some(Reverse(stray))) => stray < first,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let entry = if is_stray { self.strays.pop().map(|entry| entry.0) } else { self.run.pop_front() };
        let number = entry?.1 & ((1 << NUMBER_BITS) - 1);
        Some(u32::try_from(number).expect("a number has 20 bits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_first_that_came() {
        let mut order = Order::default();
        for (number, at_ns) in [5, 9, 9, 2, 7, u64::MAX, 5, 9, 0].into_iter().enumerate() {
            order.push(at_ns, number as u32);
        }
        assert_eq!(order.first_ns(), Some(0));
        let all: Vec<u32> = std::iter::from_fn(|| order.pop()).collect();
        assert_eq!(all, [8, 3, 0, 6, 4, 1, 2, 7, 5]);
        assert_eq!(order.first_ns(), None);
    }
}
