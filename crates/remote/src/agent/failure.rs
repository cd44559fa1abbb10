//! Why a job has no result.

use std::fmt::Display;

/// The reason in one sentence, without its full stop, and the last lines of output of the program that failed.
pub(crate) type Failure = (String, Vec<String>);

/// A failure without output.
pub(super) fn plain(reason: impl Display) -> Failure {
    (reason.to_string(), Vec::new())
}
