//! The rows of all settings, and the values that a cell has of them.

mod cell;
mod player;
mod rows;
mod searches;

pub use cell::{CellFactors, DatasetFactors, HostsFactors, PathFactors};
pub use player::{BURST_MOST, CONNECTIONS_MOST, OUTSTANDING_MOST, PlayerFactors};

use crate::setting::{GivenBy, Setting};

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
