//! How the player is set up for a cell. It is kept in the cell's factors, so that the store alone tells how a
//! figure came about, and a resumed run plays as it began.

use std::collections::BTreeMap;

use kqps_observation::Cell;

/// The player's settings for one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Sockets of all threads.
    pub sockets: u32,
    /// Queries outstanding at most, in closed loop.
    pub window: u32,
    /// Queries in one burst at most.
    pub burst: u32,
    /// Seconds after which a reply is late; the player listens as long after its last query.
    pub timeout_s: f64,
}

const SOCKETS: &str = "player_sockets";
const WINDOW: &str = "player_window";
const BURST: &str = "player_burst";
const TIMEOUT: &str = "timeout_s";

impl Setup {
    /// As one flow with a large window and long bursts: the cheapest way to send and to answer, since a batch of queries and a
    /// batch of replies each travel as one packet.
    pub const FEW_FLOWS: Self = Self { sockets: 1, window: 8192, burst: 64, timeout_s: 0.25 };

    /// As several clients.
    pub const MANY_FLOWS: Self = Self { sockets: 8, window: 500, burst: 32, timeout_s: 0.25 };

    /// The settings as factors.
    pub fn factors(&self) -> BTreeMap<String, String> {
        [
            (SOCKETS.to_string(), self.sockets.to_string()),
            (WINDOW.to_string(), self.window.to_string()),
            (BURST.to_string(), self.burst.to_string()),
            (TIMEOUT.to_string(), self.timeout_s.to_string()),
        ]
        .into()
    }

    /// The settings of a stored cell; where it has none, those of many flows.
    pub fn of(cell: &Cell) -> Self {
        Self {
            sockets: factor(cell, SOCKETS).unwrap_or(Self::MANY_FLOWS.sockets),
            window: factor(cell, WINDOW).unwrap_or(Self::MANY_FLOWS.window),
            burst: factor(cell, BURST).unwrap_or(Self::MANY_FLOWS.burst),
            timeout_s: factor(cell, TIMEOUT).unwrap_or(Self::MANY_FLOWS.timeout_s),
        }
    }
}

fn factor<T: std::str::FromStr>(cell: &Cell, name: &str) -> Option<T> {
    cell.factors.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_being_stored() {
        let cell = Cell { factors: Setup::FEW_FLOWS.factors(), ..Cell::default() };
        assert_eq!(Setup::of(&cell), Setup::FEW_FLOWS);
        assert_eq!(Setup::of(&Cell::default()), Setup::MANY_FLOWS);
    }
}
