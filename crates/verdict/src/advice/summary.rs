//! The advice for a whole run, or for one search: each action once, with the servers that need it.

use super::{Action, Advice};
use crate::grade::Grade;
use crate::judge::{CellVerdict, SearchVerdict};

/// An action and the servers that need it.
#[derive(Clone, Debug, PartialEq)]
pub struct AdviceFor {
    /// The action.
    pub action: Action,
    /// The gravest reason for the action, as in [`Advice::gravity`].
    pub gravity: u8,
    /// The names of the servers.
    pub whom: Vec<String>,
}

/// The actions for these figures, each once. The gravest come first, then those that concern most servers. The
/// reason for a refused figure is left out, since the report prints it with its advice in place of the figure.
pub fn of_subjects(subjects: &[CellVerdict]) -> Vec<AdviceFor> {
    let mut all = Vec::new();
    for subject in subjects {
        add(&mut all, &subject.name, subject.grade, &subject.advice);
    }
    in_order(all)
}

/// The actions for one search, as [`of_subjects`] orders them.
pub fn of_search(verdict: &SearchVerdict) -> Vec<AdviceFor> {
    let mut all = Vec::new();
    add(&mut all, "the server", verdict.grade, &verdict.advice);
    in_order(all)
}

fn add(all: &mut Vec<AdviceFor>, name: &str, grade: Grade, advice: &[Option<Advice>]) {
    let in_place = usize::from(grade.refuses());
    for advice in advice.iter().skip(in_place).flatten() {
        let at = all.iter().position(|one| one.action == advice.action).unwrap_or_else(|| {
            all.push(AdviceFor { action: advice.action, gravity: advice.gravity, whom: Vec::new() });
            all.len() - 1
        });
        all[at].gravity = all[at].gravity.min(advice.gravity);
        if !all[at].whom.iter().any(|other| other == name) {
            all[at].whom.push(name.to_owned());
        }
    }
}

fn in_order(mut all: Vec<AdviceFor>) -> Vec<AdviceFor> {
    all.sort_by_key(|one| (one.gravity, std::cmp::Reverse(one.whom.len()), one.action));
    all
}

/// A sentence names up to this many servers and counts more of them.
const NAMED: usize = 3;

impl AdviceFor {
    /// A sentence of advice. `measured` is the number of servers in the run: if all of them need the action, it says
    /// "all servers".
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
        let sentences: Vec<String> = of_subjects(&subjects).iter().map(|one| one.sentence(3)).collect();
        let expected = [
            "Switch off the limit on the responses of bind.",
            "Measure nsd and knot for longer: more trials and starts bring closer ranges.",
            "Stop what else runs on this host, or use a machine of your own.",
            "Warm knot up for longer.",
        ];
        assert_eq!(sentences, expected);
    }

    #[test]
    fn why_a_figure_is_refused_is_not_repeated() {
        let refused = subject("nsd", Grade::F, &[(0, Action::CheckZones), (4, Action::QuietHost)]);
        let actions: Vec<Action> = of_subjects(&[refused]).iter().map(|one| one.action).collect();
        assert_eq!(actions, [Action::QuietHost]);
    }

    #[test]
    fn many_servers_are_counted_and_all_are_called_so() {
        let advice = |whom: u32| AdviceFor {
            action: Action::WarmUp,
            gravity: 4,
            whom: (1..=whom).map(|number| format!("s{number}")).collect(),
        };
        assert_eq!(advice(1).sentence(1), "Warm s1 up for longer.");
        assert_eq!(advice(3).sentence(9), "Warm s1, s2 and s3 up for longer.");
        assert_eq!(advice(4).sentence(9), "Warm 4 servers up for longer.");
        assert_eq!(advice(4).sentence(4), "Warm all servers up for longer.");
    }
}
