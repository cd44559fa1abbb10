//! Chooses the trials of a profile: closed loops without samples, with them, and without them again, once for a cell.
//! The first and the last show what sampling cost. A function of the stored trials, so that a run that was killed
//! continues.

use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Cell, Run, RunTrial};

use crate::trial_request::{RequestedPace, TrialRequest};

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

/// Marks the cells whose subjects are profiled: all subjects on this host if `all` is true, and the echoes with the
/// same transport, I/O and workers as a profiled subject.
pub(crate) fn mark(cells: &mut [Cell], all: bool) {
    for cell in cells.iter_mut().filter(|cell| cell.role == Role::Subject) {
        cell.profile = (all || cell.profile) && !cell.is_elsewhere();
    }
    let like = |cell: &Cell| (cell.factors.transport(), cell.io.clone(), cell.workers);
    let profiled = cells.iter().filter(|cell| cell.role == Role::Subject && cell.profile);
    let profiled: Vec<_> = profiled.map(like).collect();
    for echo in cells.iter_mut().filter(|cell| cell.role == Role::EchoCeiling) {
        echo.profile = !echo.is_elsewhere() && profiled.contains(&like(echo));
    }
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
        mark(&mut cells, false);
        let marked = |cells: &[Cell]| cells.iter().map(|cell| cell.profile).collect::<Vec<bool>>();
        assert_eq!(marked(&cells), [false, true, false, false, true, false]);
        mark(&mut cells, true);
        assert_eq!(marked(&cells), [false, true, false, true, true, true]);
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
