//! Why a query got no answer at a back end, why a message of a back end is discarded, and how both are counted.

use kqps_server::report::BackEndReport;

/// Why a query that was sent to a back end got no answer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The back end did not answer in time.
    TimedOut,
    /// The connection ended, or the back end was found to be down, before the answer.
    CutOff,
    /// A newer query displaced it.
    Displaced,
    /// The front stopped before the answer.
    Unsettled,
}

/// Why a message from a back end is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// No query with its ID is outstanding there: it comes too late, or was never asked for.
    Unsolicited,
    /// It is not the reply to the query with its ID.
    Mismatched,
    /// It is not a DNS message, or was cut off.
    Garbled,
}

impl Lost {
    /// Counts a query of this fate.
    pub(super) fn count_in(self, counts: &mut BackEndReport) {
        match self {
            Self::TimedOut => counts.timed_out += 1,
            Self::CutOff => counts.cut_off += 1,
            Self::Displaced => counts.displaced += 1,
            Self::Unsettled => counts.unsettled += 1,
        }
    }
}

impl Bad {
    /// Counts a message of this kind.
    pub(super) fn count_in(self, counts: &mut BackEndReport) {
        match self {
            Self::Unsolicited => counts.unsolicited += 1,
            Self::Mismatched => counts.mismatched += 1,
            Self::Garbled => counts.garbled += 1,
        }
    }
}
