//! Counters that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PER_LINE: usize = 16;

/// A row of counters, on cache lines of its own.
#[derive(Debug)]
pub(super) struct Counters(Box<[Line]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([AtomicU64; PER_LINE]);

impl Counters {
    /// At least `count` counters of 0.
    pub(super) fn new(count: usize) -> Self {
        Self((0..count.div_ceil(PER_LINE)).map(|_| Line::default()).collect())
    }

    /// Adds 1 to the counter with this index.
    #[inline]
    pub(super) fn count(&self, at: usize) {
        add(&self.0[at / PER_LINE].0[at % PER_LINE], 1);
    }

    /// Sets the counter with this index.
    pub(super) fn set(&self, at: usize, value: u64) {
        self.0[at / PER_LINE].0[at % PER_LINE].store(value, Relaxed);
    }

    /// The values, by index.
    pub(super) fn values(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|line| &line.0).map(|counter| counter.load(Relaxed))
    }
}

/// Adds to a counter. Only one thread writes, so load and store need not be one atomic step.
#[inline]
pub(super) fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Relaxed).saturating_add(more), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_has_a_counter() {
        let counters = Counters::new(PER_LINE + 1);
        for at in [0, PER_LINE, PER_LINE] {
            counters.count(at);
        }
        let values: Vec<u64> = counters.values().collect();
        assert_eq!((values[0], values[1], values[PER_LINE]), (1, 0, 2));
        assert_eq!((align_of::<Line>() % 128, size_of::<Line>() % 128), (0, 0));
    }
}
