//! Counts of a thread's connections: how many were tried, made and ended, and why.

use kqps_observation::Histogram;

use crate::loss::Loss;

/// The counts of one thread's connections.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// Connections that the thread began to make.
    pub attempts: u64,
    /// Connections that were made.
    pub established: u64,
    /// How many of them were made before the load began.
    pub before_load: u64,
    /// Failed attempts by [`Loss::number`].
    pub failed: [u64; Loss::NAMES.len()],
    /// Attempts that were neither made nor failed at the end.
    pub unfinished: u64,
    /// Ended connections by [`Ending::number`].
    pub closed: [u64; Ending::NAMES.len()],
    /// Connections that were open at the end.
    pub open: u64,
    /// Queries handed to connections.
    pub handed: u64,
    /// Time from an attempt to its connection.
    pub connect: Histogram,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The player closed it.
    Player,
    /// The subject closed it, and no query was open.
    Idle,
    /// The subject closed it with open queries.
    Closed,
    /// The subject or the network reset it.
    Reset,
}

impl Ending {
    /// The names, by [`Self::number`].
    pub const NAMES: [&'static str; 4] = ["player", "idle", "closed", "reset"];

    /// The index of this ending among the counts of all.
    pub fn number(self) -> usize {
        self as usize
    }
}

impl ConnectionCounts {
    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in [
            (&mut self.attempts, other.attempts),
            (&mut self.established, other.established),
            (&mut self.before_load, other.before_load),
            (&mut self.unfinished, other.unfinished),
            (&mut self.open, other.open),
            (&mut self.handed, other.handed),
        ] {
            *ours += theirs;
        }
        let failed = self.failed.iter_mut().zip(other.failed);
        failed.chain(self.closed.iter_mut().zip(other.closed)).for_each(|(ours, theirs)| *ours += theirs);
        self.connect.add(&other.connect);
    }
}
