//! What to do about the doubts in the figures of a run: the few sentences that a reader should see first. The
//! reason of each doubt states it in full. Here, doubts that ask for the same action share one sentence.

use serde::{Deserialize, Serialize};

use crate::grade::Grade;
use crate::judge::{CellVerdict, SearchVerdict};
use crate::warning::Code;

/// An action that removes a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Check that the zones fit the queries.
    CheckZones,
    /// Switch off rate limits on responses.
    LiftLimit,
    /// Find out why the kernel refused to send.
    CheckRoute,
    /// Give the player more threads.
    MoreThreads,
    /// Keep other work off the player's cores.
    PinPlayer,
    /// Give the player more sockets or larger receive buffers.
    MoreSockets,
    /// Put the player and the subject on separate cores.
    PinApart,
    /// State which cores the subject uses, or confine it to them.
    SayCores,
    /// Play from another host.
    SecondHost,
    /// Stop other programs on this host.
    QuietHost,
    /// Fix the clock of the cores.
    FixClock,
    /// Use more sockets, so that flows spread over the subject's workers.
    SpreadFlows,
    /// Warm up for longer.
    WarmUp,
    /// Let the search try greater loads.
    GreaterLoads,
    /// Look for a packet filter or a rate limit that drops queries.
    FindFilter,
    /// Measure an echo as well.
    MeasureEcho,
    /// Give the run more time. It then makes more starts and finds closer bounds.
    MoreTime,
}

/// The action that one reason for a grade asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Advice {
    /// How grave the reason is: 0 refuses the figure, and 5 leaves the grade as it is.
    pub gravity: u8,
    /// The action that removes the reason.
    pub action: Action,
}

impl Action {
    /// The action that a warning asks for.
    pub(crate) fn of_warning(code: Code) -> Self {
        match code {
            Code::WrongAnswers => Self::CheckZones,
            Code::RateLimited => Self::LiftLimit,
            Code::PlayerLimited => Self::MoreThreads,
            Code::Lagging => Self::PinPlayer,
            Code::SendFailed => Self::CheckRoute,
            Code::ClientDrops => Self::MoreSockets,
            Code::SharedCores => Self::PinApart,
            Code::SubjectCores => Self::SayCores,
            Code::SingleHost => Self::SecondHost,
            Code::NoisyHost => Self::QuietHost,
            Code::Uneven => Self::SpreadFlows,
            Code::Drifted | Code::NoSteadyState => Self::WarmUp,
            Code::Irregular => Self::GreaterLoads,
            Code::UnexplainedLoss => Self::FindFilter,
            Code::Canary => Self::FixClock,
        }
    }

    /// One sentence of advice. `whom` names the servers that it concerns.
    pub fn sentence(self, whom: &str) -> String {
        match self {
            Self::CheckZones => {
                format!("Check the zones of {whom}, and which answers the query file expects.")
            }
            Self::LiftLimit => format!("Switch off the limit on the responses of {whom}."),
            Self::CheckRoute => {
                format!(
                    "Find out why the kernel refuses to send to {whom}: look at routes and packet filters."
                )
            }
            Self::MoreThreads => "Give the player more threads on cores of their own.".into(),
            Self::PinPlayer => "Keep other work and interrupts off the player's cores.".into(),
            Self::MoreSockets => "Give the player more sockets, or larger buffers for them.".into(),
            Self::PinApart => format!("Give the player other cores than {whom}."),
            Self::SayCores => format!("Say which cores {whom} may use, or confine it to those (taskset)."),
            Self::SecondHost => "Play from a second host for rates that hold elsewhere.".into(),
            Self::QuietHost => "Stop what else runs on this host, or use a machine of your own.".into(),
            Self::FixClock => "Fix the clock of the cores: governor performance, no turbo.".into(),
            Self::SpreadFlows => {
                format!("Use more sockets, so that queries spread over the workers of {whom}.")
            }
            Self::WarmUp => format!("Warm {whom} up for longer."),
            Self::GreaterLoads => format!("Let the search try greater loads at {whom}."),
            Self::FindFilter => {
                format!("Look for a packet filter before {whom}, or a limit on the rate of responses.")
            }
            Self::MeasureEcho => {
                format!("Measure an echo beside {whom}, which shows whether the player was the limit.")
            }
            Self::MoreTime => {
                format!("Measure {whom} for longer: more trials and starts bring closer ranges.")
            }
        }
    }
}

/// One action and the servers that need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The action.
    pub action: Action,
    /// The gravest reason for the action, as in [`Advice::gravity`].
    pub gravity: u8,
    /// The names of the servers.
    pub whom: Vec<String>,
}

/// The actions for these figures, each once. The gravest come first, then those that concern most servers. The
/// reason for a refused figure is left out, since the report prints it with its advice in place of the figure.
pub fn of_subjects(subjects: &[CellVerdict]) -> Vec<Told> {
    let mut all = Vec::new();
    for subject in subjects {
        add(&mut all, &subject.name, subject.grade, &subject.advice);
    }
    in_order(all)
}

/// The actions for one search, as [`of_subjects`] orders them.
pub fn of_search(verdict: &SearchVerdict) -> Vec<Told> {
    let mut all = Vec::new();
    add(&mut all, "the server", verdict.grade, &verdict.advice);
    in_order(all)
}

fn add(all: &mut Vec<Told>, name: &str, grade: Grade, advice: &[Option<Advice>]) {
    let in_place = usize::from(grade.refuses());
    for advice in advice.iter().skip(in_place).flatten() {
        let at = all.iter().position(|told| told.action == advice.action).unwrap_or_else(|| {
            all.push(Told { action: advice.action, gravity: advice.gravity, whom: Vec::new() });
            all.len() - 1
        });
        all[at].gravity = all[at].gravity.min(advice.gravity);
        if !all[at].whom.iter().any(|other| other == name) {
            all[at].whom.push(name.to_owned());
        }
    }
}

fn in_order(mut all: Vec<Told>) -> Vec<Told> {
    all.sort_by_key(|told| (told.gravity, std::cmp::Reverse(told.whom.len()), told.action));
    all
}

/// A sentence names up to this many servers and counts more of them.
const NAMED: usize = 3;

impl Told {
    /// One sentence of advice. `measured` is the number of servers in the run: if all of them need the action,
    /// it says "all servers".
    pub fn sentence(&self, measured: usize) -> String {
        let count = self.whom.len();
        let whom = match self.whom.as_slice() {
            _ if count == measured && measured > 1 => "all servers".into(),
            [one] => one.clone(),
            [before @ .., last] if count <= NAMED => format!("{} and {last}", before.join(", ")),
            _ => format!("{count} servers"),
        };
        self.action.sentence(&whom)
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::{Cell, Run};

    use super::*;
    use crate::judge::judge;

    fn subject(name: &str, grade: Grade, advice: &[(u8, Action)]) -> CellVerdict {
        let run = Run { cells: vec![Cell { name: name.into(), ..Cell::default() }], ..Run::default() };
        let of = |&(gravity, action): &(u8, Action)| Some(Advice { gravity, action });
        let plain = judge(&run).subjects.remove(0);
        CellVerdict { grade, advice: advice.iter().map(of).chain([None]).collect(), ..plain }
    }

    #[test]
    fn the_gravest_comes_first_and_each_once() {
        let subjects = [
            subject("nsd", Grade::C, &[(1, Action::MoreTime), (4, Action::QuietHost)]),
            subject("knot", Grade::C, &[(4, Action::QuietHost), (4, Action::WarmUp), (5, Action::MoreTime)]),
            subject("bind", Grade::C, &[(0, Action::LiftLimit)]),
        ];
        let told: Vec<String> = of_subjects(&subjects).iter().map(|told| told.sentence(3)).collect();
        let expected = [
            "Switch off the limit on the responses of bind.",
            "Measure nsd and knot for longer: more trials and starts bring closer ranges.",
            "Stop what else runs on this host, or use a machine of your own.",
            "Warm knot up for longer.",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn why_a_figure_is_refused_is_not_repeated() {
        let refused = subject("nsd", Grade::F, &[(0, Action::CheckZones), (4, Action::QuietHost)]);
        let actions: Vec<Action> = of_subjects(&[refused]).iter().map(|told| told.action).collect();
        assert_eq!(actions, [Action::QuietHost]);
    }

    #[test]
    fn many_servers_are_counted_and_all_are_called_so() {
        let told = |whom: u32| Told {
            action: Action::WarmUp,
            gravity: 4,
            whom: (1..=whom).map(|number| format!("s{number}")).collect(),
        };
        assert_eq!(told(1).sentence(1), "Warm s1 up for longer.");
        assert_eq!(told(3).sentence(9), "Warm s1, s2 and s3 up for longer.");
        assert_eq!(told(4).sentence(9), "Warm 4 servers up for longer.");
        assert_eq!(told(4).sentence(4), "Warm all servers up for longer.");
    }
}
