//! The time limits of one start of a subject.

use std::time::{Duration, Instant};

/// The least time to become ready, however small the share is.
const START_LEAST: Duration = Duration::from_secs(3);

/// The least time to stop.
const STOP_LEAST: Duration = Duration::from_secs(1);

/// The time limits of one start. Without a budget, only the subject's definition limits it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// When its measurements should end, and when it must have ended.
    pub(crate) until: Option<(Instant, Instant)>,
    /// When its rate search should end, so that there is time for the trials after it.
    pub(crate) search_until: Option<Instant>,
}

impl Patience {
    /// The time that the subject has to become ready; `None` if only its definition limits it.
    pub fn for_start(&self) -> Option<Duration> {
        self.until.map(|(ready, _)| ready.saturating_duration_since(Instant::now()).max(START_LEAST))
    }

    /// The time that the subject has to stop; `None` if only its definition limits it.
    pub fn for_stop(&self) -> Option<Duration> {
        self.until.map(|(_, over)| over.saturating_duration_since(Instant::now()).max(STOP_LEAST))
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
