//! Subjects whose host was lost. Such a subject is started again, under another number, and nothing is stored of the
//! loss: it says nothing about the subject. What was measured before stays, as in a run that was interrupted.

use std::time::Duration;

/// The hosts of a run, which may be lost and come back.
pub trait Hosts {
    /// Reaches the host of the subjects if it was lost. `false` ends the run in order.
    fn reach(&self) -> bool;

    /// The time since the last call that went into reaching lost hosts.
    fn take_away_time(&self) -> Duration;
}

/// A subject is started again at most this often in succession, without a trial in between.
pub(super) const MOST: u32 = 2;

/// The reason for a failure once it was lost too often.
pub(super) fn too_often(reason: &str) -> String {
    format!("{reason}; that ended {} starts in succession", MOST + 1)
}
