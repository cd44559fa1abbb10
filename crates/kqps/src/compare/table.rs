//! The verdicts of all comparisons as a table, with a row for each figure of each pair.

use std::fmt::Write as _;

use kqps_observation::visible::visible_line;
use kqps_verdict::change::within;
use kqps_verdict::compare::Comparison;

use crate::table;

/// The table, and below it the meaning of its columns.
pub(super) fn verdicts(comparisons: &[Comparison]) -> String {
    let [first, others @ ..] = comparisons else { return String::new() };
    let is_one_pair = others.iter().all(|one| one.case.a == first.case.a && one.case.b == first.case.b);
    let pair: &[&str] = if is_one_pair { &[] } else { &["A", "B"] };
    let mut table = table::titled(pair.iter().chain(&["figure", "B is", "B/A", "interval", "MDE"]));
    for one in comparisons {
        let pair = if is_one_pair {
            Vec::new()
        } else {
            vec![visible_line(&one.case.a).into_owned(), visible_line(&one.case.b).into_owned()]
        };
        table.add_row(pair.into_iter().chain(figures(one)));
    }
    let mut text = String::new();
    if is_one_pair {
        let (a, b) = (visible_line(&first.case.a), visible_line(&first.case.b));
        let _ = writeln!(text, "A is {a}, B is {b}.\n");
    }
    text += &table::text(table, &[pair.len() + 2]);
    text + "\nMDE, the minimum detectable effect: a difference of so much is found in 19 of 20 comparisons like this one.\n"
}

/// The columns: figure, outcome, ratio, interval, MDE.
fn figures(one: &Comparison) -> [String; 5] {
    let unknown = || "-".to_string();
    let ratio = one.ratio.map_or_else(unknown, |ratio| format!("{:.4}", ratio.median));
    // Fewer than six blocks have a ratio and no interval.
    let interval = one.ratio.filter(|ratio| ratio.coverage > 0.0).map_or_else(unknown, |ratio| {
        format!("{:.4} to {:.4} ({:.1} %)", ratio.low, ratio.high, ratio.coverage * 100.0)
    });
    let mde = one.mde.map_or_else(|| "unknown: too few blocks".into(), |mde| within(mde, 2));
    [one.case.figure.to_string(), one.outcome.to_string(), ratio, interval, mde]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_verdict::compare::{Case, Figure, compare};

    fn case(a: &str, share: f64, figure: Figure) -> Case {
        let around = |middle: f64| (0..6).map(|block| middle * (1.0 + f64::from(block % 2) / 1e3)).collect();
        Case {
            a: a.into(),
            b: "new".into(),
            figure,
            blocks: around(share),
            same: around(1.0),
            ..Case::default()
        }
    }

    #[test]
    fn a_row_shows_outcome_ratio_interval_and_mde() {
        let cases = [case("old", 0.9, Figure::CpuPerAnswer), case("old", 1.2, Figure::P99Latency)];
        let text = verdicts(&compare(&cases));
        assert!(text.starts_with("A is old, B is new.\n"), "{text}");
        let row = |figure: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(figure));
            line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(
            row("CPU time per answer").starts_with("CPU time per answer faster 0.9004 0.8999 to 0.9010 (9"),
            "{text}"
        );
        assert!(row("p99 latency").starts_with("p99 latency slower 1.2006 1.1998 to 1.2014 (9"), "{text}");
        assert!(row("CPU").contains("± 0.1"), "{text}");
    }

    #[test]
    fn fewer_than_six_blocks_have_no_interval_and_no_mde() {
        let text =
            verdicts(&compare(&[Case { blocks: vec![1.016; 5], ..case("old", 0.9, Figure::AnsweredRate) }]));
        let row =
            text.lines().find(|line| line.trim_start().starts_with("answered rate")).unwrap_or_default();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[..5], ["answered", "rate", "inconclusive", "1.0160", "-"], "{text}");
    }

    #[test]
    fn several_pairs_are_named_in_their_rows() {
        let cases = [case("old", 0.9, Figure::AnsweredRate), case("older", 0.9, Figure::AnsweredRate)];
        let text = verdicts(&compare(&cases));
        assert!(text.contains(" A ") && text.contains(" older ") && !text.contains("A is"), "{text}");
    }
}
