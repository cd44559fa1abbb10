//! Whether to use a back end, and how soon to check it again. Both follow from what was observed: checks that passed
//! or failed, and certain signs, such as a refused connection or queries without any answer.

use std::time::Duration;

/// The interval between urgent checks, if the configured interval is not shorter.
pub(super) const URGENT: Duration = Duration::from_millis(50);

/// How the front checks a back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// The query of a check: a whole message, whose ID is overwritten.
    pub query: Vec<u8>,
    /// The interval between checks.
    pub interval: Duration,
    /// The number of consecutive failed checks after which a back end is down, at least 1.
    pub fall: u32,
    /// The number of consecutive passed checks after which it is up again, at least 1.
    pub rise: u32,
    /// A back end is down if it sends nothing for this long while queries are outstanding.
    pub silence: Duration,
}

/// The health of one back end. It starts as up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    is_up: bool,
    /// The number of checks against the present state since the last check for it.
    against: u32,
    /// It is up, has answered SERVFAIL, and has passed no check since.
    is_doubted: bool,
    /// When the newest check that it answered was sent, in nanoseconds.
    answered_ns: u64,
}

impl Health {
    pub(super) fn new() -> Self {
        Self { is_up: true, against: 0, is_doubted: false, answered_ns: 0 }
    }

    pub(super) fn is_up(self) -> bool {
        self.is_up
    }

    /// The time until the next check. It is short if one more check may bring the back end up, if the back end
    /// answered SERVFAIL, or if no other back end can replace it (`is_needed`).
    pub(super) fn pause(self, checks: &Checks, is_needed: bool) -> Duration {
        let is_rising = !self.is_up && self.against > 0;
        let is_urgent = is_rising || self.is_doubted || is_needed;
        if is_urgent { checks.interval.min(URGENT) } else { checks.interval }
    }

    /// Records the answer to a check that was sent at `asked_ns`: SERVFAIL or anything else.
    pub(super) fn answered(&mut self, asked_ns: u64, is_servfail: bool, checks: &Checks) {
        self.answered_ns = self.answered_ns.max(asked_ns);
        if is_servfail {
            self.doubt();
            self.speaks(false, checks.fall);
        } else {
            self.is_doubted = false;
            self.speaks(true, checks.rise);
        }
    }

    /// Records that a check sent at `asked_ns` got no answer in time, or no valid one. Returns whether the back end
    /// went down by it. Ignored if the back end has answered a later check.
    pub(super) fn failed(&mut self, asked_ns: u64, checks: &Checks) -> bool {
        if asked_ns < self.answered_ns {
            return false;
        }
        let was_up = self.is_up;
        self.speaks(false, checks.fall);
        was_up && !self.is_up
    }

    /// Records that it answered a client's query with SERVFAIL. The reason may be the query alone, so a check
    /// follows soon. Returns whether this is new.
    pub(super) fn doubt(&mut self) -> bool {
        let is_news = self.is_up && !self.is_doubted;
        self.is_doubted |= self.is_up;
        is_news
    }

    /// Records a certain sign that it is down. Returns whether it was up before.
    pub(super) fn fell(&mut self) -> bool {
        (self.against, self.is_doubted) = (0, false);
        std::mem::replace(&mut self.is_up, false)
    }

    fn speaks(&mut self, for_up: bool, threshold: u32) {
        if for_up == self.is_up {
            self.against = 0;
            return;
        }
        self.against += 1;
        if self.against >= threshold {
            (self.is_up, self.against, self.is_doubted) = (for_up, 0, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Checks {
        let interval = Duration::from_secs(1);
        Checks { query: Vec::new(), interval, fall: 2, rise: 3, silence: interval }
    }

    /// Records a passed check that was sent at `asked_ns`.
    fn pass(health: &mut Health, asked_ns: u64) {
        health.answered(asked_ns, false, &checks());
    }

    #[test]
    fn it_falls_and_rises_by_checks_in_a_row() {
        let (mut health, checks) = (Health::new(), checks());
        assert!(!health.failed(1, &checks));
        pass(&mut health, 2);
        assert!(!health.failed(3, &checks));
        assert!(health.failed(4, &checks), "two in a row");
        assert!(!health.failed(5, &checks), "it was down");
        pass(&mut health, 6);
        pass(&mut health, 7);
        health.failed(8, &checks);
        pass(&mut health, 9);
        pass(&mut health, 10);
        assert!(!health.is_up());
        pass(&mut health, 11);
        assert!(health.is_up());
    }

    #[test]
    fn a_sign_without_doubt_counts_at_once() {
        let mut health = Health::new();
        assert!(health.fell());
        assert!(!health.fell() && !health.is_up());
        (1..4).for_each(|asked_ns| pass(&mut health, asked_ns));
        assert!(health.is_up());
    }

    #[test]
    fn checks_that_are_answered_servfail_have_failed() {
        let (mut health, checks) = (Health::new(), checks());
        health.answered(1, true, &checks);
        assert!(health.is_up());
        health.answered(2, true, &checks);
        assert!(!health.is_up(), "two in a row");
        pass(&mut health, 3);
        pass(&mut health, 4);
        health.answered(5, true, &checks);
        pass(&mut health, 6);
        assert!(!health.is_up());
        (7..9).for_each(|asked_ns| pass(&mut health, asked_ns));
        assert!(health.is_up());
    }

    /// After its return, a back end answers checks that are sent from then on. Earlier checks time out one by one
    /// meanwhile.
    #[test]
    fn a_check_that_was_lost_before_others_passed_says_nothing() {
        let (mut health, checks) = (Health::new(), checks());
        health.fell();
        pass(&mut health, 100);
        assert!(!health.failed(50, &checks));
        pass(&mut health, 101);
        assert!(!health.failed(51, &checks));
        pass(&mut health, 102);
        assert!(health.is_up());
        assert!(!health.failed(52, &checks) && !health.failed(53, &checks));
        assert!(health.is_up());
        assert!(!health.failed(103, &checks) && health.failed(104, &checks), "those were sent later");
    }

    #[test]
    fn checks_follow_each_other_quickly_only_where_it_matters() {
        let (mut health, checks) = (Health::new(), checks());
        let (second, urgent) = (Duration::from_secs(1), Duration::from_millis(50));
        let pause = |health: Health| health.pause(&checks, false);
        assert_eq!(pause(health), second);
        health.failed(1, &checks);
        assert_eq!(pause(health), second, "the next may be under way as long as this one was");
        // A client got SERVFAIL, twice.
        assert!(health.doubt() && !health.doubt());
        assert_eq!(pause(health), urgent);
        pass(&mut health, 2);
        assert_eq!(pause(health), second);
        health.answered(3, true, &checks);
        assert_eq!(pause(health), urgent);
        health.answered(4, true, &checks);
        assert_eq!((health.is_up(), pause(health)), (false, second), "another is used");
        assert!(!health.doubt());
        assert_eq!(pause(health), second);
        assert_eq!(health.pause(&checks, true), urgent, "none is used");
        pass(&mut health, 5);
        assert_eq!(pause(health), urgent);
        (6..8).for_each(|asked_ns| pass(&mut health, asked_ns));
        assert_eq!((health.is_up(), pause(health)), (true, second));
        // No back end is checked less often than configured.
        let often = Checks { interval: Duration::from_millis(7), ..checks.clone() };
        assert_eq!(health.pause(&often, true), often.interval);
    }
}
