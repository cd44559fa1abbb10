//! The time limits of one start of a subject.

use std::time::{Duration, Instant};

use crate::play::{SPARE, SPARE_LEAST, SPARE_UNHURRIED};

/// The least time to become ready, however small the share is.
const START_LEAST: Duration = Duration::from_secs(3);

/// The least time to stop.
const STOP_LEAST: Duration = Duration::from_secs(1);

/// The time limits of one start. Without a budget, only the subject's definition limits it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// When its measurements should end, and when it must have ended.
    pub until: Option<(Instant, Instant)>,
    /// When its rate search should end, so that there is time for the trials after it.
    pub search_until: Option<Instant>,
}

impl Patience {
    /// Moves the limits later by the time for which a host was away.
    #[must_use]
    pub fn later(self, away: Duration) -> Self {
        Self {
            until: self.until.map(|(ready, over)| (ready + away, over + away)),
            search_until: self.search_until.map(|until| until + away),
        }
    }

    /// The time that the subject has to become ready; `None` if only its definition limits it.
    pub fn for_start(&self) -> Option<Duration> {
        self.until.map(|(ready, _)| ready.saturating_duration_since(Instant::now()).max(START_LEAST))
    }

    /// The time that the subject has to stop; `None` if only its definition limits it.
    pub fn for_stop(&self) -> Option<Duration> {
        self.until.map(|(_, over)| over.saturating_duration_since(Instant::now()).max(STOP_LEAST))
    }

    /// The time that a trial may take beyond sending and draining: what is left of the start, from 5 to 20 s, and a minute
    /// without a budget.
    pub fn for_trial(&self) -> Duration {
        let left = self.until.map(|(_, over)| over.saturating_duration_since(Instant::now()));
        left.map_or(SPARE_UNHURRIED, |left| left.max(SPARE_LEAST).min(SPARE))
    }

    /// Whether a completed search may go on to refine its estimate; always false without a budget.
    pub fn may_refine(&self) -> bool {
        self.search_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether a search is now cut short; always false without a budget.
    pub fn cuts_search(&self) -> bool {
        self.search_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether the time of the start is over; always false without a budget.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|(_, over)| Instant::now() >= over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_shortens_no_limit() {
        let now = Instant::now();
        let away = Duration::from_mins(1);
        let over = Patience { until: Some((now, now)), search_until: Some(now) };
        let later = over.later(away);
        assert_eq!((later.until, later.search_until), (Some((now + away, now + away)), Some(now + away)));
        assert!(over.is_over() && over.cuts_search() && !later.is_over() && later.may_refine());
        assert_eq!(over.for_start(), Some(START_LEAST));
        assert!(later.for_start().unwrap() > START_LEAST);
        assert_eq!((over.for_trial(), later.for_trial()), (SPARE_LEAST, SPARE));
        assert_eq!(Patience::default().for_trial(), SPARE_UNHURRIED);
        assert!(Patience::default().later(away).for_start().is_none(), "without a budget nothing ends");
    }
}
