//! Results of reading a socket with a time limit.

use std::io::{self, ErrorKind};

/// Whether nothing came in time, or the process was stopped meanwhile.
pub(crate) fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
