//! The findings of a study's experiments, a row for every difference that one names.

use kqps_verdict::finding::{Contrast, ExperimentFinding, Interaction, Outcome};
use kqps_verdict::judge::RunVerdict;

use super::sheet::{Sheet, Value, count, number, text, words};

/// The content of the columns with long words.
const OUTCOME: &str =
    "mattered, depends, none (not beyond the MDE), no-interval, no-pair, one-cell or no-number";
const CHANGES_WITH: &str = "the further factors that change with it (or with those at the places), so that \
                            the difference is that of all of them";
const RATIO: &str = "the quantity with the one divided by that with the other; of a dependence, the greatest \
                     ratio divided by the least";

/// A row for every contrast and every dependence that a finding names.
pub(super) fn findings(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("findings", "a difference that the finding of an experiment names");
    for ExperimentFinding { experiment, sentence, finding: found } in &verdict.findings {
        for (word, difference) in differences(&found.outcome) {
            let is_claimed = matches!(word, "mattered" | "depends");
            let [factor, changes_with, greater, lesser, ratio, low, high, further @ ..] = difference;
            let [mde, pairs, least_at, least, greatest_at, greatest] = further;
            sheet.push([
                ("experiment", "the experiment", text(experiment)),
                ("finding", "the finding in words", text(sentence)),
                ("quantity", "what is compared, such as the rate", text(found.quantity.to_string())),
                ("outcome", OUTCOME, text(word)),
                ("is_claimed", "whether the difference is more than scatter", Value::Flag(is_claimed)),
                ("factor", "the factor", factor),
                ("changes_with", CHANGES_WITH, changes_with),
                ("greater", "its value with the greater quantity", greater),
                ("lesser", "its value with the lesser quantity", lesser),
                ("ratio", RATIO, ratio),
                ("ratio_low", "low end of its interval", low),
                ("ratio_high", "high end of its interval", high),
                ("mde_share", "the least difference that would be found", mde),
                ("pairs", "the number of pairs of cells", pairs),
                ("least_at", "where the ratio is least", least_at),
                ("least_ratio", "the ratio there", least),
                ("greatest_at", "where the ratio is greatest", greatest_at),
                ("greatest_ratio", "the ratio there", greatest),
                ("cells", "the number of cells", count(found.cells)),
                ("cells_without", "those without a number, which are left out", count(found.without)),
            ]);
        }
    }
    sheet
}

/// The columns from the factor to the places of a dependence.
type Difference = [Value; 13];

/// Every difference of an outcome, with the outcome's word.
fn differences(outcome: &Outcome) -> Vec<(&'static str, Difference)> {
    let without = |word| vec![(word, [const { Value::None }; 13])];
    match outcome {
        Outcome::NoNumber => without("no-number"),
        Outcome::OneCell => without("one-cell"),
        Outcome::NoPair => without("no-pair"),
        Outcome::NoInterval(one) => vec![("no-interval", contrast(one))],
        Outcome::None(one) => vec![("none", contrast(one))],
        Outcome::Together(depends) => depends.iter().map(|one| ("depends", dependence(one))).collect(),
        Outcome::Mattered { most, others, interactions } => {
            let contrasts = [most].into_iter().chain(others).map(|one| ("mattered", contrast(one)));
            contrasts.chain(interactions.iter().map(|one| ("depends", dependence(one)))).collect()
        }
    }
}

fn contrast(one: &Contrast) -> Difference {
    [
        text(&one.factor),
        words(&one.changes_with.join(", ")),
        text(&one.greater),
        text(&one.lesser),
        number(one.ratio),
        number(one.interval.map(|(low, _)| low)),
        number(one.interval.map(|(_, high)| high)),
        number(one.mde),
        count(one.pairs),
        Value::None,
        Value::None,
        Value::None,
        Value::None,
    ]
}

fn dependence(one: &Interaction) -> Difference {
    [
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
}
