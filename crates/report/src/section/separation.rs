//! Whether the hosts of a run are machines apart, as the numbers of their boots in its trials show.

use std::collections::BTreeSet;

use kqps_observation::{HostFacts, Run, RunTrial, Trial};

use crate::format;

/// How far the players of a run were from its subjects and from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// No trial shows it.
    Unknown,
    /// In every trial each player had a machine of its own, which was not the subjects'.
    Each,
    /// Players shared a machine, which was not the subjects'.
    FromSubjects,
    /// A player was on the subjects' machine, or is not known to have been on another one.
    Not,
}

impl Apart {
    /// Judges all trials of a run together.
    pub(crate) fn of_run(run: &Run) -> Self {
        let measured = run.trials.iter().filter_map(RunTrial::measured);
        let played: Vec<&Trial> = measured.filter(|trial| !trial.parts.is_empty()).collect();
        let is_beside = |trial: &Trial| (0..trial.parts.len()).any(|player| trial.is_beside_subject(player));
        if played.is_empty() {
            Self::Unknown
        } else if played.iter().any(|trial| is_beside(trial)) {
            Self::Not
        } else if played.iter().any(|trial| do_players_share(trial)) {
            Self::FromSubjects
        } else {
            Self::Each
        }
    }

    /// This many players and where they were, after the name of the subjects' host.
    pub(crate) fn line(self, players: usize) -> String {
        let count = format::counted(players, "player");
        match (self, players) {
            (Self::Unknown, _) => count,
            (Self::Each, 1) => format!("{count} on another host"),
            (Self::Each, _) => format!("{count} on hosts of their own"),
            (Self::FromSubjects, _) => format!("{count} on other hosts, some of which are one machine"),
            (Self::Not, 1) => format!("{count}, not known to be on another machine"),
            (Self::Not, _) => format!("{count}, not all known to be on other machines"),
        }
    }

    /// Where each player was, as the end of a sentence.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::Unknown => "on a host of this list",
            Self::Each => "on a host of its own",
            Self::FromSubjects => "on a host of this list, some of which are one machine",
            Self::Not => {
                "on a host of this list, not all of which are known to be other machines than the server"
            }
        }
    }
}

/// Whether two players of a trial were on one machine.
fn do_players_share(trial: &Trial) -> bool {
    let hosts = trial.hosts.iter().take(trial.parts.len());
    let boots: Vec<&String> = hosts.filter_map(|host: &HostFacts| host.boot_id.as_ref()).collect();
    boots.iter().collect::<BTreeSet<_>>().len() < boots.len()
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::{Outcome, Purpose};
    use kqps_observation::{NonEmpty, PlayerPart};

    use super::*;

    /// A run with one trial of two players. The boots are those of their hosts and of the subject's.
    fn run(boots: [Option<&str>; 3]) -> Run {
        let [first, others @ ..] =
            boots.map(|boot| HostFacts { boot_id: boot.map(str::to_owned), ..HostFacts::default() });
        let trial = Trial {
            parts: vec![PlayerPart::default(); 2],
            hosts: NonEmpty { first, others: others.into() },
            ..Trial::default()
        };
        let outcome = Outcome::Measured(Box::new(trial));
        let one = RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose: Purpose::Rate, outcome };
        Run { trials: vec![one], ..Run::default() }
    }

    #[test]
    fn only_boots_that_differ_are_called_hosts_of_their_own() {
        let of = |boots| Apart::of_run(&run(boots));
        assert_eq!(of([Some("a"), Some("b"), Some("s")]), Apart::Each);
        assert_eq!(of([Some("a"), Some("a"), Some("s")]), Apart::FromSubjects);
        assert_eq!(of([Some("a"), Some("s"), Some("s")]), Apart::Not);
        assert_eq!(of([Some("a"), Some("b"), None]), Apart::Not);
        assert_eq!(Apart::of_run(&Run::default()), Apart::Unknown);
    }

    #[test]
    fn what_is_not_apart_is_not_called_so() {
        assert_eq!(Apart::Each.line(1), "1 player on another host");
        assert_eq!(Apart::Each.line(2), "2 players on hosts of their own");
        for apart in [Apart::Unknown, Apart::FromSubjects, Apart::Not] {
            let words = format!("{} {}", apart.line(2), apart.place());
            assert!(!words.contains("of their own") && !words.contains("of its own"), "{words}");
        }
    }
}
