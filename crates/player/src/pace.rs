//! Decides when the next query leaves: by a schedule, or by the subject's replies. Also decides when several queries
//! should leave together, since waking up for each query costs most.
//!
//! All times are nanoseconds since the trial's common start.

use std::ops::RangeInclusive;

use crate::schedule::Schedule;

/// A closed loop that has sent nothing for this long stops waiting for a larger part of its window.
const PATIENCE_NS: u64 = 200_000;

/// The pace of one thread.
#[derive(Debug)]
pub enum Pace {
    /// Open loop: a schedule decides, whatever the subject answers.
    Open {
        /// When queries are due.
        schedule: Schedule,
        /// How long a due query may wait for others to leave with it.
        coalesce_ns: u64,
        /// When the next burst will leave, once that is decided. Obsolete if the next query is due later.
        leave_ns: Option<u64>,
        /// The most outstanding queries; `None` without a limit.
        window: Option<u64>,
    },
    /// Closed loop: the number of outstanding queries is limited.
    Closed {
        /// The most outstanding queries.
        window: u64,
        /// The highest rate; `None` without one.
        limit: Option<Limit>,
    },
}

/// The highest rate of a closed loop. As in dnsperf, each second has as many queries as the rate says, and what one
/// second did not send is not made up for in the next.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    rate_qps: f64,
    /// The length of a slice: a second, or as long as one query needs.
    slice_ns: u64,
    /// The number of the slice in which the last query was taken, from 0.
    slice: u64,
    /// The queries that were taken in it.
    taken: u64,
}

impl Limit {
    /// The limit of a thread that sends this many queries a second at most.
    pub fn new(rate_qps: f64) -> Self {
        Self { rate_qps, slice_ns: (1e9 / rate_qps.min(1.0)) as u64, slice: 0, taken: 0 }
    }

    /// The queries of the present slice. Rates that are no whole number have one more in some slices.
    fn most(&self) -> u64 {
        let until = |slices: u64| (slices as f64 * self.slice_ns as f64 * self.rate_qps / 1e9).round() as u64;
        until(self.slice + 1) - until(self.slice)
    }

    /// The next query leaves at this time or later.
    fn next_ns(&self) -> u64 {
        let (begin_ns, end_ns) = (self.slice * self.slice_ns, (self.slice + 1) * self.slice_ns);
        if self.taken >= self.most() {
            return end_ns;
        }
        end_ns.min(begin_ns + (self.taken as f64 / self.rate_qps * 1e9) as u64)
    }

    fn take(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns() {
            return false;
        }
        let slice = now_ns / self.slice_ns;
        if slice > self.slice {
            (self.slice, self.taken) = (slice, 0);
        }
        // In a slice that just began, the first query is due.
        self.taken += 1;
        true
    }
}

/// The state of a thread, as far as its pace needs it.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The current time.
    pub now_ns: u64,
    /// Queries whose timeout has not passed.
    pub waiting: u64,
    /// When a burst left last.
    pub last_send_ns: u64,
}

impl Pace {
    /// Whether nothing more will be sent, if sending stops at `stop_at_ns`.
    #[inline]
    pub fn is_played(&self, now_ns: u64, stop_at_ns: u64) -> bool {
        match self {
            Self::Open { schedule, .. } => schedule.is_over() || schedule.next_due_ns() >= stop_at_ns,
            Self::Closed { .. } => now_ns >= stop_at_ns,
        }
    }

    /// Whether a schedule decides when queries leave, rather than the subject's replies.
    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Whether an open loop's window is full while `waiting` queries are outstanding.
    #[inline]
    pub fn is_held_back(&self, waiting: u64) -> bool {
        match self {
            Self::Open { window, .. } => window.is_some_and(|window| waiting >= window),
            Self::Closed { .. } => false,
        }
    }

    /// Takes the next query if one may leave at `now_ns`, and returns when it is due.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Open { schedule, .. } => (schedule.next_due_ns() <= now_ns).then(|| schedule.take()),
            Self::Closed { limit: None, .. } => Some(now_ns),
            Self::Closed { limit: Some(limit), .. } => limit.take(now_ns).then_some(now_ns),
        }
    }

    /// Takes at most `most` queries of an open loop that are due before `before_ns`, and returns how many. With random
    /// arrivals it may leave some for another call.
    pub fn skip(&mut self, before_ns: u64, most: u64) -> u64 {
        match self {
            Self::Open { schedule, .. } => schedule.skip(before_ns, most),
            Self::Closed { .. } => 0,
        }
    }

    /// When the next query of an open loop is due, if that is before this time.
    #[inline]
    pub fn due_before_ns(&self, before_ns: u64) -> Option<u64> {
        match self {
            Self::Open { schedule, .. } => Some(schedule.next_due_ns()).filter(|due_ns| *due_ns < before_ns),
            Self::Closed { .. } => None,
        }
    }

    /// Follows a source of queries that knows when each is due: sets when the next one is.
    #[inline]
    pub fn follow(&mut self, next_due_ns: u64) {
        if let Self::Open { schedule, .. } = self {
            schedule.tell(next_due_ns);
        }
    }

    /// When a schedule that ends with the last query taken is over; `None` in a closed loop, and with random arrivals.
    pub fn end_ns(&self) -> Option<u64> {
        match self {
            Self::Open { schedule, .. } => schedule.end_ns(),
            Self::Closed { .. } => None,
        }
    }

    /// How many of `most` queries may leave while `waiting` are outstanding.
    #[inline]
    pub fn room(&self, waiting: u64, most: usize) -> u64 {
        match self {
            Self::Open { window: None, .. } => most as u64,
            Self::Open { window: Some(window), .. } | Self::Closed { window, .. } => {
                window.saturating_sub(waiting).min(most as u64)
            }
        }
    }

    /// Whether a burst of at most `most` queries should leave now. In an open loop, the first due query waits a little
    /// for those that fall due next. In a closed loop, a burst waits until an eighth of the window is free, or until
    /// nothing has left for 200 µs.
    #[inline]
    pub fn is_due(&self, standing: Standing, most: usize) -> bool {
        match self {
            Self::Open { .. } => self.leaves_ns(most).is_some_and(|leaves| *leaves.end() <= standing.now_ns),
            Self::Closed { window, limit: Some(limit) } => {
                limit.next_ns() <= standing.now_ns && standing.waiting < *window
            }
            Self::Closed { window, limit: None } => {
                let free = window.saturating_sub(standing.waiting);
                let worth = worth_sending(*window, most);
                let idle_ns = standing.now_ns.saturating_sub(standing.last_send_ns);
                free >= worth || (free > 0 && idle_ns > PATIENCE_NS)
            }
        }
    }

    /// How many replies a closed loop still needs before a burst is worth sending. `None` in an open loop, and with a
    /// window so small that any reply is enough.
    #[inline]
    pub fn missing(&self, waiting: u64, most: usize) -> Option<u64> {
        let Self::Closed { window, limit: None } = *self else { return None };
        let worth = worth_sending(window, most);
        (worth > 1).then(|| (waiting + worth).saturating_sub(window))
    }

    /// The time before which the highest rate of a closed loop lets no query leave, if its window has room while
    /// `waiting` are outstanding.
    #[inline]
    pub fn not_before_ns(&self, waiting: u64) -> Option<u64> {
        match self {
            Self::Closed { window, limit: Some(limit) } if waiting < *window => Some(limit.next_ns()),
            Self::Open { .. } | Self::Closed { .. } => None,
        }
    }

    /// The earliest and the intended time at which an open loop's next burst leaves; `None` in a closed loop.
    #[inline]
    pub fn leaves_ns(&self, most: usize) -> Option<RangeInclusive<u64>> {
        match self {
            Self::Open { schedule, coalesce_ns, leave_ns, .. } => {
                let due_ns = schedule.next_due_ns();
                let decided_ns = leave_ns.filter(|&leave_ns| leave_ns >= due_ns);
                let at_ns = decided_ns
                    .unwrap_or_else(|| due_ns + schedule.whole_periods_ns(*coalesce_ns, most as u64 - 1));
                Some(due_ns..=at_ns)
            }
            Self::Closed { .. } => None,
        }
    }

    /// When an open loop's second burst from now will probably leave, if the next burst takes all queries due by `ns`.
    /// `None` if that is pure chance, and in a closed loop.
    pub fn leaves_after_ns(&self, ns: u64, most: usize) -> Option<u64> {
        match self {
            Self::Open { schedule, coalesce_ns, .. } => {
                let wait_ns = schedule.whole_periods_ns(*coalesce_ns, most as u64 - 1);
                (schedule.is_even() || wait_ns > 0).then(|| schedule.due_after_ns(ns) + wait_ns)
            }
            Self::Closed { .. } => None,
        }
    }

    /// Decides when an open loop's next burst will leave, once its first query is due.
    pub fn leave_at(&mut self, at_ns: u64) {
        if let Self::Open { leave_ns, .. } = self {
            *leave_ns = Some(at_ns);
        }
    }
}

/// How much of a closed loop's window must be free before a burst is worth sending.
#[inline]
fn worth_sending(window: u64, most: usize) -> u64 {
    (window / 8).clamp(1, most as u64)
}

#[cfg(test)]
mod tests {
    use kqps_catalogue::course::{Course, Leg};

    use super::*;
    use crate::plan::Arrivals;

    fn open(rate_qps: f64) -> Pace {
        let schedule = Schedule::new(rate_qps, 1, 0, Arrivals::Even, 0);
        Pace::Open { schedule, coalesce_ns: 25_000, leave_ns: None, window: None }
    }

    #[test]
    fn an_open_loop_waits_for_whole_periods_only() {
        // At 100 kqps two more fall due within 25 µs. At 10 kqps none does, and waiting would gain nothing.
        assert_eq!(open(100_000.0).leaves_ns(32), Some(0..=20_000));
        assert_eq!(open(10_000.0).leaves_ns(32), Some(0..=0));
        assert_eq!(open(10_000_000.0).leaves_ns(32), Some(0..=3_100), "no longer than a burst takes");
        assert_eq!(open(100_000.0).leaves_ns(1), Some(0..=0));
    }

    #[test]
    fn a_course_that_is_over_is_played_and_waits_for_nothing() {
        let leg = Leg { seconds: 0.01, from: 1.0, to: 1.0 };
        let course = Course::new(vec![leg]).unwrap();
        let schedule = Schedule::new(1_000.0, 1, 0, Arrivals::Even, 0).along(Some(&course));
        let mut pace = Pace::Open { schedule, coalesce_ns: 25_000, leave_ns: None, window: None };
        assert!(!pace.is_played(0, u64::MAX));
        assert_eq!(pace.skip(u64::MAX, u64::MAX), 10);
        assert!(pace.is_played(10_000_000, u64::MAX) && pace.due_before_ns(u64::MAX / 4).is_none());
        let standing = Standing { now_ns: 20_000_000, waiting: 0, last_send_ns: 0 };
        assert!(!pace.is_due(standing, 32) && pace.leaves_after_ns(20_000_000, 32).is_some());
    }

    #[test]
    fn what_was_decided_holds_until_its_queries_have_left() {
        let mut pace = open(100_000.0);
        pace.leave_at(27_000);
        assert_eq!(pace.leaves_ns(32), Some(0..=27_000));
        while pace.take(31_000).is_some() {}
        assert_eq!(pace.leaves_ns(32), Some(40_000..=60_000));
    }

    #[test]
    fn the_burst_after_the_next_is_foreseen_where_its_queries_are_known() {
        assert_eq!(open(100_000.0).leaves_after_ns(27_000, 32), Some(30_000 + 20_000));
        assert_eq!(open(1_000.0).leaves_after_ns(27_000, 32), Some(1_000_000));
        let random = |rate_qps| Pace::Open {
            schedule: Schedule::new(rate_qps, 1, 0, Arrivals::Poisson, 7),
            coalesce_ns: 25_000,
            leave_ns: None,
            window: None,
        };
        assert!(random(100_000.0).leaves_after_ns(27_000, 32).is_some_and(|after_ns| after_ns > 47_000));
        assert_eq!(random(1_000.0).leaves_after_ns(27_000, 32), None);
        assert_eq!(Pace::Closed { window: 8, limit: None }.leaves_after_ns(27_000, 32), None);
    }

    #[test]
    fn what_a_stall_left_behind_is_due_at_its_own_times() {
        let mut pace = open(100_000.0);
        let dues: Vec<u64> = std::iter::from_fn(|| pace.take(25_000)).collect();
        assert_eq!(dues, [0, 10_000, 20_000]);
    }

    #[test]
    fn a_closed_loop_sends_when_a_part_of_its_window_is_free() {
        let pace = Pace::Closed { window: 80, limit: None };
        let standing = |waiting: u64, idle_ns: u64| Standing {
            now_ns: 1_000_000,
            waiting,
            last_send_ns: 1_000_000 - idle_ns,
        };
        assert!(pace.is_due(standing(70, 0), 32));
        assert!(!pace.is_due(standing(71, 0), 32));
        assert!(pace.is_due(standing(79, 200_001), 32));
        assert!(!pace.is_due(standing(80, 200_001), 32));
        assert_eq!(
            (pace.missing(80, 32), pace.missing(72, 32), pace.missing(60, 32)),
            (Some(10), Some(2), Some(0))
        );
        assert_eq!(Pace::Closed { window: 8, limit: None }.missing(8, 32), None);
        assert_eq!((pace.room(70, 32), pace.room(0, 32), pace.room(99, 32)), (10, 32, 0));
    }

    #[test]
    fn a_limited_loop_makes_up_within_a_second_for_what_its_window_held_back() {
        let mut pace = Pace::Closed { window: 2, limit: Some(Limit::new(1_000.0)) };
        let is_due = |pace: &Pace, now_ns, waiting| {
            pace.is_due(Standing { now_ns, waiting, last_send_ns: now_ns }, 32)
        };
        assert!(is_due(&pace, 0, 0));
        assert_eq!((pace.take(0), pace.take(0)), (Some(0), None));
        assert_eq!((pace.not_before_ns(1), pace.not_before_ns(2)), (Some(1_000_000), None));
        assert!(!is_due(&pace, 999_999, 0) && is_due(&pace, 1_000_000, 1) && !is_due(&pace, 1_000_000, 2));
        // After a long hold, four are due at once, and each counts from when it leaves.
        let taken: Vec<u64> = std::iter::from_fn(|| pace.take(4_500_000)).collect();
        assert_eq!(taken, [4_500_000; 4]);
        assert_eq!((pace.not_before_ns(0), pace.missing(2, 32)), (Some(5_000_000), None));
        // The third second has what fell due in it so far, and nothing of those before.
        let count = std::iter::from_fn(|| pace.take(2_100_000_000)).count();
        assert_eq!((count, pace.not_before_ns(0)), (101, Some(2_101_000_000)));
    }

    #[test]
    fn each_second_has_as_many_queries_as_the_highest_rate_says() {
        for (rate_qps, seconds, expected) in
            [(3.0, 2, 6), (2.5, 4, 10), (0.5, 8, 4), (0.3, 20, 6), (1000.0 / 3.0, 3, 1000)]
        {
            let mut limit = Limit::new(rate_qps);
            // Every 100 µs someone asks for all that are due.
            let looks = (0..seconds * 10_000).map(|look| look * 100_000);
            let taken: usize =
                looks.map(|now_ns| std::iter::from_fn(|| limit.take(now_ns).then_some(())).count()).sum();
            assert_eq!(taken, expected, "{rate_qps}");
        }
    }
}
