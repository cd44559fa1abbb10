//! Counts of frames that passed the kernel's network stack.

use std::collections::BTreeMap;

use kqps_kernel::xdp::XdpStatistics;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connections::add_counts;

/// Counts of frames over all workers: `matched = read + Σ dropped`. All that was read counts as received too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XdpReport {
    /// Frames for the server that the program on the device handed to workers.
    pub matched: u64,
    /// Frames that workers read.
    pub read: u64,
    /// Frames that no worker read, by cause: `ring-full`, or `no-free-frame`, which includes frames that were too long.
    pub dropped: BTreeMap<String, u64>,
    /// Frames for the server that came by a queue without a worker. They went to the kernel.
    pub unclaimed: u64,
    /// Datagrams that workers received by the kernel: fragments, headers with options or extensions, and those of
    /// `unclaimed`.
    pub by_kernel: u64,
}

impl XdpReport {
    /// The counts of one worker.
    pub(crate) fn of_worker(read: u64, by_kernel: u64, statistics: &XdpStatistics) -> Self {
        let causes =
            [("no-free-frame", statistics.rx_dropped), ("ring-full", statistics.rx_ring_full)].into_iter();
        let causes = causes.filter(|(_, count)| *count > 0);
        let dropped = causes.map(|(cause, count)| (cause.to_owned(), count)).collect();
        Self { matched: 0, read, dropped, unclaimed: 0, by_kernel }
    }

    /// Adds other counts.
    pub(crate) fn add(&mut self, other: Self) {
        self.matched += other.matched;
        self.read += other.read;
        self.unclaimed += other.unclaimed;
        self.by_kernel += other.by_kernel;
        add_counts(&mut self.dropped, other.dropped);
    }

    /// By how many frames the counts do not add up: 0 unless a worker failed.
    pub fn unsettled(&self) -> u64 {
        self.matched.abs_diff(self.read + self.dropped.values().sum::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_workers_and_of_the_program_add_up() {
        let statistics = XdpStatistics { rx_dropped: 2, rx_ring_full: 3, ..XdpStatistics::default() };
        let mut all = XdpReport::of_worker(10, 1, &statistics);
        all.add(XdpReport::of_worker(5, 0, &XdpStatistics::default()));
        all.add(XdpReport { matched: 21, unclaimed: 1, ..XdpReport::default() });
        let dropped = [("no-free-frame".to_owned(), 2), ("ring-full".to_owned(), 3)];
        let expected =
            XdpReport { matched: 21, read: 15, dropped: dropped.into(), unclaimed: 1, by_kernel: 1 };
        assert_eq!((all.unsettled(), all), (1, expected));
    }
}
