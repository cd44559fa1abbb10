//! Replies that wait for their time, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A reply with its flow and the number of its query.
pub(super) struct Waiting {
    pub(super) flow: usize,
    pub(super) query: u32,
    pub(super) bytes: Box<[u8]>,
}

/// A queue ordered by time, and by arrival among equal times, so that a constant delay keeps the
/// order.
#[derive(Default)]
pub(super) struct Queue {
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    replies: Vec<Option<Waiting>>,
    free: Vec<usize>,
    arrivals: u64,
}

impl Queue {
    pub(super) fn push(&mut self, due_ns: u64, reply: Waiting) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.replies.push(None);
            self.replies.len() - 1
        });
        self.replies[place] = Some(reply);
        self.arrivals += 1;
        self.order.push(Reverse((due_ns, self.arrivals, place)));
    }

    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waiting> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        let Reverse((_, _, place)) = self.order.pop()?;
        self.free.push(place);
        self.replies[place].take()
    }

    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((due_ns, _, _))| *due_ns)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_by_time_then_by_arrival() {
        let mut queue = Queue::default();
        for (due_ns, flow) in [(30, 0), (10, 1), (10, 2), (20, 3)] {
            queue.push(due_ns, Waiting { flow, query: 0, bytes: Box::default() });
        }
        let mut left = Vec::new();
        while let Some(reply) = queue.pop_due(20) {
            left.push(reply.flow);
        }
        assert_eq!(left, [1, 2, 3]);
        assert_eq!((queue.next_due_ns(), queue.len()), (Some(30), 1));
    }
}
