//! Reports of single queries while a trial runs, for those who asked for them. They pass from the sending threads to
//! one reader.

use std::sync::mpsc::Sender;

use kqps_dataset::Position;

/// Where reports go, and of what.
#[derive(Clone, Debug)]
pub struct Reports {
    /// The reader. If it is gone, reports are dropped.
    pub to: Sender<Report>,
    /// Whether replies are reported. Queries without one are in any case.
    pub replies: bool,
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its position in the dataset.
    pub query: Position,
    /// What its reply is known by: its ID, unless the transport has streams.
    pub key: u64,
    /// What became of it.
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
        let _ = self.to.send(Report { query, key, fate });
    }
}
