//! Memory of a connection: what a subject holds with many connections beyond what it holds with few, all else equal.
//! Its zones and its program cancel out.

use std::collections::BTreeMap;

use kqps_observation::Run;
use kqps_observation::factors::name::PLAYER_CONNECTIONS;

use super::{Figures, measured};
use crate::judge::CellVerdict;

/// Identifies cells that differ only in the number of connections.
pub(super) type Family = (String, String, BTreeMap<String, String>);

/// Adds the memory of a connection to the cells of a family but the one with the fewest open connections.
pub(super) fn add(
    run: &Run,
    trials: &measured::Trials<'_>,
    verdicts: &[CellVerdict],
    figures: &mut [Figures],
) {
    let held: Vec<Option<(Family, (u64, u64))>> = verdicts
        .iter()
        .map(|verdict| {
            let family = family(run, verdict.cell)?;
            Some((family, measured::memory_with_connections(&measured::behind(run, trials, verdict))?))
        })
        .collect();
    let mut fewest: BTreeMap<&Family, (u64, u64)> = BTreeMap::new();
    for (family, held) in held.iter().flatten() {
        let least = fewest.entry(family).or_insert(*held);
        *least = (*least).min(*held);
    }
    for (one, held) in figures.iter_mut().zip(&held) {
        let Some((family, (open, bytes))) = held else { continue };
        let (fewest_open, base_bytes) = fewest[family];
        let further = open.saturating_sub(fewest_open);
        one.memory_bytes_per_connection =
            (further > 0).then(|| bytes.saturating_sub(base_bytes) as f64 / further as f64);
    }
}

/// The family of a cell; `None` if its factors name no number of connections.
pub(super) fn family(run: &Run, cell: u32) -> Option<Family> {
    let cell = &run.cells[cell as usize];
    cell.factors.player().connections?;
    let others = cell.factors.filtered(|name| name != PLAYER_CONNECTIONS);
    Some((cell.experiment.clone(), cell.subject.clone(), others.words().clone()))
}
