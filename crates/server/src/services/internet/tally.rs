//! Counts of one thread that others read while it counts: by level, kind and fault. Only the thread itself writes them, so
//! counting is a load and a store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use strum::VariantArray as _;

use super::tree::{KINDS, Kind, LEVELS, Level, TreeAnswer};
use crate::counts::Counts;

/// The counts of one thread.
pub(super) struct Tally {
    answers: [[AtomicU64; KINDS]; LEVELS],
    /// By the index of the tree's faults.
    faults: Box<[AtomicU64]>,
    received: AtomicU64,
    answered: AtomicU64,
    under_way: AtomicU64,
}

fn increase(count: &AtomicU64) {
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Tally {
    /// Counts of nothing, for a tree that has so many faults.
    pub(super) fn new(faults: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            answers: std::array::from_fn(|_| std::array::from_fn(|_| zero())),
            faults: (0..faults).map(|_| zero()).collect(),
            received: zero(),
            answered: zero(),
            under_way: zero(),
        }
    }

    /// Counts an answer of the tree.
    #[inline]
    pub(super) fn add(&self, answer: &TreeAnswer) {
        increase(&self.answers[answer.level as usize][answer.kind as usize]);
        if let Some(fault) = answer.fault {
            self.add_fault(fault);
        }
    }

    /// Counts a fault, which is an index of the tree's faults.
    #[inline]
    pub(super) fn add_fault(&self, fault: u8) {
        increase(&self.faults[usize::from(fault)]);
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
