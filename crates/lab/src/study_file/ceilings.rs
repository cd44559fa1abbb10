//! The cells that a study adds by itself: the ceilings with which its figures are compared, and the canary.

use std::collections::BTreeSet;

use kqps_observation::factors::name;
use kqps_observation::run::Role;
use kqps_observation::{Cell, CellLoad, Factors, cpu_list, question};

use super::offer::HostOffer;
use super::values::FactorWords;
use crate::echo_io;
use crate::player_setup::{PlayerSetup, WireSetup};
use crate::subject::Definition;
use crate::words::counted;

/// The canary is the simplest server, since any server could answer its rate.
const CANARY_IO: &str = "blocking";

/// Seconds of a canary's trial.
const CANARY_S: f64 = 0.5;

/// Adds the player's ceiling for each of its setups on each of its cores. For name servers, adds the echo with
/// their I/O model, workers, way of sharing sockets and cores; over connections, with their workers, connections,
/// certificate and cores. The ceilings come first.
pub(crate) fn add(offer: &HostOffer, cells: &mut Vec<Cell>) {
    let mut players = BTreeSet::new();
    let mut echoes = BTreeSet::new();
    let mut ceilings: Vec<Cell> = Vec::new();
    for cell in cells.iter() {
        let setup = FactorWords::from(surroundings(cell));
        if players.insert((cell.player_cpus.clone(), setup.clone())) {
            let io = if cell.factors.transport().has_connections() {
                echo_io::OVER_TCP
            } else {
                echo_io::cheapest(&offer.lacking)
            };
            let alike = players.iter().filter(|(_, other)| *other == setup).count();
            let name = player_name(cell, &setup, (alike > 1).then_some(&cell.player_cpus));
            ceilings.push(Cell {
                name,
                role: Role::PlayerCeiling,
                io: io.into(),
                ..echo_beside(offer, cell)
            });
        }
        let is_echo = cell.subject == "echo" || echo_io::why_not(&cell.io, &offer.lacking).is_some();
        let sockets = sockets(offer, cell);
        let listeners = cell.factors.word(name::LISTENERS).map(str::to_owned);
        let shared = (sockets.clone(), listeners.clone());
        let key = (cell.io.clone(), cell.workers, shared, cell.subject_cpus.clone(), setup);
        if !is_echo && echoes.insert(key) {
            let plain = echo_name(cell, &sockets);
            let is_alike = |other: &&Cell| {
                other.role == Role::EchoCeiling
                    && (other.name == plain || other.name.starts_with(&format!("{plain} (")))
            };
            let before = ceilings.iter().filter(is_alike).count();
            let name = if before == 0 { plain } else { format!("{plain} ({})", before + 1) };
            let (io, workers) = (cell.io.clone(), cell.workers);
            let mut echo = Cell { name, role: Role::EchoCeiling, io, workers, ..echo_beside(offer, cell) };
            echo.factors.set_sockets(&sockets);
            if let Some(listeners) = listeners {
                echo.factors.set_listeners(&listeners);
            }
            ceilings.push(echo);
        }
    }
    ceilings.append(cells);
    *cells = ceilings;
}

/// Adds the echo at a fixed rate as the canary.
pub(super) fn add_canary(offer: &HostOffer, rate_qps: f64, cells: &mut Vec<Cell>) {
    let Some(first) = cells.first() else { return };
    let canary = Cell {
        name: "canary".into(),
        role: Role::Canary,
        load: CellLoad::Rates { rates_qps: vec![rate_qps], duration_s: CANARY_S },
        io: CANARY_IO.into(),
        ..echo_beside(offer, first)
    };
    cells.push(canary);
}

/// An echo with one worker on the cores of a cell, with the same player.
fn echo_beside(offer: &HostOffer, cell: &Cell) -> Cell {
    let mut factors = surroundings(cell);
    factors.set_cores(&cell.subject_cpus);
    Cell {
        subject: "echo".into(),
        version: offer.versions.get("echo").cloned(),
        workers: 1,
        player_cpus: cell.player_cpus.clone(),
        subject_cpus: cell.subject_cpus.clone(),
        factors,
        ..Cell::default()
    }
}

/// The settings of the player, of the path and of the hosts, and the type of certificate, which a ceiling shares with
/// its cells. The certificate itself is the run's own, also beside a server that runs already.
fn surroundings(cell: &Cell) -> Factors {
    let is_of_path = |name: &str| name == name::PATH || name.starts_with(name::PATH_SETTING);
    let is_of_player = |name: &str| {
        let of_server = [name::PLAYER_TLS_TRUST, name::PLAYER_TLS_NAME, name::PLAYER_HTTP_PATH];
        name.starts_with(name::PLAYER) && !of_server.contains(&name)
    };
    let is_of_host = |name: &str| name.starts_with(name::HOST) && name != name::HOST_NICE;
    let is_shared = |name: &str| name == name::SUBJECT_CERTIFICATE || name.starts_with(name::HOSTS);
    cell.factors
        .filtered(|name| is_of_player(name) || is_of_path(name) || is_of_host(name) || is_shared(name))
}

/// `player ceiling, sockets 8, window 500`, `player ceiling over tcp, connections 8, window 500`; with the cores if the
/// player has others in other cells.
fn player_name(cell: &Cell, setup: &FactorWords, cpus: Option<&Vec<u32>>) -> String {
    let is_shown = |(name, value): &(&String, &String)| {
        *name != name::PLAYER_TRANSPORT && *value != question::Path::Loopback.word()
    };
    let words = setup.iter().filter(is_shown);
    let words = words.map(|(name, value)| format!(", {} {value}", name.trim_start_matches(name::PLAYER)));
    let cores = cpus.map(|cpus| format!(", player on {}", cpu_list::write(cpus)));
    let name = format!("player ceiling{}", PlayerSetup::of(cell).wire.over());
    words.chain(cores).fold(name, |name, word| name + &word)
}

/// How the workers of a cell's echo share sockets: in the way of the subject's own workers. A single worker
/// shares with none. Over connections the sockets of datagrams are idle.
fn sockets(offer: &HostOffer, cell: &Cell) -> String {
    if cell.factors.transport().has_connections() {
        return Definition::SHARED.into();
    }
    let definition = offer.definitions.values().find(|definition| definition.name == cell.subject);
    match definition {
        Some(definition) if cell.workers > 1 => {
            definition.echo_sockets(&definition.settings_among(cell.factors.words()))
        }
        _ => Definition::SHARED.into(),
    }
}

/// `echo mmsg, 1 worker`, `echo mmsg, 2 workers, reuseport`, `echo over tcp, 1 worker, 64 kept connections`,
/// `echo over tls, 1 worker, 64 connections, closed after 1 query, not resumed, rsa-2048`.
fn echo_name(cell: &Cell, sockets: &str) -> String {
    let workers = counted(cell.workers.into(), "worker");
    let wire = PlayerSetup::of(cell).wire;
    let over = wire.over();
    let WireSetup::Connected(setup) = wire else {
        let alone = cell.workers == 1 || sockets == Definition::SHARED;
        let sockets = if alone { String::new() } else { format!(", {sockets}") };
        return format!("echo {}, {workers}{sockets}", cell.io);
    };
    let connections: u64 = setup.connections.into();
    let used = match setup.queries_per_connection {
        None => counted(connections, "kept connection"),
        Some(0) => format!("{}, closed once made", counted(connections, "connection")),
        Some(1) => format!("{}, closed after 1 query", counted(connections, "connection")),
        Some(queries) => format!("{}, closed after {queries} queries", counted(connections, "connection")),
    };
    let is_shared = cell.workers > 1 && cell.factors.word(name::LISTENERS) == Some(Definition::SHARED);
    let listeners = if is_shared { ", shared listeners" } else { "" };
    let is_full = setup.tls.as_ref().is_some_and(|tls| !tls.resume);
    let resumption = if is_full { ", not resumed" } else { "" };
    let certificate = cell.factors.certificate().map_or_else(String::new, |one| format!(", {}", one.word()));
    format!("echo{over}, {workers}{listeners}, {used}{resumption}{certificate}")
}
