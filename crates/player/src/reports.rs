//! Reports of single queries while a trial runs, on request. They pass from the sending threads to one reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError};

use kqps_dataset::Position;

/// Where reports go, and of what.
#[derive(Clone, Debug)]
pub struct Reports {
    /// The reader. If it is gone, reports are dropped.
    pub to: SyncSender<Report>,
    /// How many reports had no room on the way to the reader. No sending thread waits for room.
    pub missed: Arc<AtomicU64>,
    /// Whether replies are reported. Queries without one are in any case.
    pub replies: bool,
}

/// The report of a query's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its position in the dataset.
    pub query: Position,
    /// The key by which its reply is known: its ID, unless the transport has streams.
    pub key: u64,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A reply came in time.
    Replied {
        /// The rcode in its header.
        rcode: u8,
        /// Its latency, nanoseconds.
        latency_ns: u64,
    },
    /// None came before the timeout, or before its connection broke.
    TimedOut,
    /// The user ended the trial first.
    Interrupted,
}

impl Reports {
    #[cold]
    pub(crate) fn report(&self, query: Position, key: u64, fate: Fate) {
        if let Err(TrySendError::Full(_)) = self.to.try_send(Report { query, key, fate }) {
            self.missed.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_report_without_room_is_counted() {
        let (to, reader) = sync_channel(1);
        let reports = Reports { to, missed: Arc::default(), replies: true };
        for key in 0..3 {
            reports.report(Position::default(), key, Fate::TimedOut);
        }
        assert_eq!(reader.try_iter().map(|report| report.key).collect::<Vec<_>>(), [0]);
        assert_eq!(reports.missed.load(Relaxed), 2);
        drop(reader);
        reports.report(Position::default(), 3, Fate::TimedOut);
        assert_eq!(reports.missed.load(Relaxed), 2, "nobody reads any more");
    }
}
