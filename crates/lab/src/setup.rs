//! The settings of the player for a cell. They are stored in the cell's factors, so that the store alone
//! explains a figure, and a resumed run plays as before.

use std::collections::BTreeMap;

use kqps_observation::Cell;

/// The player's settings for one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The player's I/O; `None` for the best that the host offers.
    pub io: Option<String>,
    /// Sending threads; `None` for one on each of the player's cores.
    pub senders: Option<u32>,
    /// Number of sockets, over all threads.
    pub sockets: u32,
    /// The most queries outstanding, in closed loop.
    pub window: u32,
    /// The most queries in one burst.
    pub burst: u32,
    /// Seconds after which a reply is late. The player also listens this long after its last query.
    pub timeout_s: f64,
    /// Whether each socket has a source address of its own, as far as there are addresses; false if all share
    /// one.
    pub spreads_sources: bool,
}

/// The factor with the player's I/O.
pub(crate) const IO: &str = "player.io";
/// The factor with the number of the player's threads.
pub(crate) const SENDERS: &str = "player.senders";
/// The factor with the number of the player's sockets.
pub(crate) const SOCKETS: &str = "player.sockets";
/// The factor with the most queries outstanding.
pub(crate) const WINDOW: &str = "player.window";
/// The factor with the most queries in one burst.
pub(crate) const BURST: &str = "player.burst";
/// The factor with the seconds after which a reply is late.
pub(crate) const TIMEOUT: &str = "player.timeout_s";

/// The factor with the choice of source addresses.
pub(crate) const SOURCES: &str = "player.sources";
/// All sockets have the same source address.
const ONE: &str = "one";
/// The sockets use the addresses in turn.
pub(crate) const SPREAD: &str = "spread";
/// The values of [`SOURCES`].
pub(crate) const SOURCES_WORDS: [&str; 2] = [ONE, SPREAD];

/// Loopback addresses of this host (RFC 1122, section 3.2.1.3), apart from those that subjects listen on.
pub(crate) const SPREAD_PREFIX: &str = "127.1.0.0/16";

impl Setup {
    /// The settings of a player that looks like several clients.
    pub const MANY_FLOWS: Self = Self {
        io: None,
        senders: None,
        sockets: 8,
        window: 500,
        burst: 32,
        timeout_s: 0.25,
        spreads_sources: false,
    };

    /// The settings as factors: name → value.
    pub fn factors(&self) -> BTreeMap<String, String> {
        let io = self.io.clone().map(|io| (IO.to_string(), io));
        let senders = self.senders.map(|senders| (SENDERS.to_string(), senders.to_string()));
        let sources = self.spreads_sources.then(|| (SOURCES.to_string(), SPREAD.to_string()));
        let numbers = [
            (SOCKETS.to_string(), self.sockets.to_string()),
            (WINDOW.to_string(), self.window.to_string()),
            (BURST.to_string(), self.burst.to_string()),
            (TIMEOUT.to_string(), self.timeout_s.to_string()),
        ];
        numbers.into_iter().chain(io).chain(senders).chain(sources).collect()
    }

    /// The settings in a stored cell; those that it lacks are those of [`Setup::MANY_FLOWS`].
    pub fn of(cell: &Cell) -> Self {
        Self {
            io: factor(cell, IO),
            senders: factor(cell, SENDERS),
            sockets: factor(cell, SOCKETS).unwrap_or(Self::MANY_FLOWS.sockets),
            window: factor(cell, WINDOW).unwrap_or(Self::MANY_FLOWS.window),
            burst: factor(cell, BURST).unwrap_or(Self::MANY_FLOWS.burst),
            timeout_s: factor(cell, TIMEOUT).unwrap_or(Self::MANY_FLOWS.timeout_s),
            spreads_sources: cell.factors.get(SOURCES).is_some_and(|word| word == SPREAD),
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
        for setup in [
            Setup::MANY_FLOWS,
            Setup { io: Some("plain".into()), senders: Some(4), ..Setup::MANY_FLOWS },
            Setup { spreads_sources: true, ..Setup::MANY_FLOWS },
        ] {
            let cell = Cell { factors: setup.factors(), ..Cell::default() };
            assert_eq!(Setup::of(&cell), setup);
        }
        assert_eq!(Setup::of(&Cell::default()), Setup::MANY_FLOWS);
    }
}
