//! The findings of a study's experiments, a row for every difference that one names.

use kqps_verdict::finding::{Contrast, ExperimentFinding, Interaction, Outcome};
use kqps_verdict::judge::RunVerdict;

use super::sheet::{Sheet, Value, count, number, text, words};

/// The number of columns from the outcome to the places of a dependence.
const PLACES: usize = 15;

/// A row for every contrast and every dependence that a finding names.
pub(super) fn findings(verdict: &RunVerdict) -> Sheet {
    let columns = [
        ("experiment", "the experiment"),
        ("finding", "the finding in words"),
        ("quantity", "what is compared, such as the rate"),
        (
            "outcome",
            "mattered, depends, none (not beyond the MDE), no-interval, no-pair, one-cell or no-number",
        ),
        ("is_claimed", "whether the difference is more than scatter"),
        ("factor", "the factor"),
        (
            "changes_with",
            "the further factors that change with it (or with those at the places), so that the difference is that of all of them",
        ),
        ("greater", "its value with the greater quantity"),
        ("lesser", "its value with the lesser quantity"),
        (
            "ratio",
            "the quantity with the one divided by that with the other; of a dependence, the greatest ratio divided by the least",
        ),
        ("ratio_low", "low end of its interval"),
        ("ratio_high", "high end of its interval"),
        ("mde_share", "the least difference that would be found"),
        ("pairs", "the number of pairs of cells"),
        ("least_at", "where the ratio is least"),
        ("least_ratio", "the ratio there"),
        ("greatest_at", "where the ratio is greatest"),
        ("greatest_ratio", "the ratio there"),
        ("cells", "the number of cells"),
        ("cells_without", "those without a number, which are left out"),
    ];
    let mut sheet = Sheet::new("findings", "a difference that the finding of an experiment names", &columns);
    for ExperimentFinding { experiment, sentence, finding: found } in &verdict.findings {
        for middle in differences(&found.outcome) {
            let mut row = vec![text(experiment), text(sentence), text(found.quantity.to_string())];
            row.extend(middle);
            row.extend([count(found.cells), count(found.without)]);
            sheet.rows.push(row);
        }
    }
    sheet
}

/// The columns from the outcome to the places, for every difference of an outcome.
fn differences(outcome: &Outcome) -> Vec<Vec<Value>> {
    let without = |word: &str| {
        let mut row = vec![text(word), Value::Flag(false)];
        row.resize(PLACES, Value::None);
        row
    };
    let contrast = |word: &str, one: &Contrast| {
        let mut row = vec![
            text(word),
            Value::Flag(word == "mattered"),
            text(&one.factor),
            words(&one.changes_with.join(", ")),
            text(&one.greater),
            text(&one.lesser),
            number(one.ratio),
            number(one.interval.map(|(low, _)| low)),
            number(one.interval.map(|(_, high)| high)),
            number(one.mde),
            count(one.pairs),
        ];
        row.resize(PLACES, Value::None);
        row
    };
    let dependence = |one: &Interaction| {
        vec![
            text("depends"),
            Value::Flag(true),
            text(&one.factor),
            words(&one.changes_with.values().flatten().cloned().collect::<Vec<_>>().join(", ")),
            text(&one.greater),
            text(&one.lesser),
            number(one.apart.1),
            number(one.apart.0),
            number(one.apart.2),
            Value::None,
            Value::None,
            text(&one.least.0),
            number(one.least.1),
            text(&one.greatest.0),
            number(one.greatest.1),
        ]
    };
    match outcome {
        Outcome::NoNumber => vec![without("no-number")],
        Outcome::OneCell => vec![without("one-cell")],
        Outcome::NoPair => vec![without("no-pair")],
        Outcome::NoInterval(one) => vec![contrast("no-interval", one)],
        Outcome::None(one) => vec![contrast("none", one)],
        Outcome::Together(depends) => depends.iter().map(dependence).collect(),
        Outcome::Mattered { most, others, interactions } => {
            let contrasts = [most].into_iter().chain(others).map(|one| contrast("mattered", one));
            contrasts.chain(interactions.iter().map(dependence)).collect()
        }
    }
}
