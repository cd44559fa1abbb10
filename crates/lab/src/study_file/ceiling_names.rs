//! The names of ceilings: what sets one apart from the others of its study.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::factors::name;
use kqps_observation::run::Role;
use kqps_observation::{Cell, cpu_list, question};

use super::values::FactorWords;
use kqps_testbed::player_setup::PlayerSetup;
use kqps_testbed::subject::Definition;
use kqps_testbed::words::counted;

/// Whether a name has this setting. The transport stands in it already, and loopback is the usual path.
fn is_shown(name: &str, value: &str) -> bool {
    name != name::PLAYER_TRANSPORT && value != question::Path::Loopback.word()
}

fn word(name: &str, value: &str) -> String {
    format!(", {} {value}", name.trim_start_matches(name::PLAYER))
}

/// `player ceiling, sockets 8, window 500`, `player ceiling over tcp, connections 8, window 500`; with the cores if the
/// player has others in other cells.
pub(super) fn of_player(cell: &Cell, setup: &FactorWords, cpus: Option<&Vec<u32>>) -> String {
    let words =
        setup.iter().filter(|(name, value)| is_shown(name, value)).map(|(name, value)| word(name, value));
    let cores = cpus.map(|cpus| format!(", player on {}", cpu_list::write(cpus)));
    let name = format!("player ceiling{}", PlayerSetup::from_cell(cell).over());
    words.chain(cores).fold(name, |name, word| name + &word)
}

/// `echo mmsg, 1 worker`, `echo mmsg, 2 workers, reuseport`, `echo over tcp, 1 worker, 64 kept connections`,
/// `echo over tls, 1 worker, 64 connections, closed after 1 query, not resumed, rsa-2048`.
pub(super) fn of_echo(cell: &Cell, sockets: &str) -> String {
    let workers = counted(cell.workers.into(), "worker");
    let setup = PlayerSetup::from_cell(cell);
    let over = setup.over();
    if !setup.transport().has_connections() {
        let alone = cell.workers == 1 || sockets == Definition::SHARED;
        let sockets = if alone { String::new() } else { format!(", {sockets}") };
        return format!("echo {}, {workers}{sockets}", cell.io);
    }
    let connections: u64 = setup.places().into();
    let player = cell.factors.player();
    let used = match player.queries_per_connection {
        None => counted(connections, "kept connection"),
        Some(0) => format!("{}, closed once made", counted(connections, "connection")),
        Some(1) => format!("{}, closed after 1 query", counted(connections, "connection")),
        Some(queries) => format!("{}, closed after {queries} queries", counted(connections, "connection")),
    };
    let is_shared = cell.workers > 1 && cell.factors.word(name::LISTENERS) == Some(Definition::SHARED);
    let listeners = if is_shared { ", shared listeners" } else { "" };
    let is_full = setup.transport().is_encrypted() && player.resume == Some(false);
    let resumption = if is_full { ", not resumed" } else { "" };
    let certificate = cell.factors.certificate().map_or_else(String::new, |one| format!(", {}", one.word()));
    format!("echo{over}, {workers}{listeners}, {used}{resumption}{certificate}")
}

/// Adds to the names of echoes that are equal the settings in which these echoes differ.
pub(super) fn set_apart(ceilings: &mut [Cell]) {
    let mut by_name: BTreeMap<String, Vec<&mut Cell>> = BTreeMap::new();
    for echo in ceilings.iter_mut().filter(|cell| cell.role == Role::EchoCeiling) {
        by_name.entry(echo.name.clone()).or_default().push(echo);
    }
    for alike in by_name.into_values().filter(|alike| alike.len() > 1) {
        let settings: Vec<_> = alike.iter().map(|cell| FactorWords::from(cell.factors.clone())).collect();
        let names: BTreeSet<&String> = settings.iter().flat_map(FactorWords::keys).collect();
        let differ = |name: &&String| settings.iter().any(|one| one.get(*name) != settings[0].get(*name));
        let differing: Vec<&String> = names.into_iter().filter(differ).collect();
        for (cell, settings) in alike.into_iter().zip(&settings) {
            let values = differing.iter().filter_map(|name| settings.get_key_value(*name));
            for (name, value) in values.filter(|(name, value)| is_shown(name, value)) {
                cell.name += &word(name, value);
            }
        }
    }
}
