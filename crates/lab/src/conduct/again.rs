//! Subjects whose host was lost. Such a subject is started again, under another number, and nothing is stored of the
//! loss: it says nothing about the subject. What was measured before stays, as in a run that was interrupted.

/// A subject is started again at most this often in succession, without a trial in between.
pub(super) const MOST: u32 = 2;

/// The reason for a failure once it was lost too often.
pub(super) fn too_often(reason: &str) -> String {
    format!("{reason}; that ended {} starts in succession", MOST + 1)
}
