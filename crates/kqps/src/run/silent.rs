//! Runs in which no server answered. If kqps starts the servers, each is a subject with a refused figure. If
//! all of them ran before, the command could not do its work, as with `kqps load`.

use kqps_observation::run::Role;
use kqps_observation::{Run, RunTrial};

/// Why nothing was measured: every subject is a server that ran before, and none of them answered. `None` in
/// any other case.
pub(super) fn why_nothing(run: &Run) -> Option<&str> {
    let subjects = run.cells.iter().filter(|cell| cell.role == Role::Subject);
    if !subjects.into_iter().all(|cell| cell.target.is_some()) {
        return None;
    }
    let of_subjects = || run.trials.iter().filter(|one| run.cells[one.cell as usize].role == Role::Subject);
    if of_subjects().any(has_answer) {
        return None;
    }
    of_subjects().find_map(RunTrial::failure)
}

fn has_answer(trial: &RunTrial) -> bool {
    trial.measured().is_some_and(|trial| {
        let accounts = &trial.accounts;
        accounts.correct + accounts.wrong + accounts.late > 0
    })
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::{Cell, Outcome, Purpose};
    use kqps_observation::{Accounts, Target, Trial};

    use super::*;

    const SILENT: &str = "No reply came";

    fn trial(cell: u32, outcome: Outcome) -> RunTrial {
        RunTrial { number: 1, cell, block: 0, start: 1, purpose: Purpose::Search, outcome }
    }

    fn silent(cell: u32) -> RunTrial {
        trial(cell, Outcome::Failed { reason: SILENT.into(), output: Vec::new() })
    }

    fn answered(cell: u32, accounts: Accounts) -> RunTrial {
        trial(cell, Outcome::Measured(Box::new(Trial { accounts, ..Trial::default() })))
    }

    #[test]
    fn nothing_was_measured_where_all_subjects_ran_before_and_none_answered() {
        let target = Target { address: "192.0.2.1:53".parse().unwrap(), on_this_host: false };
        let ran_before = || Cell { target: Some(target), ..Cell::default() };
        let ceiling = Cell { role: Role::PlayerCeiling, ..Cell::default() };
        let why = |cells: &[Cell], trials: &[RunTrial]| {
            let run = Run { cells: cells.to_vec(), trials: trials.to_vec(), ..Run::default() };
            why_nothing(&run).map(str::to_owned)
        };
        let both = [ran_before(), ran_before(), ceiling];
        let echo = answered(2, Accounts { correct: 9, ..Accounts::default() });
        assert_eq!(why(&both, &[silent(0), silent(1), echo.clone()]).as_deref(), Some(SILENT));
        for accounts in [
            Accounts { correct: 1, ..Accounts::default() },
            Accounts { wrong: 1, ..Accounts::default() },
            Accounts { late: 1, ..Accounts::default() },
        ] {
            assert_eq!(why(&both, &[silent(0), answered(1, accounts), echo.clone()]), None);
        }
        assert_eq!(why(&both, &[echo]), None, "no subject had its turn");
        assert_eq!(why(&[ran_before(), Cell::default()], &[silent(0), silent(1)]), None, "one was started");
    }
}
