//! Whether a back end is to be used, as a function of what was seen of it: checks that passed or failed, and signs
//! that leave no doubt, such as a connection that is refused or queries that nobody answers any more. And how soon it is
//! to be checked again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long after one check the next one follows where it is urgent, if the interval is not shorter.
pub(super) const URGENT: Duration = Duration::from_millis(50);

/// How a back end's health is found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    /// The query that asks it: a whole message, whose ID is overwritten.
    pub query: Vec<u8>,
    /// How often it is asked.
    pub interval: Duration,
    /// Checks in a row that fail before it is down, at least 1.
    pub fall: u32,
    /// Checks in a row that pass before it is up again, at least 1.
    pub rise: u32,
    /// It is down when it has said nothing for so long while it had queries to answer.
    pub silence: Duration,
}

/// The health of one back end. It begins up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    is_up: bool,
    /// Checks that spoke against the present state since one spoke for it.
    against: u32,
    /// It is up and answered SERVFAIL, and passed no check since.
    is_doubted: bool,
    /// When the newest check was sent that it answered, nanoseconds.
    answered_ns: u64,
}

impl Health {
    pub(super) fn new() -> Self {
        Self { is_up: true, against: 0, is_doubted: false, answered_ns: 0 }
    }

    pub(super) fn is_up(self) -> bool {
        self.is_up
    }

    /// How long after one check the next one follows: not long where one more may decide that it is used again, where it
    /// answered SERVFAIL, and where no other is used in its place, which `is_needed` says.
    pub(super) fn pause(self, checks: &Checks, is_needed: bool) -> Duration {
        let is_rising = !self.is_up && self.against > 0;
        let is_urgent = is_rising || self.is_doubted || is_needed;
        if is_urgent { checks.interval.min(URGENT) } else { checks.interval }
    }

    /// A check that was sent at this time was answered, with SERVFAIL or with anything else.
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

    /// A check that was sent at this time was not answered in time, or by something that is no answer. Whether it went
    /// down by that. It says nothing of a back end that has answered one that was sent later.
    pub(super) fn failed(&mut self, asked_ns: u64, checks: &Checks) -> bool {
        if asked_ns < self.answered_ns {
            return false;
        }
        let was_up = self.is_up;
        self.speaks(false, checks.fall);
        was_up && !self.is_up
    }

    /// It answered a client's query with SERVFAIL. That may be for the query alone: it is checked soon. Whether that was
    /// not known.
    pub(super) fn doubt(&mut self) -> bool {
        let is_news = self.is_up && !self.is_doubted;
        self.is_doubted |= self.is_up;
        is_news
    }

    /// It is down without a doubt. Whether it was up before.
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

    /// It passes a check that was sent at this time.
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

    /// A back end that comes back answers the checks sent from then on; those sent before are given up one by one
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
        // A client was answered SERVFAIL, once and again.
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
        // Nobody is checked less often than was asked for.
        let often = Checks { interval: Duration::from_millis(7), ..checks.clone() };
        assert_eq!(health.pause(&often, true), often.interval);
    }
}
