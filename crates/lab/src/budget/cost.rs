//! The cost of measurements, in seconds: estimates from experience for planning.

use kqps_observation::run::Role;
use kqps_observation::{Cell, CellLoad};
use kqps_verdict::search::Preset;

use crate::canary;
use crate::profile::PROFILE_S;
use crate::residence;
use crate::rounds;
use crate::warm_up;
use kqps_testbed::materials;

/// Before the first trial: reading the host, and generating small files.
const SETUP_S: f64 = 3.0;

/// Generating one record of a zone, with the queries for it.
const RECORD_S: f64 = 2e-6;

/// Everything before the first trial, for zones with this many records.
pub(super) fn setup_s(records: u64) -> f64 {
    SETUP_S + records as f64 * RECORD_S
}

/// Playing a closed-loop trial, with the start and stop of its echo.
pub(super) const CEILING_S: f64 = 0.7;

/// Starting, warming up and stopping a name server with a small zone, with the begin and end of the player.
const START_S: f64 = 1.4;

/// Records of a zone that a name server loads within [`START_S`].
const SMALL_ZONE: u64 = 100_000;

/// Loading one more record: the mean of five name servers.
const LOAD_RECORD_S: f64 = 1e-5;

/// A search that no budget cuts short takes this many times as long as the cost of its preset, since it repeats every
/// spoiled trial.
const UNHURRIED: f64 = 1.6;

/// Starting, warming up and stopping an echo, which is ready at once.
const ECHO_START_S: f64 = 0.5;

/// The time of a fixed rate beyond its duration: the player's begin, and a drain if queries were lost.
const RATE_S: f64 = 0.3;

/// A trial over several hosts takes this much longer: the pings before it, and the time by which its start is ahead.
pub(super) const TOGETHER_S: f64 = 0.4;

/// A trial of an echo beside searches, with the player's begin.
const BESIDE_S: f64 = 0.4;

/// A trial that is repeated for the reasons of drops, with its drain; once for a cell.
pub(crate) const REASONS_S: f64 = 2.4;

/// The trial in which packets are stamped; once for a cell.
pub(super) const RESIDENCE_S: f64 = residence::TRIAL_S + RATE_S;

/// Opening one kept connection before a trial, with a full handshake and without TLS.
const HANDSHAKE_S: f64 = 6e-4;
const CONNECT_S: f64 = 5e-5;

/// The cost of one preset of the rate search, in seconds.
#[derive(Debug)]
pub(super) struct Cost {
    pub(super) goal: &'static str,
    /// A search that starts without bounds.
    pub(super) first_s: f64,
    /// A search that starts from the bounds of an earlier one.
    pub(super) later_s: f64,
    /// The trials of latency by load.
    pub(super) latency_s: f64,
    /// The trials of an echo in one block, beside the searches whose rates are compared with its own.
    pub(super) rounds_s: f64,
}

pub(super) const QUICK: Cost =
    Cost { goal: "quick", first_s: 10.0, later_s: 8.0, latency_s: 4.0, rounds_s: 6.0 };
pub(super) const DEFAULT: Cost =
    Cost { goal: "default", first_s: 50.0, later_s: 42.0, latency_s: 8.0, rounds_s: 20.0 };
const LOSSLESS: Cost = Cost { goal: "lossless", ..DEFAULT };
const RFC2544: Cost = Cost { goal: "rfc2544", first_s: 900.0, later_s: 300.0, latency_s: 8.0, rounds_s: 5.0 };

/// The cost of a search for the goal of this name; an unknown goal costs as much as the cheapest.
pub(super) fn of_goal(goal: &str) -> &'static Cost {
    [&DEFAULT, &LOSSLESS, &RFC2544].into_iter().find(|cost| cost.goal == goal).unwrap_or(&QUICK)
}

/// Seconds of one start of a cell in a block (from 0) under a goal of this name. For a canary, that is one trial.
pub(crate) fn cell_s(cell: &Cell, goal: &str, block: u32) -> f64 {
    let load_s = match (cell.role, &cell.load) {
        (Role::PlayerCeiling | Role::EchoCeiling, _) => {
            return CEILING_S + opening_s(cell) + profile_s(cell, block);
        }
        _ if cell.factors.rounds().is_some() => rounds::trials_s(cell),
        (_, CellLoad::Closed(seconds)) => *seconds + opening_s(cell),
        (_, CellLoad::Rates { rates_qps, duration_s }) => {
            rates_qps.len() as f64 * (duration_s + RATE_S + opening_s(cell))
        }
        (_, CellLoad::Search) => search_s(goal, block),
    };
    let once_s = profile_s(cell, block) + residence_s(cell, block);
    start_s(cell) + load_s + latency_s(cell, goal, block) + once_s
}

/// The trials of its profile, which are made only in the first block.
pub(crate) fn profile_s(cell: &Cell, block: u32) -> f64 {
    if cell.profile && block == 0 { PROFILE_S } else { 0.0 }
}

/// The trial of its residence, which is made only in the first block.
pub(crate) fn residence_s(cell: &Cell, block: u32) -> f64 {
    if cell.residence && block == 0 { RESIDENCE_S } else { 0.0 }
}

/// Latency by load, which is measured only in the first block.
pub(crate) fn latency_s(cell: &Cell, goal: &str, block: u32) -> f64 {
    let has_latency = block == 0 && !cell.factors.latency_at_percent().is_empty();
    if has_latency { of_goal(goal).latency_s } else { 0.0 }
}

/// The further trials of an echo in a block, beside the searches whose rates are compared with its own.
pub(crate) fn rounds_s(goal: &str) -> f64 {
    of_goal(goal).rounds_s
}

/// How much longer one start of a cell takes in a block (from 0) if its trials are played over several hosts.
pub(crate) fn together_s(cell: &Cell, goal: &str, block: u32) -> f64 {
    let rounds = rounds::rounds(cell) as f64;
    let of_load = match (cell.role, &cell.load) {
        (Role::PlayerCeiling | Role::EchoCeiling, _) => return TOGETHER_S,
        (_, CellLoad::Closed(_)) => rounds,
        (_, CellLoad::Rates { rates_qps, .. }) => rates_qps.len() as f64 * rounds,
        (_, CellLoad::Search) => trials_of_search(goal, search_s(goal, block)),
    };
    let of_latency = if block == 0 { cell.factors.latency_at_percent().len() } else { 0 };
    let of_residence = if cell.residence && block == 0 { 1.0 } else { 0.0 };
    // Another trial warms the subject up.
    (1.0 + of_load + of_latency as f64 + of_residence) * TOGETHER_S
}

/// The number of trials in a search for a goal that takes so many seconds.
pub(super) fn trials_of_search(goal: &str, seconds: f64) -> f64 {
    let trial_s = goal.parse::<Preset>().unwrap_or(Preset::Quick).goal().final_s;
    seconds / (trial_s + RATE_S)
}

/// The number of trials of an echo in the rounds of searches that take it so many seconds.
pub(super) fn trials_of_rounds(seconds: f64) -> f64 {
    seconds / BESIDE_S
}

fn start_s(cell: &Cell) -> f64 {
    let start_s = if cell.subject == "echo" { ECHO_START_S } else { START_S + load_s(cell) };
    start_s + warm_up::at_least_s(cell) + opening_s(cell)
}

/// Opening the kept connections of one trial.
fn opening_s(cell: &Cell) -> f64 {
    let player = cell.factors.player();
    let kept = player.connections.filter(|_| player.queries_per_connection.is_none()).unwrap_or(0);
    let each_s = if cell.factors.transport().is_encrypted() { HANDSHAKE_S } else { CONNECT_S };
    f64::from(kept) * each_s
}

/// The time that a name server needs beyond that for a small zone, until it has loaded its zones.
fn load_s(cell: &Cell) -> f64 {
    let records = if cell.target.is_some() { 0 } else { materials::records_of(std::slice::from_ref(cell)) };
    records.saturating_sub(SMALL_ZONE) as f64 * LOAD_RECORD_S
}

/// How much longer the searches of a block (from 0) take if no budget cuts them short.
pub(crate) fn unhurried_s(cells: &[Cell], goal: &str, block: u32) -> f64 {
    let is_search = |cell: &&Cell| cell.role == Role::Subject && cell.load == CellLoad::Search;
    cells.iter().filter(is_search).count() as f64 * search_s(goal, block) * (UNHURRIED - 1.0)
}

fn search_s(goal: &str, block: u32) -> f64 {
    let cost = of_goal(goal);
    if block == 0 { cost.first_s } else { cost.later_s }
}

/// A whole block (from 0) of these cells, its canaries included.
pub(crate) fn block_s(cells: &[Cell], goal: &str, block: u32) -> f64 {
    let (canaries, others): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| cell.role == Role::Canary);
    let played = others.len().div_ceil(canary::EVERY) as f64;
    let canaries_s: f64 = canaries.iter().map(|cell| played * cell_s(cell, goal, block)).sum();
    canaries_s + others.iter().map(|cell| cell_s(cell, goal, block)).sum::<f64>()
}

/// Repeating a trial of every cell that is pushed beyond its limit. Closed loops seldom lose queries.
pub(super) fn reasons_s(cells: &[Cell]) -> f64 {
    let is_pushed = |cell: &&Cell| cell.role == Role::Subject && !matches!(cell.load, CellLoad::Closed(_));
    cells.iter().filter(is_pushed).count() as f64 * REASONS_S
}

#[cfg(test)]
mod tests {
    use kqps_observation::factors::{Factors, name};

    use super::*;

    fn cell(load: CellLoad, factors: &[(&str, &str)]) -> Cell {
        let words = factors.iter().map(|(name, word)| ((*name).into(), (*word).into()));
        Cell { load, factors: Factors::read(words).unwrap(), ..Cell::default() }
    }

    #[test]
    fn a_cell_costs_what_its_load_its_warm_up_and_its_goal_ask_for() {
        let closed = cell_s(&cell(CellLoad::Closed(0.5), &[]), "quick", 0);
        assert!((closed - START_S - 0.5).abs() < 1e-9);
        let steady = cell_s(&cell(CellLoad::Closed(0.5), &[("steady", "60s")]), "quick", 0);
        assert!(steady > closed + 10.0);

        let plain = cell(CellLoad::Closed(0.5), &[]);
        let profiled = Cell { profile: true, ..plain.clone() };
        let more_s = |block| cell_s(&profiled, "quick", block) - cell_s(&plain, "quick", block);
        assert!((more_s(0) - PROFILE_S).abs() < 1e-9 && more_s(1).abs() < 1e-9, "a profile comes once");

        let stamped = Cell { residence: true, ..plain.clone() };
        let more_s = |block| {
            let of = |cell| cell_s(cell, "quick", block) + together_s(cell, "quick", block);
            of(&stamped) - of(&plain)
        };
        assert!((more_s(0) - RESIDENCE_S - TOGETHER_S).abs() < 1e-9 && more_s(1).abs() < 1e-9);

        let search = cell(CellLoad::Search, &[(name::LATENCY_AT, "50")]);
        let of = |goal, block| cell_s(&search, goal, block) - start_s(&search);
        let more_s = QUICK.first_s - QUICK.later_s + QUICK.latency_s;
        assert!((of("quick", 0) - of("quick", 1) - more_s).abs() < 1e-9, "latency comes once");
        assert!(of("lossless", 1) > 2.0 * of("quick", 1) && of("rfc2544", 0) > 600.0);
    }

    #[test]
    fn a_large_zone_takes_its_time_to_load() {
        let of = |records: u64| {
            let mut cell = cell(CellLoad::Closed(0.5), &[]);
            cell.factors.set_records(records);
            cell
        };
        let large_s = cell_s(&of(1_100_000), "quick", 0) - cell_s(&of(SMALL_ZONE), "quick", 0);
        assert!((large_s - 10.0).abs() < 1e-6, "{large_s}");
        let echo = |records| Cell { subject: "echo".into(), ..of(records) };
        assert!((cell_s(&echo(1_100_000), "quick", 0) - cell_s(&echo(1), "quick", 0)).abs() < 1e-9);
    }

    #[test]
    fn many_kept_connections_take_their_time_to_open() {
        let of = |connections: &str, transport: &str| {
            let factors = [("player.connections", connections), ("player.transport", transport)];
            cell_s(&cell(CellLoad::Closed(0.5), &factors), "quick", 0)
        };
        assert!(of("50000", "tls") - of("1", "tls") > 50.0, "for the warm-up and the trial");
        assert!(of("50000", "tcp") - of("1", "tcp") < 6.0);
    }

    #[test]
    fn over_hosts_each_trial_takes_longer() {
        let rates = CellLoad::Rates { rates_qps: vec![1.0; 7], duration_s: 2.0 };
        let trials = |cell: &Cell, goal, block| together_s(cell, goal, block) / TOGETHER_S;
        assert!((trials(&cell(rates, &[]), "quick", 0) - 8.0).abs() < 1e-9, "with a warm-up");
        let ceiling = Cell { role: Role::EchoCeiling, ..cell(CellLoad::Search, &[]) };
        assert!((trials(&ceiling, "quick", 0) - 1.0).abs() < 1e-9);
        let search = cell(CellLoad::Search, &[(name::LATENCY_AT, "50 90")]);
        assert!(trials(&search, "quick", 0) > trials(&search, "quick", 1) + 2.0, "latency comes once");
        let of_minutes = (RFC2544.later_s / 60.3, trials(&search, "rfc2544", 1) - 1.0);
        assert!((of_minutes.0 - of_minutes.1).abs() < 1e-9, "its trials last a minute");
    }

    #[test]
    fn a_canary_is_played_every_few_cells() {
        let mut cells = vec![cell(CellLoad::Closed(0.5), &[]); 13];
        let without_s = block_s(&cells, "quick", 0);
        let load = CellLoad::Rates { rates_qps: vec![1e4], duration_s: 0.5 };
        let canary = Cell { role: Role::Canary, ..cell(load, &[]) };
        let once_s = cell_s(&canary, "quick", 0);
        cells.push(canary);
        assert!((block_s(&cells, "quick", 0) - without_s - 3.0 * once_s).abs() < 1e-9);
    }
}
