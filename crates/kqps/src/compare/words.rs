//! A comparison in words: the verdict first, then the ratio, and what it rests on.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use kqps_verdict::compare::Comparison;
use kqps_verdict::interval::Interval;

/// Everything that is printed.
pub(super) fn of(comparisons: &[Comparison], report: Option<&Path>) -> String {
    let mut text = comparisons.iter().map(of_one).collect::<Vec<_>>().join("\n");
    let doubts: BTreeSet<&String> = comparisons.iter().flat_map(|one| &one.case.doubts).collect();
    if !doubts.is_empty() {
        text.push('\n');
    }
    for doubt in doubts {
        let _ = writeln!(text, "Warning: {doubt}.");
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
        let _ = writeln!(text, "\nThe whole of it, with every trial: {}", report.display());
    }
    text
}

fn of_one(comparison: &Comparison) -> String {
    let mut text = format!("{comparison}\n");
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "  {label:<10} {value}");
    };
    if let Some(ratio) = &comparison.ratio {
        line("ratio", format!("{} of the {}", with_interval(ratio), comparison.case.figure));
    }
    match comparison.mde {
        Some(mde) => {
            line("MDE", format!("± {:.2} %: what A differs from itself in 19 blocks of 20", mde * 100.0));
        }
        None => line("MDE", "unknown: there are too few blocks of A against itself".into()),
    }
    line("blocks", blocks(comparison));
    text
}

fn with_interval(ratio: &Interval) -> String {
    format!(
        "{:.4} ({:.4} to {:.4}, {:.1} % coverage)",
        ratio.median,
        ratio.low,
        ratio.high,
        ratio.coverage * 100.0
    )
}

fn blocks(comparison: &Comparison) -> String {
    let (made, of_a) = (comparison.case.blocks.len(), comparison.case.same.len());
    let mut text = format!("{made}, and {of_a} of A against itself");
    if !comparison.outlying.is_empty() {
        let numbers: Vec<String> = comparison.outlying.iter().map(|block| (block + 1).to_string()).collect();
        let _ = write!(text, "; far from the others, and counted: {}", numbers.join(", "));
    }
    text
}
