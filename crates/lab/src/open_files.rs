//! Open files of players and subjects on this host. A study of many connections needs more of them than a process usually
//! may have.

use std::collections::BTreeMap;

use kqps_kernel::limits;
use kqps_observation::Cell;

/// The setting of subjects that says how many connections they allow (`[settings.clients]` of their files).
const CLIENTS: &str = "clients";

/// Allows this process and those that it starts the open files that the cells need, as far as the system permits. Returns
/// the number that each may have.
pub(crate) fn allow(cells: &[Cell]) -> u64 {
    let most = cells.iter().map(|cell| room(connections(cell).max(clients(cell)))).max();
    // Without an answer nothing is left out. What cannot be opened then fails in its trial, with its reason.
    limits::allow_open_files(most.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Leaves out cells with more connections than a process may have open files, with the reason.
pub(crate) fn leave_out(cells: &mut Vec<Cell>, skipped: &mut BTreeMap<String, String>) {
    let allowed = allow(cells);
    cells.retain(|cell| match why_not(cell, allowed) {
        Some(reason) => {
            skipped.insert(cell.name.clone(), reason);
            false
        }
        None => true,
    });
}

/// Why the player of a cell cannot have its connections with this number of open files; `None` if it can.
fn why_not(cell: &Cell, allowed: u64) -> Option<String> {
    let connections = connections(cell);
    (connections >= allowed).then(|| {
        format!(
            "{connections} connections need as many open files, and a process may have {allowed} here (ulimit -Hn); root may \
             have more"
        )
    })
}

/// Connections of the player.
fn connections(cell: &Cell) -> u64 {
    cell.factors.player().connections.unwrap_or(0).into()
}

/// The most connections that a subject may have, by its setting.
fn clients(cell: &Cell) -> u64 {
    cell.factors.word(CLIENTS).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Open files for so many connections: a subject also has some for each of its threads.
fn room(connections: u64) -> u64 {
    connections.saturating_add(connections / 16 + 512)
}

#[cfg(test)]
mod tests {
    use kqps_observation::factors::name;

    use super::*;

    #[test]
    fn a_cell_with_more_connections_than_open_files_is_left_out_with_its_reason() {
        let cell = |word: &str| {
            let mut cell = Cell { name: format!("{word} connections"), ..Cell::default() };
            cell.factors.set(name::PLAYER_CONNECTIONS, word).unwrap();
            cell
        };
        assert_eq!(why_not(&cell("1000"), 20_000), None);
        assert_eq!(
            why_not(&cell("50000"), 20_000).unwrap(),
            "50000 connections need as many open files, and a process may have 20000 here (ulimit -Hn); root may have more"
        );
        assert_eq!(room(u64::MAX), u64::MAX);
        // No process may have so many (fs.nr_open).
        let (mut cells, mut skipped) = (vec![cell("64"), cell("4000000000")], BTreeMap::new());
        leave_out(&mut cells, &mut skipped);
        assert_eq!(cells.len(), 1);
        assert_eq!(skipped.keys().collect::<Vec<_>>(), ["4000000000 connections"]);
    }
}
