//! The part of a dataset that a thread plays, again and again, so that threads never play the same query at
//! the same time.

use kqps_dataset::{Dataset, Position};

/// A thread's part, and where it stands in it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    first: Position,
    end: Position,
    next: Position,
    /// Queries left to play; `u64::MAX` without an end.
    left: u64,
}

impl Part {
    /// The part of thread `thread` of `threads`, to be played so many times, or for ever.
    pub fn new(dataset: &Dataset, threads: usize, thread: usize, passes: Option<u64>) -> Self {
        let index = |thread: usize| dataset.queries() * thread as u64 / threads as u64;
        let (mut from, mut to) = (index(thread), index(thread + 1));
        if from == to {
            // More threads than queries: each plays them all.
            (from, to) = (0, dataset.queries());
        }
        let first = dataset.position(from);
        let left = passes.map_or(u64::MAX, |passes| passes.saturating_mul(to - from));
        Self { first, end: dataset.position(to), next: first, left }
    }

    /// Whether it was played as often as was wanted.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Takes the next query.
    #[inline]
    pub fn advance(&mut self, dataset: &Dataset) -> Position {
        let position = self.next;
        let next = dataset.after(position);
        self.next = if next == self.end { self.first } else { next };
        if self.left != u64::MAX {
            self.left -= 1;
        }
        position
    }
}
