//! Waits until a burst should leave. The thread sleeps while there is time. If it has a core of its own, it spins for
//! the last stretch. A sleeping thread wakes late, by a few microseconds on physical hardware and by tens of
//! microseconds on a virtual machine, and its queries would be late too.
//!
//! A sleep costs less if its end was announced during the sleep before it ([`Alarms`]). So the thread predicts its next
//! sleep from how late it usually wakes, and keeps to the prediction if it is good enough.

pub(crate) mod precedence;
mod withheld;

use std::io;
use std::ops::RangeInclusive;

use kqps_kernel::alarm::Alarms;
use kqps_kernel::clock;

use crate::state::ThreadState;
use withheld::{Spinning, Withheld};

/// The naps that measure how late a sleeping thread wakes, and the length of each.
const NAPS: usize = 21;
const NAP_NS: u64 = 20_000;

/// A thread that wakes later than this was held up by something temporary.
const LATE_MOST_NS: u64 = 50_000;

#[derive(Debug)]
pub(crate) struct Wait {
    alarms: Alarms,
    /// How late a sleeping thread usually wakes.
    late: Usual,
    /// Whether the thread spins for the last stretch of every wait. The stretch is as long as `late`.
    stays_awake: bool,
    /// How long after the end of a sleep the thread waits again.
    away: Usual,
    /// When the last sleep should have ended, while the thread does other work.
    woken_ns: Option<u64>,
    /// For how long the thread spun with nothing to do, nanoseconds.
    awake_in_all_ns: u64,
    /// Time in which the core was withheld, as far as the thread saw it.
    pub(crate) withheld: Withheld,
}

impl Wait {
    /// For a thread that sleeps until its burst leaves, and wakes late.
    pub(crate) fn asleep() -> io::Result<Self> {
        Ok(Self {
            alarms: Alarms::new()?,
            late: Usual::median(0),
            stays_awake: false,
            away: Usual::median(0),
            woken_ns: None,
            awake_in_all_ns: 0,
            withheld: Withheld::default(),
        })
    }

    /// From now on, spins for the last stretch of each wait. First takes 21 naps of 20 µs, which last about 1 ms.
    pub(crate) fn stay_awake_at_last(&mut self) -> io::Result<()> {
        let nap = |_| {
            let end_ns = clock::now_ns() + NAP_NS;
            self.alarms.sleep_until_ns(end_ns, None)?;
            Ok(clock::now_ns() - end_ns)
        };
        let mut late_ns = (0..NAPS).map(nap).collect::<io::Result<Vec<u64>>>()?;
        late_ns.sort_unstable();
        self.late = Usual::four_fifths(late_ns[NAPS * 4 / 5].min(LATE_MOST_NS));
        self.stays_awake = true;
        Ok(())
    }

    /// The last stretch of a wait, for which the thread spins, nanoseconds; 0 if it sleeps to the end.
    fn awake_ns(&self) -> u64 {
        if self.stays_awake { self.late.ns } else { 0 }
    }

    /// For how long the thread spun with nothing to do, nanoseconds.
    pub(crate) fn awake_in_all_ns(&self) -> u64 {
        self.awake_in_all_ns
    }

    /// Waits for the next burst of at most `most` queries. `leaves` holds the earliest and the intended time at which
    /// it leaves. Waits no longer than until `latest_ns`, plus the usual delay of a sleep. A thread that does not spin
    /// sets in the supply when the burst leaves.
    pub(super) fn until(
        &mut self,
        state: &mut ThreadState<'_>,
        leaves: RangeInclusive<u64>,
        most: usize,
        latest_ns: u64,
    ) -> io::Result<()> {
        let (&due_ns, &at_ns) = (leaves.start(), leaves.end());
        let now_ns = state.now_ns();
        if let Some(woken_ns) = self.woken_ns.take() {
            self.away.learn(now_ns - woken_ns);
        }
        if at_ns <= now_ns {
            return Ok(());
        }
        if at_ns > latest_ns {
            let wake_ns = at_ns.saturating_sub(self.awake_ns()).min(latest_ns).max(now_ns);
            state.clock.sleep_until_ns(wake_ns);
            self.withheld.slept(state.now_ns() - wake_ns);
            return Ok(());
        }
        if self.stays_awake {
            // A short wait has no sleep.
            if at_ns > now_ns + self.awake_ns() + NAP_NS {
                self.sleep(state, self.wake_ns(state, due_ns, at_ns), at_ns, most)?;
            } else if at_ns > now_ns + NAP_NS {
                // Without sleeps the thread would never learn that they no longer end so late.
                self.late.fade();
            }
            self.stay_awake(state, at_ns);
            Ok(())
        } else {
            let wake_ns = self.wake_ns(state, due_ns, at_ns);
            state.supply.leave_at(wake_ns);
            self.sleep(state, wake_ns, wake_ns + self.late.ns, most)
        }
    }

    /// Spins until `at_ns`.
    fn stay_awake(&mut self, state: &ThreadState<'_>, at_ns: u64) {
        let mut now_ns = state.now_ns();
        if now_ns >= at_ns {
            return;
        }
        let mut spinning = Spinning::begin(&mut self.withheld, now_ns);
        while now_ns < at_ns {
            std::hint::spin_loop();
            now_ns = state.now_ns();
            spinning.look(now_ns);
        }
        self.awake_in_all_ns += spinning.awake_ns();
    }

    /// When to wake up for a burst that may leave at `due_ns` and should leave at `at_ns`: at the predicted time, if it
    /// is good enough. A spinning thread must wake on time. A sleeping one may be late by its usual delay.
    fn wake_ns(&self, state: &ThreadState<'_>, due_ns: u64, at_ns: u64) -> u64 {
        let wake_ns = at_ns.saturating_sub(self.awake_ns());
        let good = if self.stays_awake {
            wake_ns.saturating_sub(NAP_NS)..=wake_ns
        } else {
            due_ns..=wake_ns + self.late.ns
        };
        let announced_ns = self.alarms.announced_ns();
        let predicted_ns = announced_ns.map(|announced_ns| state.clock.since_start_ns(announced_ns));
        predicted_ns.filter(|predicted_ns| good.contains(predicted_ns)).unwrap_or(wake_ns)
    }

    /// Sleeps until `wake_ns`, if that is still to come, for a burst that takes what is due by `leaves_ns`. Announces
    /// the end of the sleep after it, unless the thread will still be busy then.
    fn sleep(
        &mut self,
        state: &ThreadState<'_>,
        wake_ns: u64,
        leaves_ns: u64,
        most: usize,
    ) -> io::Result<()> {
        if wake_ns <= state.now_ns() {
            return Ok(());
        }
        // The stretch may be a step longer by then, and the predicted time must not be late for it.
        let awake_ns = if self.stays_awake { self.late.next_most_ns() } else { 0 };
        let then_ns =
            state.supply.leaves_after_ns(leaves_ns, most).map(|then_ns| then_ns.saturating_sub(awake_ns));
        let then_ns = then_ns.filter(|&then_ns| then_ns > wake_ns + self.away.ns);
        self.alarms.sleep_until_ns(
            state.clock.clock_ns(wake_ns),
            then_ns.map(|then_ns| state.clock.clock_ns(then_ns)),
        )?;
        let late_ns = state.now_ns() - wake_ns;
        self.withheld.slept(late_ns);
        self.late.learn(late_ns.min(LATE_MOST_NS));
        self.woken_ns = Some(wake_ns);
        Ok(())
    }
}

/// The usual length of something: a running estimate of a quantile, which moves in fixed steps. One rare stall hardly
/// moves it.
#[derive(Debug)]
struct Usual {
    ns: u64,
    /// The step up. In the long run, steps up and steps down cancel. So if a step up is as long as four steps down, one
    /// time in five is longer than the estimate.
    up_ns: u64,
}

impl Usual {
    /// The step down, and the step if nothing was learned.
    const STEP_NS: u64 = 250;
    const FADE_NS: u64 = 1;

    /// Estimates the median.
    fn median(ns: u64) -> Self {
        Self { ns, up_ns: Self::STEP_NS }
    }

    /// Estimates the length that four in five do not exceed.
    fn four_fifths(ns: u64) -> Self {
        Self { ns, up_ns: 4 * Self::STEP_NS }
    }

    /// Records one length.
    fn learn(&mut self, ns: u64) {
        if ns > self.ns {
            self.ns += self.up_ns;
        } else {
            self.ns = self.ns.saturating_sub(Self::STEP_NS);
        }
    }

    /// The estimate after the next step up.
    fn next_most_ns(&self) -> u64 {
        self.ns + self.up_ns
    }

    /// Lowers the estimate by 1 ns, since nothing was learned this time. A thousand such steps undo one long step up.
    fn fade(&mut self) {
        self.ns = self.ns.saturating_sub(Self::FADE_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrivals;
    use crate::state::tests::Fixture;

    const MOST: usize = 32;

    /// Waits for a burst that should leave at this time, when it is due.
    fn wait_until(wait: &mut Wait, state: &mut ThreadState<'_>, at_ns: u64, latest_ns: u64) {
        wait.until(state, at_ns..=at_ns, MOST, latest_ns).unwrap();
    }

    #[test]
    fn a_wait_ends_on_time_and_a_short_one_is_spent_awake() {
        let fixture = Fixture::new();
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let mut wait = Wait::asleep().unwrap();
        wait.stay_awake_at_last().unwrap();
        assert!((1..=LATE_MOST_NS).contains(&wait.awake_ns()), "a sleeper is never early");
        wait.late.ns = 10_000;
        for (in_ns, asleep) in [(0, false), (25_000, false), (1_000_000, true)] {
            let (since_ns, before_ns) = (state.now_ns(), wait.awake_in_all_ns());
            wait_until(&mut wait, &mut state, since_ns + in_ns, u64::MAX);
            let waited_ns = state.now_ns() - since_ns;
            let awake_ns = wait.awake_in_all_ns() - before_ns;
            assert!(waited_ns >= in_ns && awake_ns <= waited_ns, "{in_ns} ns");
            assert!(asleep || in_ns == 0 || awake_ns > 0, "{in_ns} ns");
        }
    }

    #[test]
    fn no_wait_is_longer_than_it_may_be() {
        let fixture = Fixture::new();
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        for is_awake in [false, true] {
            let mut wait = Wait::asleep().unwrap();
            if is_awake {
                wait.stay_awake_at_last().unwrap();
            }
            let now_ns = state.now_ns();
            wait_until(&mut wait, &mut state, now_ns + 3_600_000_000_000, now_ns + 1_000_000);
            assert_eq!(wait.awake_in_all_ns(), 0);
            assert!(state.now_ns() >= now_ns + 1_000_000);
        }
    }

    /// When a thread wakes up for a burst that may leave 1 ms after `now_ns` and should leave 2 ms after it. The sleep
    /// before announced the time `ahead_ns` after `now_ns`.
    fn wakes_ns(wait: &mut Wait, state: &ThreadState<'_>, now_ns: u64, ahead_ns: Option<u64>) -> u64 {
        let announced_ns = ahead_ns.map(|ahead_ns| state.clock.clock_ns(now_ns + ahead_ns));
        wait.alarms.sleep_until_ns(1, announced_ns).unwrap();
        wait.wake_ns(state, now_ns + 1_000_000, now_ns + 2_000_000) - now_ns
    }

    #[test]
    fn a_prediction_that_is_good_enough_is_kept() {
        let fixture = Fixture::new();
        let state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let now_ns = state.now_ns();
        let mut asleep = Wait { late: Usual::median(17_000), ..Wait::asleep().unwrap() };
        let mut awake = awake_for(10_000);
        // Not before the burst may leave, and no later than the usual delay of a sleep.
        for (ahead_ns, wakes_at_ns) in [
            (999_999, 2_000_000),
            (1_000_000, 1_000_000),
            (1_980_000, 1_980_000),
            (2_017_000, 2_017_000),
            (2_017_001, 2_000_000),
        ] {
            assert_eq!(wakes_ns(&mut asleep, &state, now_ns, Some(ahead_ns)), wakes_at_ns);
        }
        // Not so early that the thread spins for much of the wait, and never late.
        for (ahead_ns, wakes_at_ns) in
            [(1_969_999, 1_990_000), (1_970_000, 1_970_000), (1_990_000, 1_990_000), (1_990_001, 1_990_000)]
        {
            assert_eq!(wakes_ns(&mut awake, &state, now_ns, Some(ahead_ns)), wakes_at_ns);
        }
        assert_eq!(wakes_ns(&mut asleep, &state, now_ns, None), 2_000_000);
        assert_eq!(wakes_ns(&mut awake, &state, now_ns, None), 1_990_000);
    }

    #[test]
    fn the_next_wait_is_predicted_unless_the_thread_is_busy_then() {
        let fixture = Fixture::new();
        // A query every millisecond, from 0.
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let mut wait = Wait { late: Usual::median(20_000), ..Wait::asleep().unwrap() };
        let at_ns = state.now_ns() / 1_000_000 * 1_000_000 + 200_000_000;
        wait_until(&mut wait, &mut state, at_ns, u64::MAX);
        let announced_ns = wait.alarms.announced_ns().map(|clock_ns| state.clock.since_start_ns(clock_ns));
        assert_eq!(announced_ns, Some(at_ns + 1_000_000));
        assert_eq!(*state.supply.leaves_ns(MOST).unwrap().end(), at_ns, "the burst leaves then");
        let mut away = Wait { away: Usual::median(2_000_000), ..Wait::asleep().unwrap() };
        wait_until(&mut away, &mut state, at_ns + 200_000_000, u64::MAX);
        assert_eq!(away.alarms.announced_ns(), None);
    }

    #[test]
    fn what_the_thread_did_meanwhile_was_not_withheld_from_it() {
        let fixture = Fixture::new();
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let mut wait = Wait::asleep().unwrap();
        wait.withheld.runs_first = true;
        let now_ns = state.now_ns();
        let ago_ns = now_ns - 4_000_000_000;
        // The thread should have checked its stop flag seconds ago.
        wait_until(&mut wait, &mut state, now_ns + 3_600_000_000_000, ago_ns);
        // The thread came back seconds after the predicted time.
        let announced_ns = state.clock.clock_ns(ago_ns);
        wait.alarms.sleep_until_ns(1, Some(announced_ns)).unwrap();
        let leaves = ago_ns - 1..=now_ns + 1_000_000;
        wait.until(&mut state, leaves, MOST, u64::MAX).unwrap();
        assert!(wait.withheld.ns() < 2_000_000_000, "{:?}", wait.withheld);
    }

    #[test]
    fn what_is_usual_is_a_quantile_and_a_stall_does_not_move_it() {
        let (mut median, mut four_fifths) = (Usual::median(0), Usual::four_fifths(0));
        for round in 0..3_000_u64 {
            let ns = if round % 100 == 0 { 50_000_000 } else { 10_000 + round % 10 * 1_000 };
            median.learn(ns);
            four_fifths.learn(ns);
        }
        assert!((13_000..=17_000).contains(&median.ns), "{median:?}");
        assert!((16_000..=20_000).contains(&four_fifths.ns), "{four_fifths:?}");
    }

    /// A thread that spins for the last `late_ns` of each wait.
    fn awake_for(late_ns: u64) -> Wait {
        Wait { late: Usual::four_fifths(late_ns), stays_awake: true, ..Wait::asleep().unwrap() }
    }

    #[test]
    fn the_last_stretch_follows_how_late_sleepers_come() {
        let fixture = Fixture::new();
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let mut wait = awake_for(0);
        for _ in 0..100 {
            let at_ns = state.now_ns() + NAP_NS + LATE_MOST_NS + 30_000;
            wait_until(&mut wait, &mut state, at_ns, u64::MAX);
        }
        assert!(wait.awake_ns() > 0, "a sleeper is never early: {wait:?}");
    }

    #[test]
    fn a_last_stretch_that_leaves_no_time_to_sleep_becomes_shorter() {
        let fixture = Fixture::new();
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let mut wait = awake_for(10_000_000);
        for _ in 0..10 {
            let at_ns = state.now_ns() + NAP_NS + 1_000_000;
            wait_until(&mut wait, &mut state, at_ns, u64::MAX);
        }
        let least_ns = 10_000_000 - 10 * Usual::FADE_NS;
        assert!((least_ns..10_000_000).contains(&wait.awake_ns()), "{wait:?}");
    }

    #[test]
    fn a_prediction_is_kept_when_the_last_stretch_has_become_longer() {
        let fixture = Fixture::new();
        // A query every millisecond, from 0.
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let mut wait = awake_for(0);
        let at_ns = state.now_ns() / 1_000_000 * 1_000_000 + 200_000_000;
        wait_until(&mut wait, &mut state, at_ns, u64::MAX);
        assert_eq!(wait.late.ns, 4 * Usual::STEP_NS, "a sleeper is never early");
        let announced_ns = state.clock.since_start_ns(wait.alarms.announced_ns().unwrap());
        let then_ns = at_ns + 1_000_000;
        assert_eq!(announced_ns, then_ns - wait.late.ns);
        assert_eq!(wait.wake_ns(&state, at_ns, then_ns), announced_ns);
    }
}
