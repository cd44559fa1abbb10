//! The first words about doubts in figures: what to do, in two sentences at most, and the command that prints the
//! rest.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kqps_observation::visible::visible_line;
use kqps_testbed::words::counted;
use kqps_verdict::advice::Action;
use kqps_verdict::advice::summary::AdviceFor;

const MOST: usize = 2;

/// Reasons, each with the action that it asks for.
pub(crate) type Reasons<'a> = Vec<(&'a str, Option<Action>)>;

/// The gravest advice, then the number of reasons that it does not cover, which `command` prints. Without
/// `command` there is no such line, since the caller prints every reason.
pub(crate) fn text(
    advice: &[AdviceFor],
    measured: usize,
    reasons: &Reasons<'_>,
    command: Option<&str>,
) -> String {
    let advice = &advice[..advice.len().min(MOST)];
    let mut text = String::new();
    if !advice.is_empty() {
        text += "What would help:\n";
    }
    for one in advice {
        let _ = writeln!(text, "- {}", visible_line(&one.sentence(measured)));
    }
    let is_covered = |action: &Option<Action>| advice.iter().any(|one| Some(one.action) == *action);
    let left = reasons.iter().filter(|(_, action)| !is_covered(action)).map(|(reason, _)| *reason);
    let left = left.collect::<BTreeSet<_>>().len();
    if let Some(command) = command.filter(|_| left > 0) {
        let left = counted(left as u64, "further reason");
        let _ = writeln!(text, "Bounds, ceilings and {left}: {}", visible_line(command));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sentences_at_most_and_a_count_of_what_is_left() {
        let of_action = |action| AdviceFor { action, gravity: 1, whom: vec!["nsd".into()] };
        let actions = [Action::LiftLimit, Action::QuietHost, Action::WarmUp, Action::FixClock];
        let advice = actions.map(of_action);
        let reasons =
            vec![("a", Some(Action::LiftLimit)), ("b", Some(Action::FixClock)), ("c", None), ("c", None)];
        let said = text(&advice, 2, &reasons, Some("`kqps run --why`"));
        let expected = "What would help:\n- Switch off the limit on the responses of nsd.\n\
                        - Stop what else runs on this host, or use a machine of your own.\n\
                        Bounds, ceilings and 2 further reasons: `kqps run --why`\n";
        assert_eq!(said, expected);
        assert!(!text(&advice, 2, &reasons, None).contains("further"));
        assert_eq!(text(&[], 1, &vec![("c", None)], Some("x")), "Bounds, ceilings and 1 further reason: x\n");
        assert_eq!(text(&[], 1, &vec![], Some("x")), "");
    }
}
