//! What is said first of the doubts in figures: what to do about them, in three sentences at most, and how to see the rest.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kqps_observation::visible::visible_line;
use kqps_verdict::advice::{Action, Told};

/// As many sentences are said.
const MOST: usize = 3;

/// Reasons, each with what it asks for.
pub(crate) type Reasons<'a> = Vec<(&'a str, Option<Action>)>;

/// The gravest advice, and how many reasons are left, which `command` prints. Without one they are printed in any case.
pub(crate) fn of(told: &[Told], measured: usize, reasons: &Reasons<'_>, command: Option<&str>) -> String {
    let told = &told[..told.len().min(MOST)];
    let mut text = String::new();
    if !told.is_empty() {
        text += "What would help:\n";
    }
    for one in told {
        let _ = writeln!(text, "- {}", visible_line(&one.sentence(measured)));
    }
    let is_told = |action: &Option<Action>| told.iter().any(|one| Some(one.action) == *action);
    let left = reasons.iter().filter(|(_, action)| !is_told(action)).map(|(reason, _)| *reason);
    let left = left.collect::<BTreeSet<_>>().len();
    if let Some(command) = command.filter(|_| left > 0) {
        let (reasons, them) = if left == 1 { ("reason", "it") } else { ("reasons", "them") };
        let _ = writeln!(text, "{left} further {reasons}: {} prints {them}.", visible_line(command));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_sentences_at_most_and_a_count_of_what_is_left() {
        let of_action = |action| Told { action, gravity: 1, whom: vec!["nsd".into()] };
        let actions = [Action::LiftLimit, Action::QuietHost, Action::WarmUp, Action::FixClock];
        let told = actions.map(of_action);
        let reasons =
            vec![("a", Some(Action::LiftLimit)), ("b", Some(Action::FixClock)), ("c", None), ("c", None)];
        let said = of(&told, 2, &reasons, Some("`kqps run --why`"));
        let expected = "What would help:\n- Switch off the limit on the responses of nsd.\n\
                        - Stop what else runs on this host, or use a machine of your own.\n- Warm nsd up for longer.\n\
                        2 further reasons: `kqps run --why` prints them.\n";
        assert_eq!(said, expected);
        assert!(!of(&told, 2, &reasons, None).contains("further"));
        assert_eq!(of(&[], 1, &vec![("c", None)], Some("x")), "1 further reason: x prints it.\n");
        assert_eq!(of(&[], 1, &vec![], Some("x")), "");
    }
}
