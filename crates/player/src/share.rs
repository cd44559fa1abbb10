//! Shares of the whole for a thread and a flow: sockets and window by thread, room for outstanding queries by flow.

use std::ops::Range;
use std::time::Duration;

use crate::plan::LoadPlan;

/// The least room that a flow has for outstanding queries. Small tables stay in the cache.
const CAPACITY_LEAST: usize = 1 << 10;

/// The least room of each flow if there are more than `FLOWS_FEW`, so that 100,000 of them fit the memory.
const CAPACITY_LEAST_OF_MANY: usize = 1 << 4;
const FLOWS_FEW: usize = 4096;

/// Thread `number`'s share of `whole`. The shares add up to `whole` and differ by 1 at most.
pub(crate) fn share_of(whole: u64, threads: usize, number: usize) -> Range<u64> {
    let upto = |thread: usize| (u128::from(whole) * thread as u128 / threads as u128) as u64;
    upto(number)..upto(number + 1)
}

/// The thread that has each part of a whole, by the numbers of the parts.
#[derive(Debug)]
pub(crate) struct Owners {
    /// Where the share of each thread ends.
    ends: Box<[u64]>,
}

impl Owners {
    /// The owners of the shares of [`share_of`].
    pub(crate) fn new(whole: u64, threads: usize) -> Self {
        Self { ends: (0..threads).map(|thread| share_of(whole, threads, thread).end).collect() }
    }

    /// The owners of parts in a row, of which each thread has this many.
    pub(crate) fn of_counts(counts: impl Iterator<Item = usize>) -> Self {
        let end = |upto: &mut u64, count: usize| {
            *upto += count as u64;
            Some(*upto)
        };
        Self { ends: counts.scan(0, end).collect() }
    }

    /// The thread that has the part with this number. What is beyond the whole is the first one's.
    #[inline]
    pub(crate) fn thread(&self, number: u64) -> usize {
        let thread = self.ends.partition_point(|end| *end <= number);
        if thread < self.ends.len() { thread } else { 0 }
    }
}

/// Slots of each socket: enough for all queries that leave through it until their fates are settled, if none is
/// answered. `sockets` is the number of sockets of all threads. In a replay clients do not share the load evenly, and
/// the books make more room at a socket or connection that needs it.
pub(crate) fn capacity(load: LoadPlan, timeout: Duration, settle: Duration, sockets: usize) -> usize {
    let needed = (1.25 * unsettled(load, timeout, settle) / sockets as f64) as usize;
    let least = if sockets > FLOWS_FEW { CAPACITY_LEAST_OF_MANY } else { CAPACITY_LEAST };
    needed.clamp(least, 1 << 16).next_power_of_two()
}

/// Tables of IDs that all sockets together need, so that each has room for its part of the queries.
pub(crate) fn tables(load: LoadPlan, timeout: Duration, settle: Duration) -> usize {
    ((1.25 * unsettled(load, timeout, settle) / f64::from(1 << 16)).ceil() as usize).max(1)
}

/// The most queries whose fates are open, if none is answered.
fn unsettled(load: LoadPlan, timeout: Duration, settle: Duration) -> f64 {
    // A window is refilled once per timeout.
    let of_window = |window: u64| window as f64 * (settle.as_secs_f64() / timeout.as_secs_f64()).ceil();
    match load {
        LoadPlan::Open { rate_qps, window, .. } => {
            (rate_qps * settle.as_secs_f64()).min(window.map_or(f64::INFINITY, of_window))
        }
        LoadPlan::Closed { outstanding } | LoadPlan::Limited { outstanding, .. } => of_window(outstanding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrivals;

    #[test]
    fn shares_add_up_and_none_is_empty_if_there_is_enough() {
        for (whole, threads) in [(4, 3), (6, 4), (8, 5), (1024, 1024), (32, 1), (7, 7)] {
            let shares: Vec<u64> = (0..threads)
                .map(|number| share_of(whole, threads, number))
                .map(|share| share.end - share.start)
                .collect();
            assert_eq!(shares.iter().sum::<u64>(), whole);
            assert!(
                shares
                    .iter()
                    .all(|share| [whole / threads as u64, whole.div_ceil(threads as u64)].contains(share))
            );
        }
    }

    #[test]
    fn a_part_belongs_to_the_thread_whose_share_has_it() {
        for threads in [1, 2, 3, 7] {
            let owners = Owners::new(977, threads);
            for thread in 0..threads {
                let share = share_of(977, threads, thread);
                assert!(share.map(|number| owners.thread(number)).all(|owner| owner == thread));
            }
            assert_eq!(owners.thread(977), 0);
        }
        let owners = Owners::of_counts([2, 0, 1].into_iter());
        assert_eq!([0, 1, 2, 3].map(|number| owners.thread(number)), [0, 0, 2, 0]);
    }

    #[test]
    fn a_flow_has_room_for_what_it_needs() {
        let second = Duration::from_secs(1);
        let open = |rate_qps| LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
        assert_eq!(capacity(open(1000.0), second, second, 1), 2048);
        assert_eq!(capacity(open(1000.0), second, second, 64), 1024, "small tables are not made smaller");
        assert_eq!(capacity(open(1e6), second, second, 100_000), 16);
        assert_eq!(capacity(open(1e7), second, second, 100_000), 128);
        assert_eq!(capacity(open(1e9), second, second, 1), 1 << 16, "a message has no more IDs");
        assert_eq!([1.0, 5e5].map(|rate_qps| tables(open(rate_qps), second, second)), [1, 10]);
    }
}
