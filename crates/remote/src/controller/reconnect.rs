//! How a host is reached again that was lost.

use std::time::Duration;

/// Times of reaching a host again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReconnectTimes {
    /// The longest lease of an agent that is believed: the time without a line after which it ends.
    pub(super) lease_most: Duration,
    /// The time from the end of that lease within which everything of the agent has ended.
    pub(super) end: Duration,
    /// The time for which a host is tried before the run ends.
    pub(super) keep_on: Duration,
    /// The pause between two attempts.
    pub(super) pause: Duration,
}

impl Default for ReconnectTimes {
    /// An agent has ended everything 2 s after its lease, and a busy host may take a second more. Most hosts that come
    /// back are back within a minute, and a run with a budget does not wait for others.
    fn default() -> Self {
        Self {
            lease_most: Duration::from_mins(1),
            end: Duration::from_secs(3),
            keep_on: Duration::from_mins(1),
            pause: Duration::from_secs(2),
        }
    }
}

impl ReconnectTimes {
    /// The times of a run with this budget, seconds. Without one, a host has ten minutes to boot, and a network to be
    /// repaired.
    pub(super) fn with_budget(budget_s: Option<f64>) -> Self {
        let usual = Self::default();
        let keep_on = if budget_s.is_some() { usual.keep_on } else { Duration::from_mins(10) };
        Self { keep_on, ..usual }
    }

    /// The time from the end of a link after which nothing of its agent is left, whose lease was this many seconds. The
    /// agent may have heard the controller's last line just before that.
    pub(super) fn gone_after(&self, lease_s: u64) -> Duration {
        Duration::from_secs(lease_s).min(self.lease_most) + self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_has_time_waits_longer() {
        assert_eq!(ReconnectTimes::with_budget(Some(120.0)).keep_on, Duration::from_mins(1));
        assert_eq!(ReconnectTimes::with_budget(None).keep_on, Duration::from_mins(10));
    }

    #[test]
    fn an_old_agent_has_its_lease_and_its_end_whatever_it_says() {
        let again = ReconnectTimes::default();
        assert_eq!(again.gone_after(3), Duration::from_secs(6));
        assert_eq!(again.gone_after(u64::MAX), Duration::from_secs(63));
    }
}
