//! The finding of an experiment: which factor mattered, by how much and with what interval, or that none did
//! beyond what its trials could have shown. It compares cells that differ in one factor alone.
//!
//! Both cells of a pair are compared within each block, so the host's drift between blocks cancels. Every pair has its own
//! scatter over the blocks, and Welch's degrees of freedom give the interval of the mean over all pairs. The figures' resolution
//! widens it. Memory per connection is an exception: the pairs of a block share the start that is subtracted, so they are averaged
//! within the block first, and the scatter is that over blocks. All differences and all dependences between factors are one family: with equals, at most 5 of 100
//! experiments name a factor (Bonferroni).

mod contrast;
mod facts;
mod words;

use std::collections::BTreeMap;

use kqps_observation::question::Figure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

use crate::narrow::narrow;
use contrast::{Difference, MeasuredCell, Tests, contrasts, interactions};
pub(crate) use facts::of_run;

/// A quantity that is compared between the cells of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, VariantArray, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Correct answers a second.
    #[strum(to_string = "rate")]
    Rate,
    /// The median latency at a load that the study chose.
    #[strum(to_string = "median latency")]
    Latency,
    /// The mean latency at the cell's rate.
    #[strum(to_string = "mean latency")]
    LatencyMean,
    /// The p99 of latency at the cell's rate.
    #[strum(to_string = "p99 latency")]
    LatencyP99,
    /// CPU time of the subject per correct answer.
    #[strum(to_string = "CPU time per answer")]
    Cpu,
    /// Memory of the subject.
    #[strum(to_string = "memory")]
    Memory,
    /// Memory divided by the number of records.
    #[strum(to_string = "memory per record")]
    MemoryPerRecord,
    /// Memory beyond that with the fewest connections, divided by the further connections.
    #[strum(to_string = "memory per connection")]
    MemoryPerConnection,
    /// Time from a start until the subject answers.
    #[strum(to_string = "time to load")]
    LoadTime,
}

impl Quantity {
    /// The figure of tables that shows it. The median latency is in none; the mean stands for it.
    pub fn figure(self) -> Figure {
        match self {
            Self::Rate => Figure::Median,
            Self::Latency | Self::LatencyMean => Figure::LatencyMean,
            Self::LatencyP99 => Figure::LatencyP99,
            Self::Cpu => Figure::Cpu,
            Self::Memory => Figure::Memory,
            Self::MemoryPerRecord => Figure::MemoryPerRecord,
            Self::MemoryPerConnection => Figure::MemoryPerConnection,
            Self::LoadTime => Figure::LoadTime,
        }
    }
}

/// A start of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactorStart {
    /// Its block.
    pub block: u32,
    /// The quantity. A start whose value is not finite and above 0 is left out.
    pub value: f64,
    /// The width of the step in which the value is known, as a share of it: 0 if its digits all count.
    pub resolution: f64,
}

/// A cell of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactorCell {
    /// Its value of every factor, in the order of the factors' names.
    pub values: Vec<String>,
    /// For each factor, in the same order, the further ones that follow from it: name → value. Empty if none do.
    pub further: Vec<BTreeMap<String, String>>,
    /// Its starts; empty if its figure is refused or missing.
    pub starts: Vec<FactorStart>,
}

/// Two values of a factor, compared over cells that differ in nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// The factor.
    pub factor: String,
    /// The further factors that differ between both values, so that no cell shows which of them mattered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes_with: Vec<String>,
    /// The value with the greater quantity.
    pub greater: String,
    /// The value with the lesser quantity.
    pub lesser: String,
    /// The quantity with the one divided by that with the other, 1 or more.
    pub ratio: f64,
    /// The low and the high end of its interval; `None` if no interval is known.
    pub interval: Option<(f64, f64)>,
    /// The least difference that would be found, a share; `None` if no interval is known.
    pub mde: Option<f64>,
    /// The number of pairs of cells.
    pub pairs: u32,
}

/// How a contrast depends on other factors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interaction {
    /// The factor, and the values that are compared: the greater on average, and the other.
    pub factor: String,
    /// The value with the greater quantity on average.
    pub greater: String,
    /// The other value.
    pub lesser: String,
    /// The factors that differ between both places.
    #[serde(default)]
    pub on: Vec<String>,
    /// Any of these factors → the further ones that change with it here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changes_with: BTreeMap<String, Vec<String>>,
    /// Where the ratio is least: the values of the factors that differ between both places, and the ratio there.
    pub least: (String, f64),
    /// Where the ratio is greatest.
    pub greatest: (String, f64),
    /// The greatest ratio divided by the least: low end, estimate, high end.
    pub apart: (f64, f64, f64),
}

/// The outcome of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No cell has a number.
    NoNumber,
    /// The experiment has one cell.
    OneCell,
    /// No two cells with a number differ in one factor alone.
    NoPair,
    /// Too few blocks have both cells of a pair, so no interval is known. The contrast is the greatest one.
    NoInterval(Contrast),
    /// A factor mattered.
    Mattered {
        /// The greatest contrast.
        most: Contrast,
        /// The greatest contrast of every other factor that mattered, the greatest first.
        others: Vec<Contrast>,
        /// Factors whose ratio depends on other factors, the strongest dependence of each set of factors.
        interactions: Vec<Interaction>,
    },
    /// No factor mattered on average, but contrasts depend on other factors.
    Together(Vec<Interaction>),
    /// No factor mattered. The contrast is the greatest one.
    None(Contrast),
}

/// The finding of an experiment. Its `Display` is a few sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The compared quantity.
    pub quantity: Quantity,
    /// The factors that vary. Factors that change together are one, named by the first of them in the study.
    pub factors: Vec<String>,
    /// The factors that were not judged: no two cells with a number differ in one of them alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpaired: Vec<String>,
    /// Whether the cells are compared at rates of their own, which searches or closed loops found, and not at those that the
    /// study chose. Only latencies say so.
    pub own_rates: bool,
    /// The outcome.
    pub outcome: Outcome,
    /// The MDE of the contrast that is known least well, a share.
    pub mde: Option<f64>,
    /// The number of contrasts that have no interval.
    pub untested: u32,
    /// The number of cells.
    pub cells: u32,
    /// The number of cells without a number that is known start by start, which are left out.
    pub without: u32,
}

/// The finding of an experiment by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentFinding {
    /// The name of the experiment.
    pub experiment: String,
    /// The finding in a few sentences.
    pub sentence: String,
    /// The finding in numbers.
    pub finding: Finding,
}

/// The finding over the cells of an experiment. `factors` are the names of the factors that vary, each without those that
/// change with it.
pub fn find(quantity: Quantity, factors: &[String], cells: &[FactorCell]) -> Finding {
    let known: Vec<MeasuredCell<'_>> =
        cells.iter().map(MeasuredCell::from_cell).filter(|known| !known.starts.is_empty()).collect();
    let shares_base = quantity == Quantity::MemoryPerConnection;
    let mut found = contrasts(factors, &known, shares_base);
    // Equal contrasts stay in the order of their factors, the first factor's first.
    found.sort_by(|a, b| b.spread.by.total_cmp(&a.spread.by));
    let tests = Tests::new(&found);
    let reported: Vec<Contrast> = found.iter().map(|one| one.contrast(factors, &known, &tests)).collect();
    let outcome = match (cells.len(), known.len()) {
        (1, 1) => Outcome::OneCell,
        (_, 0) => Outcome::NoNumber,
        _ => outcome(factors, &known, &found, &reported, &tests),
    };
    Finding {
        quantity,
        factors: factors.to_vec(),
        unpaired: factors
            .iter()
            .filter(|one| reported.iter().all(|it| it.factor != **one))
            .cloned()
            .collect(),
        own_rates: false,
        outcome,
        mde: reported.iter().filter_map(|one| one.mde).max_by(f64::total_cmp),
        untested: narrow(reported.iter().filter(|one| one.mde.is_none()).count()),
        cells: narrow(cells.len()),
        without: narrow(cells.len() - known.len()),
    }
}

fn outcome(
    factors: &[String],
    cells: &[MeasuredCell<'_>],
    found: &[Difference],
    reported: &[Contrast],
    tests: &Tests,
) -> Outcome {
    let Some(greatest) = reported.first() else { return Outcome::NoPair };
    let Some(greatest_known) = reported.iter().find(|one| one.mde.is_some()) else {
        return Outcome::NoInterval(greatest.clone());
    };
    let mut mattered: Vec<Contrast> = Vec::new();
    for (one, contrast) in found.iter().zip(reported) {
        if tests.is_claimed(&one.spread) && mattered.iter().all(|other| other.factor != contrast.factor) {
            mattered.push(contrast.clone());
        }
    }
    // Every set of factors is named once: that io depends on workers is the same as that workers depends on io.
    let mut depends: BTreeMap<Vec<usize>, (f64, Interaction)> = BTreeMap::new();
    for one in interactions(factors, cells, found, tests) {
        let is_stronger = depends.get(&one.factors).is_none_or(|(apart, _)| one.apart > *apart);
        if is_stronger {
            depends.insert(one.factors, (one.apart, one.interaction));
        }
    }
    let mut depends: Vec<(f64, Interaction)> = depends.into_values().collect();
    depends.sort_by(|a, b| b.0.total_cmp(&a.0));
    let interactions: Vec<Interaction> = depends.into_iter().map(|(_, one)| one).collect();
    if !mattered.is_empty() {
        let most = mattered.remove(0);
        return Outcome::Mattered { most, others: mattered, interactions };
    }
    if interactions.is_empty() {
        Outcome::None(greatest_known.clone())
    } else {
        Outcome::Together(interactions)
    }
}
