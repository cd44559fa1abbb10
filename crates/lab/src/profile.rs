//! Chooses the trials of a profile: closed loops without samples, with them, and without them again, once for a cell.
//! The first and the last show what sampling cost. A function of the stored trials, so that a run that was killed
//! continues.

use std::collections::BTreeMap;

use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Cell, Run, RunTrial};
use kqps_verdict::judge::{differ_in_workers_alone, echo_beside};

use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// Whether each trial is sampled.
const SAMPLED: [bool; 3] = [false, true, false];

/// Seconds of each trial: enough for some hundred samples of each busy thread.
const TRIAL_S: f64 = 1.0;

/// All trials of a cell's profile, with the begin of the player and the drain of each.
pub(crate) const PROFILE_S: f64 = 4.5;

/// The name of a cell's profile among the parts that a run left out.
pub(crate) fn name(cell: &Cell) -> String {
    format!("profile of {}", cell.name)
}

/// The number of trials that the profile of a cell already has. If it is not wanted, or if one of them failed, it has
/// all.
pub(crate) fn played(run: &Run, cell: usize) -> usize {
    let is_of_profile = |one: &&RunTrial| one.cell as usize == cell && one.purpose.is_for_profile();
    let played = run.trials.iter().filter(is_of_profile);
    if !run.cells[cell].profile || played.clone().any(|one| one.failure().is_some()) {
        return SAMPLED.len();
    }
    played.count()
}

/// The next trial of a profile with this many; `None` if it has all.
pub(crate) fn next(played: usize) -> Option<TrialRequest> {
    let sampled = *SAMPLED.get(played)?;
    let purpose = Purpose::Profile { sampled };
    Some(TrialRequest { pace: RequestedPace::Closed, duration_s: TRIAL_S, purpose })
}

/// Why a subject on another host has no profile.
const ELSEWHERE: &str = "only servers on the player's host are sampled";

/// Marks the cells whose subjects are profiled: all subjects on this host if `all` is true, and the echoes that stand
/// beside them. Of cells that differ in their workers alone, those with the fewest, the middle and the most workers
/// are. In a run over hosts none is. Returns the profiles that are left out, with the reason.
pub(crate) fn mark(cells: &mut [Cell], all: bool, over_hosts: bool) -> BTreeMap<String, String> {
    let mut left_out = BTreeMap::new();
    for cell in cells.iter_mut().filter(|cell| cell.role == Role::Subject) {
        let is_wanted = all || cell.profile;
        let is_elsewhere = over_hosts || cell.is_elsewhere();
        cell.profile = is_wanted && !is_elsewhere;
        if is_wanted && is_elsewhere {
            left_out.insert(name(cell), ELSEWHERE.to_owned());
        }
    }
    let profiled = |cells: &[Cell]| -> Vec<usize> {
        let is_profiled = |(_, cell): &(usize, &Cell)| cell.role == Role::Subject && cell.profile;
        cells.iter().enumerate().filter(is_profiled).map(|(index, _)| index).collect()
    };
    let all = profiled(cells);
    let further: Vec<usize> = all.iter().copied().filter(|cell| is_between(cells, &all, *cell)).collect();
    for cell in further {
        cells[cell].profile = false;
    }
    let echoes: Vec<usize> = profiled(cells)
        .into_iter()
        .filter_map(|cell| echo_beside(cells, cell, |echo| !over_hosts && !cells[echo].is_elsewhere()))
        .collect();
    for (index, echo) in cells.iter_mut().enumerate().filter(|(_, cell)| cell.role == Role::EchoCeiling) {
        echo.profile = echoes.contains(&index);
    }
    left_out
}

/// Whether a cell has neither the fewest, the middle nor the most workers of those among `others` that differ from it
/// in their workers alone.
fn is_between(cells: &[Cell], others: &[usize], cell: usize) -> bool {
    let alike = others.iter().map(|other| &cells[*other]);
    let alike = alike.filter(|other| differ_in_workers_alone(other, &cells[cell]));
    let mut sizes: Vec<u32> = alike.map(|other| other.workers).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let shown = [sizes.first(), sizes.get(sizes.len() / 2), sizes.last()];
    !shown.contains(&Some(&cells[cell].workers))
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::Outcome;

    use super::*;

    fn cell(role: Role, io: &str, workers: u32) -> Cell {
        Cell { role, io: io.into(), workers, ..Cell::default() }
    }

    #[test]
    fn the_echo_of_a_profiled_subject_is_profiled_too() {
        let mut cells = vec![
            cell(Role::PlayerCeiling, "mmsg", 1),
            cell(Role::EchoCeiling, "mmsg", 1),
            cell(Role::EchoCeiling, "mmsg", 2),
            cell(Role::EchoCeiling, "epoll", 1),
            cell(Role::Subject, "mmsg", 1),
            cell(Role::Subject, "epoll", 1),
        ];
        cells[4].profile = true;
        mark(&mut cells, false, false);
        let marked = |cells: &[Cell]| cells.iter().map(|cell| cell.profile).collect::<Vec<bool>>();
        assert_eq!(marked(&cells), [false, true, false, false, true, false]);
        mark(&mut cells, true, false);
        assert_eq!(marked(&cells), [false, true, false, true, true, true]);
    }

    /// The echo of a server with four workers, or of one that was already running, is the nearest.
    #[test]
    fn every_profiled_subject_has_an_echo_if_there_is_one() {
        let mut cells: Vec<Cell> =
            [1, 2].map(|workers| cell(Role::EchoCeiling, "mmsg", workers)).into_iter().collect();
        cells.push(cell(Role::Subject, "mmsg", 4));
        mark(&mut cells, true, false);
        assert!(!cells[0].profile && cells[1].profile);
        cells[2] = cell(Role::Subject, "", 1);
        mark(&mut cells, true, false);
        assert!(cells[0].profile && !cells[1].profile);
    }

    #[test]
    fn of_many_numbers_of_workers_three_are_profiled() {
        let mut cells: Vec<Cell> = (1..=7).map(|workers| cell(Role::Subject, "mmsg", workers)).collect();
        cells.push(cell(Role::Subject, "epoll", 2));
        mark(&mut cells, true, false);
        let workers: Vec<u32> = cells.iter().filter(|cell| cell.profile).map(|cell| cell.workers).collect();
        assert_eq!(workers, [1, 4, 7, 2]);
    }

    #[test]
    fn a_server_on_another_host_is_left_out_with_the_reason() {
        let mut cells = vec![cell(Role::EchoCeiling, "mmsg", 1), cell(Role::Subject, "mmsg", 1)];
        cells[1].name = "nsd".into();
        assert!(mark(&mut cells, false, true).is_empty(), "nobody asked for it");
        let left_out = mark(&mut cells, true, true);
        assert_eq!(left_out, [("profile of nsd".to_owned(), ELSEWHERE.to_owned())].into());
        assert!(cells.iter().all(|cell| !cell.profile));
        let address = "192.0.2.1:53".parse().unwrap();
        cells[1].target = Some(kqps_observation::Target { address, on_this_host: false });
        assert_eq!(mark(&mut cells, true, false).len(), 1);
    }

    #[test]
    fn a_profile_goes_on_where_it_was_and_ends_when_a_trial_fails() {
        let mut run = Run { cells: vec![Cell::default()], ..Run::default() };
        assert_eq!((played(&run, 0), next(3)), (3, None), "nobody asked for it");
        run.cells[0].profile = true;
        let mut sampled = Vec::new();
        while let Some(request) = next(played(&run, 0)) {
            let Purpose::Profile { sampled: one } = request.purpose else { panic!() };
            sampled.push(one);
            let outcome = Outcome::Measured(Box::default());
            let purpose = request.purpose;
            run.trials.push(RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose, outcome });
        }
        assert_eq!(sampled, SAMPLED);
        run.trials.truncate(2);
        run.trials[1].outcome = Outcome::Failed { reason: "it died".into(), output: Vec::new() };
        assert_eq!(next(played(&run, 0)), None);
    }
}
