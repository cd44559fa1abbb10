//! Why the records of players cannot be merged.

use crate::IdentityViolated;

/// Why the records of players cannot be merged, with the host whose record is the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There is no record.
    #[error("no player left a record")]
    Nothing,
    /// The record is not that of one player on one host.
    #[error("the record of {host} has {players} players and {hosts} hosts, and is that of one player alone")]
    NotOne {
        /// The host.
        host: String,
        /// The players in its record.
        players: usize,
        /// The hosts in its record.
        hosts: usize,
    },
    /// An equation of the accounts does not hold.
    #[error("the record of {host}: {violated}")]
    Identity {
        /// The host.
        host: String,
        /// The equation.
        violated: IdentityViolated,
    },
    /// Two players did not play the same.
    #[error("{host} and {other} did not play the same: {what} was {value} and {other_value}")]
    Differs {
        /// The host.
        host: String,
        /// The first player's host.
        other: String,
        /// The property that differs.
        what: &'static str,
        /// Its value on `host`.
        value: String,
        /// Its value on `other`.
        other_value: String,
    },
    /// A histogram is missing or cannot be read.
    #[error("the record of {host} has no histogram `{name}` that can be read")]
    Histogram {
        /// The host.
        host: String,
        /// The histogram's name.
        name: String,
    },
    /// A sum of counts does not fit.
    #[error("the counts in the record of {host} are too large to be added to those of the other players")]
    TooLarge {
        /// The host.
        host: String,
    },
    /// Several players replayed a capture.
    #[error(
        "{players} players cannot share a replay: each would play all clients of the capture; use one player"
    )]
    Replay {
        /// The number of players.
        players: usize,
    },
}
