//! The rows of all settings, and the values that a cell has of them.

mod cell;
mod player;
mod rows;
mod searches;

pub use cell::{CellFactors, DatasetFactors, HostsFactors, PathFactors};
pub use player::{BURST_MOST, CONNECTIONS_MOST, OUTSTANDING_MOST, PlayerFactors};

use crate::choice::Transport;
use crate::setting::{GivenBy, Over, Setting};

/// All settings, in the order in which help and documentation list them.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    let of_cells = [cell::CELL, cell::DATASET, cell::HOSTS, cell::PATH];
    let rows = [player::ROWS].into_iter().chain(of_cells).chain([searches::ROWS]);
    rows.flatten()
}

/// The setting of a name; `None` if the catalogue has none.
pub fn of_name(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}

/// The settings that studies and subjects give.
pub fn of_studies() -> impl Iterator<Item = &'static Setting> {
    all().filter(|setting| setting.given_by == GivenBy::Study)
}

/// Whether a setting with this word has an effect on queries over a transport. Most settings have one over every
/// transport.
pub fn is_for(name: &str, word: &str, transport: Transport) -> bool {
    of_name(name).map_or(Over::Every, |setting| setting.over).has_effect(word, transport)
}

/// The transports over which a setting with this word has an effect.
pub fn transports_for(name: &str, word: &str) -> impl Iterator<Item = Transport> {
    Transport::ALL.into_iter().filter(move |transport| is_for(name, word, *transport))
}
