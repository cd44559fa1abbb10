//! A comparison in words: first a table of the verdicts, then a sentence for each verdict with its evidence.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use kqps_observation::visible::visible_line;
use kqps_verdict::change::within;
use kqps_verdict::compare::{Comparison, Outcome};

use super::condition::Condition;
use super::table;

/// The whole output: a table of all verdicts, then the evidence of each. Every sentence appears once.
pub(super) fn output(comparisons: &[Comparison], report: Option<&Path>) -> String {
    let mut said = PrintedSentences::default();
    let mut text = table::verdicts(comparisons);
    for comparison in comparisons {
        text.push('\n');
        text += &of_one(comparison, &mut said);
    }
    let doubts = comparisons.iter().flat_map(|one| &one.case.doubts[one.case.refusals as usize..]);
    let mut warnings = String::new();
    for news in doubts.filter_map(|doubt| said.news(doubt)) {
        let _ = writeln!(warnings, "Warning: {}.", visible_line(&news));
    }
    if !warnings.is_empty() {
        let _ = write!(text, "\n{warnings}");
    }
    if comparisons.len() > 1 {
        let _ = writeln!(
            text,
            "\n{} comparisons were made together, so each must be surer (Holm): of all such sets at most 5 % claim a \
             difference that is not there.",
            comparisons.len()
        );
    }
    if let Some(report) = report {
        let report = report.to_string_lossy();
        let _ = writeln!(text, "\nThe full report, with every trial: {}", visible_line(&report));
    }
    text
}

/// The sentences that were printed already. Advice for one side or figure is not repeated for the next.
#[derive(Default)]
struct PrintedSentences(BTreeSet<String>);

impl PrintedSentences {
    /// The sentences of `text` that were not printed yet, without the last full stop; `None` if all were.
    fn news(&mut self, text: &str) -> Option<String> {
        let sentences = text.trim_end_matches('.').split(". ");
        let news: Vec<&str> = sentences.filter(|sentence| self.0.insert((*sentence).to_string())).collect();
        (!news.is_empty()).then(|| news.join(". "))
    }
}

/// A warning that conditions could not be judged: comparisons are inconclusive, or see no difference as small as a
/// condition asks for. `None` if every condition was judged; an inconclusive comparison is no matter of this if a
/// condition asks for inconclusive ones. `may_pass` is the user's `--allow-inconclusive`.
pub(super) fn nothing_shown(
    comparisons: &[Comparison],
    conditions: &[Condition],
    may_pass: bool,
) -> Option<String> {
    let asks_for_them = conditions.iter().any(Condition::is_inconclusive);
    let is_open = |one: &&Comparison| {
        let is_asked_for = asks_for_them && one.outcome == Outcome::Inconclusive;
        !is_asked_for && conditions.iter().any(|condition| condition.is_open(one))
    };
    let unshown = comparisons.iter().filter(is_open).count();
    if unshown == 0 {
        return None;
    }
    let then = if may_pass {
        "--allow-inconclusive lets them pass"
    } else {
        "that counts as failed; to let them pass add --allow-inconclusive"
    };
    Some(format!(
        "{unshown} of {} comparisons are inconclusive or too coarse for the condition, so --fail-on cannot be judged \
         for them: {then}.",
        comparisons.len()
    ))
}

/// A warning that an "equivalent" verdict could hide a difference that a condition without a share asks for, since some
/// difference is always too small to show. `None` without such a condition or verdict.
pub(super) fn too_coarse(comparisons: &[Comparison], conditions: &[Condition]) -> Option<String> {
    let equals = comparisons.iter().filter(|one| one.outcome == Outcome::Equivalent);
    let mde = equals.filter_map(|one| one.mde).max_by(f64::total_cmp)?;
    let is_any = |one: &Condition| !one.is_inconclusive() && one.least_seen().is_none();
    conditions.iter().any(is_any).then(|| {
        format!(
            "Equivalent means equal within {} here, so a smaller difference might not have shown. What would help: \
             more blocks, or a quieter host.",
            within(mde, 2)
        )
    })
}

fn of_one(comparison: &Comparison, said: &mut PrintedSentences) -> String {
    let mut text = format!("{comparison}\n");
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "  {label:<8} {value}");
    };
    for refusal in &comparison.case.doubts[..comparison.case.refusals as usize] {
        if let Some(news) = said.news(refusal) {
            line("because", format!("{news}."));
        }
    }
    if let Some(news) = comparison.caveat().and_then(|caveat| said.news(&caveat)) {
        line("but", format!("{news}."));
    }
    line("blocks", blocks(comparison));
    text
}

fn blocks(comparison: &Comparison) -> String {
    let (made, same) = (comparison.case.blocks.len(), comparison.case.same.len());
    let of_whom = if comparison.case.same_of_both { "A and B, each" } else { "A" };
    let mut text = format!("{made}, and {same} of {of_whom} against itself");
    if !comparison.outlying.is_empty() {
        let numbers: Vec<String> = comparison.outlying.iter().map(|block| (block + 1).to_string()).collect();
        let _ = write!(text, "; far from the others, and counted: {}", numbers.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_verdict::compare::{Case, compare};
    use kqps_verdict::interval::Interval;

    fn conditions(words: &[&str]) -> Vec<Condition> {
        words.iter().map(|word| word.parse().unwrap()).collect()
    }

    #[test]
    fn a_condition_that_nothing_was_shown_for_says_so() {
        let alike = || (0..6).map(|block| 1.0 + f64::from(block % 2) / 1e3).collect();
        let shown = Case { blocks: alike(), same: alike(), ..Case::default() };
        let doubts = vec!["the player was the limit".to_owned(), "it was late".to_owned()];
        let refused = Case { doubts, refusals: 1, ..shown.clone() };
        let both = compare(&[shown, refused]);
        assert_eq!([both[0].outcome, both[1].outcome], [Outcome::Equivalent, Outcome::Inconclusive]);

        let said = nothing_shown(&both, &conditions(&["slower:2%"]), false).unwrap();
        assert!(said.starts_with("1 of 2 comparisons are inconclusive"), "{said}");
        assert!(said.contains("counts as failed"), "{said}");
        let said = nothing_shown(&both, &conditions(&["slower:2%"]), true).unwrap();
        assert!(said.ends_with("--allow-inconclusive lets them pass."), "{said}");
        assert_eq!(nothing_shown(&both, &conditions(&["slower", "inconclusive"]), false), None);
        assert_eq!(nothing_shown(&both, &[], false), None);
        assert_eq!(nothing_shown(&both[..1], &conditions(&["slower"]), false), None);

        // The MDE is 0.18 %.
        for any in ["slower", "faster", "different"] {
            let warning = too_coarse(&both, &conditions(&[any, "slower:2%"])).unwrap();
            assert!(warning.contains("within ± 0.18 % here, so a smaller difference might"), "{warning}");
        }
        for enough in [&["slower:2%", "faster:0.1%"][..], &["inconclusive"], &[]] {
            assert_eq!(too_coarse(&both, &conditions(enough)), None, "{enough:?}");
        }
        assert_eq!(too_coarse(&both[1..], &conditions(&["slower:0.1%"])), None);
        let words = output(&both[1..], None);
        assert!(words.contains("  because  the player was the limit.\n"), "{words}");
        assert!(words.contains("Warning: it was late.") && !words.contains("Warning: the player"), "{words}");
    }

    /// For cells of a stored run, both sides are compared with themselves.
    #[test]
    fn it_names_the_side_that_was_compared_with_itself() {
        for (same_of_both, blocks) in
            [(false, "6, and 4 of A against itself"), (true, "6, and 4 of A and B, each against itself")]
        {
            let blocks_of = |count: usize| vec![1.0; count];
            let case = Case { blocks: blocks_of(6), same: blocks_of(4), same_of_both, ..Case::default() };
            let words = output(&compare(&[case]), None);
            assert!(words.contains(blocks), "{words}");
        }
    }

    /// Both sides and both figures have the same noise, and the same advice helps.
    #[test]
    fn advice_is_given_once() {
        let alike = || (0..6).map(|block| 1.0 + f64::from(block % 2) / 1e3).collect();
        let doubts = [
            "A has a doubtful figure: 3 % were taken. Stop what else runs",
            "B has none. Stop what else runs",
        ];
        let refusals = [
            "the player was the limit of A. Give it more cores",
            "the player was the limit of B. Give it more cores",
        ];
        let all: Vec<String> = refusals.iter().chain(&doubts).map(ToString::to_string).collect();
        let case = Case { blocks: alike(), same: alike(), doubts: all, refusals: 2, ..Case::default() };
        let words = output(&compare(&[case.clone(), case]), None);
        for once in
            ["Give it more cores", "Stop what else runs", "limit of A", "limit of B", "3 % were taken"]
        {
            assert_eq!(words.matches(once).count(), 1, "{once}: {words}");
        }
    }

    /// The interval of B reaches from 15 to 25 % slower, and 20 % are asked for.
    #[test]
    fn a_claim_that_may_be_above_or_below_the_share_is_not_judged_if_the_mde_is_above_it() {
        let judged = |by: &str, mde: f64| {
            let ratio = Interval { low: 0.75, median: 0.8, high: 0.85, coverage: 0.95, count: 6 };
            let slower = Comparison {
                outcome: Outcome::Slower,
                ratio: Some(ratio),
                mde: Some(mde),
                ..compare(&[Case::default()]).remove(0)
            };
            nothing_shown(&[slower], &conditions(&[by]), false).is_some()
        };
        assert!(judged("slower:20%", 0.3) && judged("different:20%", 0.3));
        assert!(!judged("slower:20%", 0.1), "the MDE is below the share");
        assert!(!judged("slower:10%", 0.3), "the condition holds");
        assert!(!judged("slower:26%", 0.3), "the whole interval is below the share");
        assert!(!judged("faster:20%", 0.3) && !judged("slower", 0.3));
    }

    /// B is 18 % slower in every block, and A differs from itself by more.
    #[test]
    fn equals_with_a_visible_difference_say_that_it_is_not_detectable() {
        let around = |middle: f64, by: f64| -> Vec<f64> {
            (0..6).map(|block| middle + by * f64::from(block % 2 * 2 - 1)).collect()
        };
        let case = Case {
            a: "old".into(),
            b: "new".into(),
            blocks: around(0.82, 0.01),
            same: around(1.0, 0.2),
            ..Case::default()
        };
        let one = &compare(&[case])[0];
        assert_eq!(one.outcome, Outcome::Inconclusive);
        let words = output(std::slice::from_ref(one), None);
        assert!(words.contains("of new and old cannot see a difference of less than 45.1 %;"), "{words}");
        assert!(words.contains("  but      new has 18.0 % less answered rate than old, with"), "{words}");
        assert!(words.contains("a difference of this size is not detectable here.\n"), "{words}");
    }
}
