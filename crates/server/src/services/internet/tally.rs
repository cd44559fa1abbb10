//! Counts of one thread that others read while it counts: by level, kind and fault. Only the thread itself writes them, so
//! counting is a load and a store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use strum::VariantArray as _;

use super::tree::{KINDS, Kind, LEVELS, Level, TreeAnswer};
use crate::counts::Counts;

/// The most faults that a tree may have.
const FAULTS: usize = 64;

/// The counts of one thread.
pub(super) struct Tally {
    answers: [[AtomicU64; KINDS]; LEVELS],
    faults: [AtomicU64; FAULTS],
    received: AtomicU64,
    answered: AtomicU64,
    under_way: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            answers: std::array::from_fn(|_| zeros()),
            faults: std::array::from_fn(|_| AtomicU64::new(0)),
            received: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
        }
    }
}

fn increase(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Tally {
    /// Counts an answer of the tree.
    #[inline]
    pub(super) fn add(&self, answer: &TreeAnswer) {
        increase(&self.answers[answer.level as usize][answer.kind as usize]);
        if let Some(fault) = answer.fault {
            increase(&self.faults[usize::from(fault).min(FAULTS - 1)]);
        }
    }

    /// Notes the thread's counts of now, and the number of answers that wait for their time.
    #[inline]
    pub(super) fn note(&self, counts: &Counts, under_way: usize) {
        self.received.store(counts.received, Ordering::Relaxed);
        self.answered.store(counts.answered, Ordering::Relaxed);
        self.under_way.store(under_way as u64, Ordering::Relaxed);
    }

    /// Queries received and answered so far.
    pub(super) fn received_and_answered(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.answered.load(Ordering::Relaxed))
    }

    /// Answers that wait for their time.
    pub(super) fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Adds the answers by level and kind, without counts of 0.
    pub(super) fn add_answers(&self, to: &mut BTreeMap<String, BTreeMap<String, u64>>) {
        for (level, kinds) in Level::VARIANTS.iter().zip(&self.answers) {
            for (kind, count) in Kind::VARIANTS.iter().zip(kinds) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    *to.entry(level.to_string()).or_default().entry(kind.to_string()).or_default() += count;
                }
            }
        }
    }

    /// Adds the faults by their names, without counts of 0.
    pub(super) fn add_faults(&self, names: &[&str], to: &mut BTreeMap<String, u64>) {
        for (name, count) in names.iter().zip(&self.faults) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                *to.entry((*name).to_owned()).or_default() += count;
            }
        }
    }
}
