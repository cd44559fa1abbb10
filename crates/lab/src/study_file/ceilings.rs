//! The cells that a study adds by itself: the ceilings with which its figures are compared, and the canary.

use std::collections::BTreeSet;

use kqps_observation::factors::{SourceChoice, name};
use kqps_observation::run::Role;
use kqps_observation::{Cell, CellLoad, Factors};

use super::ceiling_names;
use super::offer::HostOffer;
use super::values::FactorWords;
use kqps_testbed::echo_io;
use kqps_testbed::subject::Definition;

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
    // The rate of an attack is no share of what an echo answers.
    for cell in cells.iter().filter(|cell| cell.factors.scenario().is_none()) {
        let setup = FactorWords::from(surroundings(cell));
        if players.insert((cell.player_cpus.clone(), setup.clone())) {
            let io = if cell.factors.transport().has_connections() {
                echo_io::OVER_TCP
            } else {
                echo_io::cheapest(&offer.lacking)
            };
            let alike = players.iter().filter(|(_, other)| *other == setup).count();
            let name = ceiling_names::of_player(cell, &setup, (alike > 1).then_some(&cell.player_cpus));
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
            let name = ceiling_names::of_echo(cell, &sockets);
            let (io, workers) = (cell.io.clone(), cell.workers);
            let mut echo = Cell { name, role: Role::EchoCeiling, io, workers, ..echo_beside(offer, cell) };
            echo.factors.set_sockets(&sockets);
            if let Some(listeners) = listeners {
                echo.factors.set_listeners(&listeners);
            }
            ceilings.push(echo);
        }
    }
    ceiling_names::set_apart(&mut ceilings);
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

/// An echo with one worker on the cores of a cell, with the same player, whose early data it takes and whose type of
/// certificate it has.
fn echo_beside(offer: &HostOffer, cell: &Cell) -> Cell {
    let mut factors = surroundings(cell);
    factors.set_cores(&cell.subject_cpus);
    if cell.factors.player().early_data == Some(true) {
        factors.set_takes_early_data();
    }
    if let Some(key) = cell.factors.player().tls_certificate {
        factors.set_certificate(key.into());
    }
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
/// its cells. The certificate itself is the run's own, also beside a server that runs already. An echo that the run
/// starts is reached over IPv4.
fn surroundings(cell: &Cell) -> Factors {
    let is_ipv6 = cell.factors.player().sources.is_some_and(SourceChoice::is_ipv6);
    let is_of_path = |name: &str| name == name::PATH || name.starts_with(name::PATH_SETTING);
    let is_of_player = |name: &str| {
        let of_server = [name::PLAYER_TLS_TRUST, name::PLAYER_TLS_NAME, name::PLAYER_HTTP_PATH];
        let fits = name != name::PLAYER_SOURCES || !is_ipv6;
        name.starts_with(name::PLAYER) && !of_server.contains(&name) && fits
    };
    let is_of_host = |name: &str| name.starts_with(name::HOST) && name != name::HOST_NICE;
    let is_shared = |name: &str| name == name::SUBJECT_CERTIFICATE || name.starts_with(name::HOSTS);
    cell.factors
        .filtered(|name| is_of_player(name) || is_of_path(name) || is_of_host(name) || is_shared(name))
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
