//! What follows if a trial over several hosts fails. A function of the failure and of those before it.

use crate::trial_request::NoTrial;

/// A trial that a player's host spoiled is repeated at most this often.
const REPEATS_MOST: u32 = 2;

/// Why a trial over several hosts gave no record.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The user ended the run.
    Interrupted,
    /// A player was lost or late, or its record is missing, so that the trial is void. Another attempt may succeed.
    Player {
        /// The name of the player's host.
        host: String,
        /// What happened there, as the rest of a sentence about it.
        what: String,
        /// The last lines of its output.
        output: Vec<String>,
    },
    /// The subject ended, or its host was lost, so that no further trial of this start is possible.
    Subject {
        /// The reason, as a sentence without its full stop.
        reason: String,
        /// The last lines of the subject's output.
        output: Vec<String>,
    },
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Decision {
    /// Reach the lost hosts again, and repeat the trial.
    Repeat,
    /// Give it up, with this result.
    End(NoTrial),
}

/// The decision after an attempt, counted from 1.
pub(super) fn after(trouble: Trouble, attempt: u32) -> Decision {
    match trouble {
        Trouble::Interrupted => Decision::End(NoTrial::Interrupted),
        Trouble::Subject { reason, output } => Decision::End(NoTrial::Failed { reason, output }),
        Trouble::Player { .. } if attempt <= REPEATS_MOST => Decision::Repeat,
        Trouble::Player { host, what, output } => {
            let reason =
                format!("the player on {host} {what}; that made {attempt} trials in succession void");
            Decision::End(NoTrial::Failed { reason, output })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_player() -> Trouble {
        Trouble::Player { host: "p2".into(), what: "began 12 ms late".into(), output: vec!["a line".into()] }
    }

    #[test]
    fn a_player_is_tried_three_times_and_then_named() {
        assert!([1, 2].into_iter().all(|attempt| matches!(after(of_player(), attempt), Decision::Repeat)));
        let Decision::End(NoTrial::Failed { reason, output }) = after(of_player(), 3) else {
            panic!("it goes on for ever")
        };
        let expected = "the player on p2 began 12 ms late; that made 3 trials in succession void";
        assert_eq!((reason.as_str(), output), (expected, vec!["a line".to_owned()]));
    }

    #[test]
    fn a_subject_that_is_gone_and_a_user_who_ends_the_run_are_not_tried_again() {
        let gone = Trouble::Subject { reason: "nsd ended with status 7".into(), output: Vec::new() };
        let Decision::End(NoTrial::Failed { reason, .. }) = after(gone, 1) else { panic!("it is repeated") };
        assert_eq!(reason, "nsd ended with status 7");
        assert!(matches!(after(Trouble::Interrupted, 1), Decision::End(NoTrial::Interrupted)));
    }
}
