//! Whether a back end is to be used, as a function of what was seen of it: checks that passed or failed, and signs
//! that leave no doubt, such as a connection that is refused or queries that nobody answers any more.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
}

impl Health {
    pub(super) fn new() -> Self {
        Self { is_up: true, against: 0 }
    }

    pub(super) fn is_up(self) -> bool {
        self.is_up
    }

    /// A check was answered.
    pub(super) fn passed(&mut self, checks: &Checks) {
        self.speaks(true, checks.rise);
    }

    /// A check was not answered in time, or by something that is no answer. Whether it went down by that.
    pub(super) fn failed(&mut self, checks: &Checks) -> bool {
        let was_up = self.is_up;
        self.speaks(false, checks.fall);
        was_up && !self.is_up
    }

    /// It is down without a doubt. Whether it was up before.
    pub(super) fn fell(&mut self) -> bool {
        self.against = 0;
        std::mem::replace(&mut self.is_up, false)
    }

    fn speaks(&mut self, for_up: bool, threshold: u32) {
        if for_up == self.is_up {
            self.against = 0;
            return;
        }
        self.against += 1;
        if self.against >= threshold {
            *self = Self { is_up: for_up, against: 0 };
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

    #[test]
    fn it_falls_and_rises_by_checks_in_a_row() {
        let (mut health, checks) = (Health::new(), checks());
        assert!(!health.failed(&checks));
        health.passed(&checks);
        assert!(!health.failed(&checks));
        assert!(health.failed(&checks), "two in a row");
        assert!(!health.failed(&checks), "it was down");
        health.passed(&checks);
        health.passed(&checks);
        health.failed(&checks);
        health.passed(&checks);
        health.passed(&checks);
        assert!(!health.is_up());
        health.passed(&checks);
        assert!(health.is_up());
    }

    #[test]
    fn a_sign_without_doubt_counts_at_once() {
        let (mut health, checks) = (Health::new(), checks());
        assert!(health.fell());
        assert!(!health.fell() && !health.is_up());
        (0..3).for_each(|_| health.passed(&checks));
        assert!(health.is_up());
    }
}
