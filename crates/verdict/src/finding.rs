//! The finding of an experiment: which factor mattered, by how much and with what interval, or that none did
//! beyond what its trials could have shown. It compares cells that differ in one factor alone.
//!
//! The difference between two values of a factor is the mean, over all pairs of such cells, of the differences of
//! their mean logarithms. All starts of the experiment together show how much a start scatters, and Student's t gives the
//! interval. Intervals of all differences hold together with a probability of 95 % (Bonferroni). The MDE is the least
//! difference that is found in 95 of 100 experiments like this one.

mod contrast;
mod facts;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use contrast::{Tests, contrasts, interactions};
pub use facts::of_experiment;

/// What the starts of an experiment were measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Correct answers a second.
    Rate,
    /// The median latency at a load that the study chose.
    Latency,
}

/// A cell of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactorCell {
    /// Its value of every factor, in the order of the factors' names.
    pub values: Vec<String>,
    /// The quantity in each of its starts; empty if its figure is refused or missing. Values that are not finite and
    /// above 0 are left out.
    pub starts: Vec<f64>,
}

/// Two values of a factor, compared over cells that differ in nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// The factor.
    pub factor: String,
    /// The value with the greater quantity.
    pub greater: String,
    /// The value with the lesser quantity.
    pub lesser: String,
    /// The quantity with the one divided by that with the other: low end, estimate (1 or more), high end.
    pub ratio: (f64, f64, f64),
    /// The least difference that would be found, a share.
    pub mde: f64,
    /// The number of pairs of cells.
    pub pairs: u32,
}

/// How a contrast depends on other factors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interaction {
    /// The contrast.
    pub of: Contrast,
    /// Where the ratio is least: the values of the factors that differ between both places, and the ratio there.
    pub least: (String, f64),
    /// Where the ratio is greatest.
    pub greatest: (String, f64),
}

/// The outcome of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No cell has a number.
    NoNumber,
    /// No two cells with a number differ in one factor alone.
    NoPair,
    /// Cells have one start each, so no interval is known. The contrast is the greatest one.
    NoInterval(Contrast),
    /// A factor mattered.
    Mattered {
        /// The greatest contrast.
        most: Contrast,
        /// The greatest contrast of every other factor that mattered, the greatest first.
        others: Vec<Contrast>,
        /// How the greatest contrast depends on other factors, if it does.
        interaction: Option<Interaction>,
    },
    /// No factor mattered by itself, but a contrast depends on another factor.
    Together(Interaction),
    /// No factor mattered. The contrast is the greatest one.
    None(Contrast),
}

/// The finding of an experiment. Its `Display` is one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was compared.
    pub quantity: Quantity,
    /// The factors that vary.
    pub factors: Vec<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// The number of cells.
    pub cells: u32,
    /// The number of cells without a number, which are left out.
    pub without: u32,
}

/// The finding over the cells of an experiment. `factors` are the names of the factors that vary.
pub fn find(quantity: Quantity, factors: &[String], cells: &[FactorCell]) -> Finding {
    let logs = |cell: &FactorCell| -> Vec<f64> {
        cell.starts.iter().map(|value| value.ln()).filter(|log| log.is_finite()).collect()
    };
    let known: Vec<(&[String], Vec<f64>)> = cells
        .iter()
        .map(|cell| (cell.values.as_slice(), logs(cell)))
        .filter(|(_, logs)| !logs.is_empty())
        .collect();
    Finding {
        quantity,
        factors: factors.to_vec(),
        outcome: outcome(factors, &known),
        cells: cells.len() as u32,
        without: (cells.len() - known.len()) as u32,
    }
}

fn outcome(factors: &[String], cells: &[(&[String], Vec<f64>)]) -> Outcome {
    if cells.is_empty() {
        return Outcome::NoNumber;
    }
    let mut found = contrasts(factors, cells);
    // Of equal contrasts, the first factor's stands first.
    found.sort_by(|a, b| b.by.total_cmp(&a.by));
    let Some(greatest) = found.first() else { return Outcome::NoPair };
    let Some(tests) = Tests::of(cells, found.len()) else {
        return Outcome::NoInterval(greatest.without_interval(factors));
    };
    let mut mattered: Vec<Contrast> = Vec::new();
    for one in found.iter().filter(|one| tests.is_claimed(one.by, one.weight)) {
        let contrast = one.told(factors, &tests);
        if mattered.iter().all(|other| other.factor != contrast.factor) {
            mattered.push(contrast);
        }
    }
    let mut depends = interactions(factors, cells, &found);
    if mattered.is_empty() {
        return depends.drain(..).next().map_or_else(
            || Outcome::None(greatest.told(factors, &tests)),
            |(index, least, greatest)| {
                Outcome::Together(Interaction { of: found[index].told(factors, &tests), least, greatest })
            },
        );
    }
    let most = mattered.remove(0);
    let is_most = |index: usize| {
        let one = found[index].told(factors, &tests);
        one == most
    };
    let interaction = depends
        .into_iter()
        .find(|(index, ..)| is_most(*index))
        .map(|(_, least, greatest)| Interaction { of: most.clone(), least, greatest });
    Outcome::Mattered { most, others: mattered, interaction }
}
