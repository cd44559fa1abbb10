//! The decision after a trial over several hosts failed. A function of the failure and of those before it.

use kqps_observation::Trial;

use super::member::Fault;
use kqps_testbed::trial_request::NoTrial;

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
        /// The event there, as the rest of a sentence about the player.
        what: String,
        /// The last lines of its output.
        output: Vec<String>,
    },
    /// A player got no reply, neither in this trial nor in any before. If that stays so, no trial can be played by it.
    Deaf {
        /// The name of the player's host.
        host: String,
        /// The event there, as the rest of a sentence about the player.
        what: String,
    },
    /// The counters of the subjects' host were read too late by its clock, so that the trial is void. Another attempt
    /// may succeed.
    Watch {
        /// The name of the subjects' host.
        host: String,
        /// The event there, as the rest of a sentence about the host.
        what: String,
    },
    /// The subjects' host was lost, and the subject with it, which says nothing about the subject.
    Server {
        /// The reason, as a sentence without its full stop.
        reason: String,
    },
    /// A host that was lost could not be reached again: the reason, as a sentence without its full stop.
    Unreachable(String),
    /// The subject ended, so that no further trial of this start is possible.
    Subject {
        /// The reason, as a sentence without its full stop.
        reason: String,
        /// The last lines of the subject's output.
        output: Vec<String>,
    },
}

impl Trouble {
    /// Why the trial is void, as the rest of a sentence; `None` if its failure has another name.
    pub(super) fn voids(&self) -> Option<String> {
        match self {
            Self::Player { host, what, .. } | Self::Deaf { host, what } => {
                Some(format!("the player on {host} {what}"))
            }
            Self::Watch { host, what } => Some(format!("the subject's host {host} {what}")),
            Self::Interrupted | Self::Server { .. } | Self::Unreachable(_) | Self::Subject { .. } => None,
        }
    }
}

/// The next step after an attempt.
#[derive(Debug)]
pub(super) enum Decision {
    /// Reach the lost hosts again, and repeat the trial.
    Repeat,
    /// Give it up, with this result.
    End(NoTrial),
    /// End the run in order, for this reason. It may go on later.
    Leave(String),
}

/// The decision after an attempt, counted from 1.
pub(super) fn after(trouble: Trouble, attempt: u32) -> Decision {
    let void = trouble.voids().unwrap_or_default();
    let too_often = || format!("{void}; that made {attempt} trials in succession void");
    match trouble {
        Trouble::Interrupted => Decision::End(NoTrial::Interrupted),
        Trouble::Subject { reason, output } => Decision::End(NoTrial::Failed { reason, output }),
        Trouble::Server { reason } => Decision::End(NoTrial::Lost { reason }),
        Trouble::Unreachable(why) => Decision::Leave(why),
        Trouble::Player { .. } | Trouble::Deaf { .. } | Trouble::Watch { .. } if attempt <= REPEATS_MOST => {
            Decision::Repeat
        }
        Trouble::Player { output, .. } => Decision::End(NoTrial::Failed { reason: too_often(), output }),
        Trouble::Deaf { .. } => Decision::Leave(format!(
            "{void}; it got no reply in this run so far: check its `data` and `sources`, the server's routes to them, \
             and firewalls"
        )),
        Trouble::Watch { .. } => Decision::End(NoTrial::failed(too_often())),
    }
}

/// The trouble for a trial from the fault of a player's host, which has this name.
pub(super) fn of_player(host: &str, fault: Fault) -> Trouble {
    let (what, output) = match fault {
        Fault::Interrupted => return Trouble::Interrupted,
        Fault::Unreachable(why) => return Trouble::Unreachable(why),
        Fault::Failed { reason, output } => (format!("failed: {reason}"), output),
        fault @ (Fault::Lost(_) | Fault::Late) => (format!("was lost: {}", fault.into_reason()), Vec::new()),
    };
    Trouble::Player { host: host.to_owned(), what, output }
}

/// The trouble for a trial from the fault of the subjects' host, which has this name.
pub(super) fn of_server(host: &str, fault: Fault) -> Trouble {
    match fault {
        Fault::Interrupted => Trouble::Interrupted,
        Fault::Unreachable(why) => Trouble::Unreachable(why),
        Fault::Failed { reason, output } => Trouble::Subject { reason, output },
        fault @ (Fault::Lost(_) | Fault::Late) => {
            Trouble::Server { reason: format!("the subject's host {host} was lost: {}", fault.into_reason()) }
        }
    }
}

/// The player that spoiled a trial, by its index; `None` if each has a record. One that was lost comes before one that
/// failed: the loss of a host may make others fail. One that did not answer in time comes last.
pub(super) fn worst(played: &[Result<Trial, Fault>]) -> Option<usize> {
    let rank = |fault: &Fault| match fault {
        Fault::Interrupted | Fault::Unreachable(_) => 0,
        Fault::Lost(_) => 1,
        Fault::Failed { .. } => 2,
        Fault::Late => 3,
    };
    let faults = played.iter().enumerate().filter_map(|(index, one)| Some((index, one.as_ref().err()?)));
    faults.min_by_key(|(_, fault)| rank(fault)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_faults_that_of_a_lost_host_is_named() {
        let failed = || Err(Fault::Failed { reason: "the trial was interrupted".into(), output: Vec::new() });
        let lost = || Err(Fault::Lost("its connection ended".into()));
        let played = || Ok(Trial::default());
        assert_eq!(worst(&[played(), played()]), None);
        assert_eq!(worst(&[Err(Fault::Late), failed(), lost()]), Some(2));
        assert_eq!(worst(&[Err(Fault::Late), played(), failed()]), Some(2));
        assert_eq!(worst(&[played(), Err(Fault::Late)]), Some(1));
    }

    #[test]
    fn the_loss_of_the_subjects_host_is_no_failure_of_the_subject() {
        let lost = of_server("ns1", Fault::Lost("its connection ended".into()));
        let Decision::End(NoTrial::Lost { reason }) = after(lost, 1) else { panic!("it is a result") };
        assert_eq!(reason, "the subject's host ns1 was lost: its connection ended");
        let late = after(of_server("ns1", Fault::Late), 1);
        assert!(matches!(late, Decision::End(NoTrial::Lost { .. })));
        let died = Fault::Failed { reason: "nsd ended with status 7".into(), output: Vec::new() };
        assert!(matches!(after(of_server("ns1", died), 1), Decision::End(NoTrial::Failed { .. })));
    }

    #[test]
    fn a_host_that_does_not_come_back_ends_the_run_and_fails_nothing() {
        let gone = || Fault::Unreachable("p2 cannot be reached".into());
        for trouble in [super::of_player("p2", gone()), of_server("p2", gone())] {
            assert!(matches!(after(trouble, 3), Decision::Leave(why) if why == "p2 cannot be reached"));
        }
    }

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
    fn a_player_that_hears_nothing_from_the_beginning_ends_the_run() {
        let deaf = || Trouble::Deaf { host: "p2".into(), what: "heard nothing: no reply came".into() };
        assert!([1, 2].into_iter().all(|attempt| matches!(after(deaf(), attempt), Decision::Repeat)));
        let Decision::Leave(why) = after(deaf(), 3) else { panic!("each cell would fail") };
        assert!(why.starts_with("the player on p2 heard nothing: no reply came; "), "{why}");
    }

    #[test]
    fn a_late_reading_is_repeated_as_a_late_player() {
        let late = || Trouble::Watch { host: "ns1".into(), what: "was read 3.0 ms late by its clock".into() };
        assert!([1, 2].into_iter().all(|attempt| matches!(after(late(), attempt), Decision::Repeat)));
        let Decision::End(NoTrial::Failed { reason, .. }) = after(late(), 3) else { panic!("for ever") };
        let expected =
            "the subject's host ns1 was read 3.0 ms late by its clock; that made 3 trials in succession void";
        assert_eq!(reason, expected);
    }

    #[test]
    fn a_subject_that_is_gone_and_a_user_who_ends_the_run_are_not_tried_again() {
        let gone = Trouble::Subject { reason: "nsd ended with status 7".into(), output: Vec::new() };
        let Decision::End(NoTrial::Failed { reason, .. }) = after(gone, 1) else { panic!("it is repeated") };
        assert_eq!(reason, "nsd ended with status 7");
        assert!(matches!(after(Trouble::Interrupted, 1), Decision::End(NoTrial::Interrupted)));
    }
}
