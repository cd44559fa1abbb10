//! When queries leave. The open loop's schedule is computed from the query's number, so a stall moves nothing. What
//! fell due while the player stalled is due at its own time, and shows as lag.
//!
//! A course changes the rate with time. The schedule is then that of the highest rate, in which time runs slower while the
//! rate is lower: a query that would be due at `t` is due when the area below the course, as shares of the highest rate,
//! is `t`. Random gaps become those of a Poisson process with the course as its intensity.
//!
//! All times are nanoseconds since the trial's common start.

use kqps_catalogue::course::{Course, Walk};

use crate::plan::Arrivals;

/// When the next query is due if none is any more: in some centuries, so that a wait can be added to it.
const NEVER_NS: u64 = u64::MAX / 2;

/// The due times of one thread's queries.
#[derive(Debug)]
pub struct Schedule {
    /// Mean time between two queries of this thread.
    period_ns: f64,
    /// This thread's offset, so that threads take turns.
    offset_ns: f64,
    /// The number of queries taken.
    taken: u64,
    gaps: Gaps,
    next_due_ns: u64,
    /// Mean time between two queries of all threads.
    common_period_ns: f64,
    /// The course of the rate; `None` if the rate stays.
    course: Option<Box<Walk>>,
    /// Mean time between two queries of this thread at the present rate.
    present_period_ns: f64,
}

/// The cause that makes the next query due.
#[derive(Debug)]
enum Gaps {
    /// The query's number.
    Even,
    /// Random gaps, and the sum of those drawn so far.
    Random(fastrand::Rng, f64),
    /// The caller, for each query.
    Told,
}

/// The most random gaps that one call of [`Schedule::skip`] draws, since they must be drawn one by one.
const SKIPPED_MOST: u64 = 1 << 16;

impl Schedule {
    /// The schedule of the thread whose turn is `turn` (from 0) of `threads`, which share a rate of `rate_qps` queries
    /// per second.
    pub fn new(rate_qps: f64, threads: usize, turn: usize, arrivals: Arrivals, seed: u64) -> Self {
        let common_period_ns = 1e9 / rate_qps;
        let period_ns = common_period_ns * threads as f64;
        let offset_ns = common_period_ns * turn as f64;
        let gaps = match arrivals {
            Arrivals::Even => Gaps::Even,
            Arrivals::Poisson => Gaps::Random(fastrand::Rng::with_seed(seed.wrapping_add(turn as u64)), 0.0),
            Arrivals::Captured => Gaps::Told,
        };
        let mut schedule = Self {
            period_ns,
            offset_ns,
            taken: 0,
            gaps,
            next_due_ns: 0,
            common_period_ns,
            course: None,
            present_period_ns: period_ns,
        };
        schedule.next_due_ns = schedule.due_of_next();
        schedule
    }

    /// Follows a course of shares of the rate, 1 at most. Call it before queries are taken.
    #[must_use]
    pub fn along(mut self, course: Option<&Course>) -> Self {
        let Some(course) = course else { return self };
        self.course = Some(Box::new(Walk::new(course.clone())));
        let first_ns = match self.gaps {
            Gaps::Even => self.offset_ns,
            Gaps::Random(_, sum_ns) => sum_ns,
            Gaps::Told => return self,
        };
        self.next_due_ns = self.stretched(first_ns);
        self
    }

    /// Delays every query by this share of the mean time between two queries of all threads, so that players that share
    /// a load take turns. Random gaps stay as they are.
    #[must_use]
    pub fn later_by(mut self, share: f64) -> Self {
        if self.is_even() {
            self.offset_ns += self.common_period_ns * share;
            self.next_due_ns = self.due_of_next();
        }
        self
    }

    /// A schedule of `rate_qps` queries per second in the mean, whose caller knows when each is due and says so with
    /// [`Self::tell`].
    pub fn given(rate_qps: f64, next_due_ns: u64) -> Self {
        let schedule = Self::new(rate_qps, 1, 0, Arrivals::Captured, 0);
        Self { next_due_ns, ..schedule }
    }

    /// Sets when the next query is due, in a schedule whose times are given.
    #[inline]
    pub fn tell(&mut self, next_due_ns: u64) {
        self.next_due_ns = next_due_ns;
    }

    /// Whether the due time of every query is known in advance.
    pub fn is_even(&self) -> bool {
        matches!(self.gaps, Gaps::Even)
    }

    /// Whether its course is over, so that no query is due any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.next_due_ns >= NEVER_NS
    }

    /// When the next query is due.
    #[inline]
    pub fn next_due_ns(&self) -> u64 {
        self.next_due_ns
    }

    /// When the first query after `ns` is due. Unless gaps are even and the rate stays, a mean gap after it.
    pub fn due_after_ns(&self, ns: u64) -> u64 {
        if self.next_due_ns > ns {
            return self.next_due_ns;
        }
        if !self.is_even() || self.course.is_some() {
            return ns + self.present_period_ns as u64;
        }
        let mut dues = (self.surely_even_due(ns)..).map(|number| self.even_due(number));
        dues.find(|&due_ns| due_ns > ns).expect("queries are due for ever")
    }

    /// Takes the next query off the schedule, and returns its due time, the previous [`Self::next_due_ns`].
    #[inline]
    pub fn take(&mut self) -> u64 {
        let due_ns = self.next_due_ns;
        self.taken += 1;
        self.next_due_ns = self.due_of_next();
        due_ns
    }

    /// Takes at most `most` queries that are due before `before_ns`, without computing each due time, and returns how
    /// many. With random arrivals it may leave some for another call.
    pub fn skip(&mut self, before_ns: u64, most: u64) -> u64 {
        let before_ns = before_ns.min(NEVER_NS);
        let mut count = 0;
        let mut limit = most;
        if self.is_even() {
            count = self.surely_even_due(before_ns).saturating_sub(self.taken).min(most);
            if count > 0 {
                self.taken += count;
                self.next_due_ns = self.due_of_next();
            }
        } else {
            limit = limit.min(SKIPPED_MOST);
        }
        while count < limit && self.next_due_ns < before_ns {
            self.take();
            count += 1;
        }
        count
    }

    /// When a schedule that ends with the last query taken is over: a period after it, as if the schedule went on.
    /// `None` with random arrivals, which end with their last query.
    pub fn end_ns(&self) -> Option<u64> {
        let last = self.taken.checked_sub(1).filter(|_| self.is_even())?;
        let end_ns = self.offset_ns + last as f64 * self.period_ns + self.common_period_ns;
        let Some(walk) = &self.course else { return Some(end_ns as u64) };
        let end_s = Walk::new(walk.course().clone()).reach(end_ns * 1e-9);
        let end_s = end_s.map_or(walk.course().seconds(), |(end_s, _)| end_s);
        Some((end_s * 1e9) as u64)
    }

    /// The longest whole number of mean periods, at most `most`, within `within_ns`.
    #[inline]
    pub fn whole_periods_ns(&self, within_ns: u64, most: u64) -> u64 {
        let periods = (within_ns as f64 / self.present_period_ns).floor().min(most as f64);
        (periods * self.present_period_ns) as u64
    }

    /// When query `number` of this thread is due, from 0. Multiplied, not added up, so that a rate holds over hours.
    #[inline]
    fn even_due(&self, number: u64) -> u64 {
        (self.offset_ns + number as f64 * self.period_ns) as u64
    }

    /// The number of this thread's queries that are due before `ns`, or one or two fewer. It is rounded down and
    /// reduced by one, since the quotient itself may be rounded up.
    fn surely_even_due(&self, ns: u64) -> u64 {
        let peak_ns = match &self.course {
            None => ns as f64,
            Some(walk) => walk.course().count_until(ns as f64 * 1e-9) * 1e9,
        };
        ((peak_ns - self.offset_ns) / self.period_ns).max(1.0) as u64 - 1
    }

    #[inline]
    fn due_of_next(&mut self) -> u64 {
        let peak_ns = match &mut self.gaps {
            Gaps::Even => self.offset_ns + self.taken as f64 * self.period_ns,
            Gaps::Random(random, sum_ns) => {
                *sum_ns -= (1.0 - random.f64()).ln() * self.period_ns;
                *sum_ns
            }
            Gaps::Told => return self.next_due_ns,
        };
        self.stretched(peak_ns)
    }

    /// When a query is due that would be due at `peak_ns` at the highest rate all the time.
    #[inline]
    fn stretched(&mut self, peak_ns: f64) -> u64 {
        let Some(walk) = &mut self.course else { return peak_ns as u64 };
        let Some((second, share)) = walk.reach(peak_ns * 1e-9) else { return NEVER_NS };
        if share > 0.0 {
            self.present_period_ns = self.period_ns / share;
        }
        (second * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use kqps_catalogue::course::Leg;

    use super::*;

    fn dues_before(schedule: &mut Schedule, end_ns: u64) -> Vec<u64> {
        let mut dues = Vec::new();
        while schedule.next_due_ns() < end_ns {
            dues.push(schedule.take());
        }
        dues
    }

    #[test]
    fn an_hour_at_a_third_of_a_megahertz_loses_no_query() {
        let mut schedule = Schedule::new(333_333.0, 1, 0, Arrivals::Even, 0);
        schedule.taken = 333_333 * 3600;
        let due_ns = schedule.due_of_next();
        assert!(due_ns.abs_diff(3_600_000_000_000) <= 1, "{due_ns}");
    }

    #[test]
    fn threads_take_turns_and_add_up() {
        let mut all = Vec::new();
        for thread in 0..3 {
            all.extend(dues_before(&mut Schedule::new(1000.0, 3, thread, Arrivals::Even, 0), 1_000_000_000));
        }
        all.sort_unstable();
        let expected: Vec<u64> = (0..1000).map(|number| number * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn players_take_turns_and_add_up() {
        let mut all = Vec::new();
        for player in 0..4 {
            for thread in 0..2 {
                let schedule = Schedule::new(250.0, 2, thread, Arrivals::Even, 0);
                let mut schedule = schedule.later_by(f64::from(player) / 4.0);
                all.extend(dues_before(&mut schedule, 1_000_000_000));
            }
        }
        all.sort_unstable();
        let expected: Vec<u64> = (0..1000).map(|number| number * 1_000_000).collect();
        assert_eq!(all, expected);
        let random = || Schedule::new(1_000.0, 1, 0, Arrivals::Poisson, 5);
        assert_eq!(random().later_by(0.5).next_due_ns(), random().next_due_ns());
    }

    /// A ramp from 1 % to the whole rate in a second, a pause, and half the rate.
    fn course() -> Course {
        let leg = |seconds, from, to| Leg { seconds, from, to };
        Course::new(vec![leg(1.0, 0.01, 1.0), leg(0.5, 0.0, 0.0), leg(1.0, 0.5, 0.5)]).unwrap()
    }

    #[test]
    fn a_course_has_as_many_queries_by_each_moment_as_its_area() {
        let course = course();
        for arrivals in [Arrivals::Even, Arrivals::Poisson] {
            let mut all = Vec::new();
            for thread in 0..3 {
                let schedule = Schedule::new(100_000.0, 3, thread, arrivals, 7).along(Some(&course));
                all.extend(dues_before(&mut { schedule }, 10_000_000_000));
            }
            all.sort_unstable();
            for ms in (0..=2_600).step_by(10) {
                let due = all.partition_point(|due_ns| *due_ns < ms * 1_000_000) as f64;
                let area = course.count_until(ms as f64 / 1e3) * 100_000.0;
                let most = if arrivals == Arrivals::Even { 3.0 } else { 5.0 * area.sqrt() + 5.0 };
                assert!((due - area).abs() <= most, "{arrivals} {ms}: {due} {area}");
            }
        }
    }

    #[test]
    fn players_that_share_a_course_take_turns() {
        let all = |players: u32| {
            let mut all = Vec::new();
            for player in 0..players {
                let rate_qps = 9_000.0 / f64::from(players);
                let schedule = Schedule::new(rate_qps, 1, 0, Arrivals::Even, 0).along(Some(&course()));
                let mut schedule = schedule.later_by(f64::from(player) / f64::from(players));
                all.extend(dues_before(&mut schedule, 10_000_000_000));
            }
            all.sort_unstable();
            all
        };
        let (one, three) = (all(1), all(3));
        assert_eq!(one.len(), three.len());
        assert!(one.iter().zip(&three).all(|(one, three)| one.abs_diff(*three) <= 1));
    }

    #[test]
    fn skipping_along_a_course_leaves_exactly_what_is_not_yet_due() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson] {
            for before_ns in [0, 1, 400_000_000, 1_000_000_000, 1_200_000_000, 2_499_999_999, 3_000_000_000] {
                let schedule = || Schedule::new(20_000.0, 3, 1, arrivals, 5).along(Some(&course()));
                let (mut walked, mut skipped) = (schedule(), schedule());
                let count = dues_before(&mut walked, before_ns).len() as u64;
                assert_eq!(skipped.skip(before_ns, u64::MAX), count, "{arrivals} {before_ns}");
                assert_eq!(walked.next_due_ns(), skipped.next_due_ns());
            }
        }
    }

    #[test]
    fn a_course_has_an_end_and_gaps_of_its_present_rate() {
        let mut schedule = Schedule::new(10_000.0, 1, 0, Arrivals::Even, 0).along(Some(&course()));
        assert!(schedule.whole_periods_ns(1_000_000, 31) == 0, "a hundredth of the rate has a gap of 10 ms");
        schedule.skip(1_600_000_000, u64::MAX);
        assert_eq!(schedule.whole_periods_ns(1_000_000, 31), 1_000_000);
        schedule.skip(u64::MAX, u64::MAX);
        assert!(schedule.is_over());
        assert_eq!(schedule.end_ns(), Some(2_500_000_000));
    }

    #[test]
    fn skipping_leaves_exactly_what_is_not_yet_due() {
        for (rate_qps, arrivals) in [
            (1_000.0, Arrivals::Even),
            (333_333.0, Arrivals::Even),
            (7e7, Arrivals::Even),
            (5e4, Arrivals::Poisson),
        ] {
            for before_ns in [0, 1, 1_000_000, 999_999_999, 1_000_000_000] {
                let mut walked = Schedule::new(rate_qps, 3, 1, arrivals, 5);
                let mut skipped = Schedule::new(rate_qps, 3, 1, arrivals, 5);
                let count = dues_before(&mut walked, before_ns.min(50_000_000)).len() as u64;
                assert_eq!(
                    skipped.skip(before_ns.min(50_000_000), u64::MAX),
                    count,
                    "{rate_qps} {before_ns}"
                );
                assert_eq!(walked.next_due_ns(), skipped.next_due_ns());
            }
        }
        let mut schedule = Schedule::new(1_000.0, 1, 0, Arrivals::Even, 0);
        assert_eq!((schedule.skip(10_000_000, 4), schedule.next_due_ns()), (4, 4_000_000));
        // Hours at the greatest rate cost nothing.
        let mut schedule = Schedule::new(1e8, 1, 0, Arrivals::Even, 0);
        assert_eq!(schedule.skip(36_000_000_000_000, u64::MAX), 3_600_000_000_000);
    }

    #[test]
    fn the_first_that_is_due_later_is_found_without_taking_any() {
        for rate_qps in [1_000.0, 333_333.0, 7e7] {
            let schedule = Schedule::new(rate_qps, 3, 1, Arrivals::Even, 0);
            for ns in [0, 1, 333_333, 1_000_000, 1_000_001, 999_999_999] {
                let mut walked = Schedule::new(rate_qps, 3, 1, Arrivals::Even, 0);
                walked.skip(ns + 1, u64::MAX);
                assert_eq!(schedule.due_after_ns(ns), walked.next_due_ns(), "{rate_qps} {ns}");
            }
        }
        let schedule = Schedule::new(1_000.0, 1, 0, Arrivals::Poisson, 5);
        assert_eq!(schedule.due_after_ns(0), schedule.next_due_ns());
        assert_eq!(schedule.due_after_ns(9_000_000_000), 9_001_000_000);
    }

    #[test]
    fn a_schedule_that_is_told_keeps_to_that_and_has_a_mean_period() {
        let mut schedule = Schedule::given(1_000.0, 7);
        assert_eq!((schedule.take(), schedule.next_due_ns()), (7, 7));
        schedule.tell(1_000_007);
        assert_eq!((schedule.next_due_ns(), schedule.due_after_ns(7)), (1_000_007, 1_000_007));
        assert_eq!(schedule.due_after_ns(2_000_000), 3_000_000);
        assert_eq!((schedule.whole_periods_ns(2_500_000, 31), schedule.end_ns()), (2_000_000, None));
        assert!(!schedule.is_even());
    }

    #[test]
    fn a_schedule_of_two_queries_lasts_two_periods() {
        let mut schedules: Vec<Schedule> =
            (0..2).map(|turn| Schedule::new(1.0, 2, turn, Arrivals::Even, 0)).collect();
        assert_eq!(schedules[0].end_ns(), None);
        for schedule in &mut schedules {
            schedule.take();
        }
        assert_eq!(schedules[1].end_ns(), Some(2_000_000_000));
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let mut schedule = Schedule::new(100_000.0, 1, 0, Arrivals::Poisson, 7);
        let dues = dues_before(&mut schedule, 10_000_000_000);
        assert!((dues.len() as f64 / 1e6 - 1.0).abs() < 0.005, "{}", dues.len());
        let gaps: Vec<f64> = dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.01);
    }
}
