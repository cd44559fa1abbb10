//! The part of one load that a player has, if several players share the load.

use serde::{Deserialize, Serialize};

/// A player's part of a load that several players share. Each player begins at another place in the dataset, and
/// queries at even distances of all players together fall due one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The number of the player, from 0; less than `of`.
    pub number: u32,
    /// The number of players that share the load, at least 1. Each has a plan with its share of the rate.
    pub of: u32,
}

impl Default for Part {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Part {
    /// The whole load, for a player that plays alone.
    pub const WHOLE: Self = Self { number: 0, of: 1 };

    /// The number of threads of all players, and the place of this player's thread among them. Every player has as many
    /// threads as this one.
    pub(crate) fn thread(self, threads: usize, thread: usize) -> (usize, usize) {
        (self.of as usize * threads, self.number as usize * threads + thread)
    }

    /// How much later than the first player this one begins, as a share of the time between two of its own queries.
    pub(crate) fn phase(self) -> f64 {
        f64::from(self.number) / f64::from(self.of.max(1))
    }
}
