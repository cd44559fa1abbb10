//! A study in a file: its question, the factors that it varies, the load of its cells, and published figures.
//! The file's text becomes a [`StudyFile`], which is checked as far as the text alone permits. [`cells`] then
//! makes its cells on a given machine.

mod attack;
mod ceiling_names;
pub(crate) mod ceilings;
pub mod cells;
mod check;
pub(crate) mod common;
mod events;
pub mod offer;
mod place;
mod possible;
mod transports;
pub mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use indexmap::IndexMap;
use kqps_observation::question;
use kqps_verdict::search::{Goal, Preset};
use serde::Deserialize;

use crate::placement::Placement;
use kqps_files::toml_file::{self, FileError, TomlError, did_you_mean, nearest};
use kqps_testbed::subject::{Definition, builtin};

/// A study, as its file describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// A short name: `isc-echo`.
    pub name: String,
    /// The headline.
    pub title: String,
    /// The question, in a sentence or two.
    pub question: String,
    /// The source and date of the published figures.
    #[serde(default)]
    pub source: String,
    /// The path of queries and replies.
    #[serde(default)]
    pub path: question::Path,
    /// The choice of the sets of cores that are measured, if there are several.
    #[serde(default)]
    pub placement: Placement,
    /// How many times every cell is started.
    #[serde(default = "repetitions")]
    pub repetitions: u32,
    /// The load of the cells.
    #[serde(default)]
    pub load: RawLoad,
    /// Whether the subjects of its cells are profiled, in trials of their own.
    #[serde(default)]
    pub profile: bool,
    /// Whether the residence of queries in the server's host is measured, if the run has several hosts.
    #[serde(default = "yes")]
    pub residence: bool,
    /// The rate of the canary, queries a second: the echo, every few cells. `None` for no canary.
    pub canary_qps: Option<f64>,
    /// Settings of every cell, unless an experiment overrides them.
    #[serde(default)]
    pub fixed: IndexMap<String, Word>,
    /// Factor → value → the settings that this value stands for.
    #[serde(default)]
    pub bundles: BTreeMap<String, BTreeMap<String, IndexMap<String, Word>>>,
    /// The experiments of the study.
    #[serde(rename = "experiment")]
    pub experiments: Vec<Experiment>,
    /// The text of the file.
    #[serde(skip)]
    pub text: String,
    /// The name of the file.
    #[serde(skip)]
    pub file: String,
}

/// A matrix: every combination of its factors' values is a cell, except those that it excludes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A short name, unique in its study.
    pub name: String,
    /// The headline.
    pub title: String,
    /// A description: what the experiment varies, and why.
    #[serde(default)]
    pub about: String,
    /// Names of subjects, or of files with definitions; the echo by default.
    #[serde(default = "echo_alone")]
    pub subjects: Vec<String>,
    /// The path, if it differs from the study's.
    pub path: Option<question::Path>,
    /// The choice of core sets, if it differs from the study's.
    pub placement: Option<Placement>,
    /// The load, if it differs from the study's.
    pub load: Option<RawLoad>,
    /// Whether its subjects are profiled, if that differs from the study.
    pub profile: Option<bool>,
    /// Whether its residence is measured, if that differs from the study.
    pub residence: Option<bool>,
    /// Settings of all its cells.
    #[serde(default)]
    pub fixed: IndexMap<String, Word>,
    /// Factor → its values.
    #[serde(default)]
    pub factors: IndexMap<String, Vec<Word>>,
    /// Partial combinations. A cell that agrees with all of one of them is left out.
    #[serde(default)]
    pub exclude: Vec<BTreeMap<String, Word>>,
    /// Why the experiment differs from the published one, or cannot be made at all; shown in the report.
    #[serde(default)]
    pub note: String,
    /// The tables to show.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// The charts to show.
    #[serde(default, rename = "chart")]
    pub charts: Vec<Chart>,
    /// The charts of rates by reply size to show.
    #[serde(default)]
    pub links: Vec<LinkChart>,
    /// Published figures.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// The load of cells as the file has it: exactly one of closed loop, rates and search.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "struct Load")] // the words of errors about other values
pub struct RawLoad {
    /// Seconds of one closed-loop trial.
    pub closed_s: Option<f64>,
    /// Queries a second, one trial for each rate.
    pub rates_qps: Option<Vec<f64>>,
    /// Seconds of each of these trials.
    pub seconds: Option<f64>,
    /// The preset of a rate search.
    pub search: Option<String>,
    /// The share of their answers that good clients must keep, 0 to 1, instead of the preset's.
    pub keep: Option<f64>,
    /// Shares of the rate found at which latency is measured, percent.
    #[serde(default)]
    pub latency_at_percent: Vec<u32>,
}

/// A table of figures: several factors as rows, one factor as columns.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The headline.
    pub title: String,
    /// The row factors.
    pub rows: Vec<String>,
    /// The column factor.
    #[serde(default)]
    pub columns: String,
    /// The figures to show.
    pub show: Vec<question::Figure>,
}

/// A chart of the answered rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// The headline.
    pub title: String,
    /// The factor along the axis.
    pub x: String,
    /// Factors whose combinations stand side by side.
    #[serde(default)]
    pub series: Vec<String>,
    /// The figures to draw.
    pub show: Vec<question::Figure>,
}

/// A chart of rates by reply size, beside the capacity of links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChart {
    /// The headline.
    pub title: String,
    /// The links, gigabits a second.
    pub gbit_per_s: Vec<f64>,
}

/// Published figures: one, or a row of them across one factor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The factors that identify the cells.
    #[serde(default)]
    pub factors: BTreeMap<String, Word>,
    /// The factor that varies from figure to figure.
    pub across: Option<String>,
    /// The values of that factor; by default 1, 2, 3 and so on.
    #[serde(default)]
    pub values: Vec<Word>,
    /// Whether the figure is the best of all cells that the factors select, and not that of one cell.
    #[serde(default)]
    pub best: bool,
    /// Queries a second.
    pub rates_qps: Vec<f64>,
    /// A remark on the figures.
    #[serde(default)]
    pub note: String,
}

/// A value of a factor: a string, a number or a boolean, stored as the word in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a string, a number or a boolean")]
        enum Scalar {
            Truth(bool),
            Whole(i64),
            Real(f64),
            Text(String),
        }
        Ok(Self(match Scalar::deserialize(deserializer)? {
            Scalar::Truth(truth) => truth.to_string(),
            Scalar::Whole(number) => number.to_string(),
            Scalar::Real(number) => number.to_string(),
            Scalar::Text(text) => text,
        }))
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn yes() -> bool {
    true
}

/// How many times a study starts every cell by default: enough to publish (docs/METHOD.md).
fn repetitions() -> u32 {
    10
}

fn echo_alone() -> Vec<String> {
    vec!["echo".into()]
}

impl StudyFile {
    /// Reads a study from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or its text is no valid study; with file, line and column.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        toml_file::open(path, Self::read)
    }

    /// Reads a study from the text of a file.
    pub fn read(file: &str, text: &str) -> Result<Self, TomlError> {
        let study: Self = toml_file::read(file, text)?;
        let study = Self { text: text.into(), file: file.into(), ..study };
        check::check(&study)?;
        Ok(study)
    }

    /// The preset of its rate searches; without any search, the cheapest preset.
    pub(crate) fn goal(&self) -> &'static str {
        let mut loads = self.experiments.iter().map(|one| one.load.as_ref().unwrap_or(&self.load));
        let preset = loads.find_map(|load| load.search.as_ref()?.parse::<Preset>().ok());
        preset.unwrap_or(Preset::Quick).name()
    }

    /// The share of queries that its searches may lose instead of the preset's, 0 to 1.
    pub fn loss(&self) -> Option<f64> {
        let mut loads = self.experiments.iter().map(|one| one.load.as_ref().unwrap_or(&self.load));
        loads.find_map(|load| load.keep).map(Goal::loss_of_keep)
    }

    /// The subjects with the words by which the study calls them: built-in ones, or definition files, which are
    /// searched beside the study.
    ///
    /// # Errors
    ///
    /// Also for a setting that one of the subjects does not have, or a value that it does not accept.
    pub fn subjects(&self) -> Result<Vec<(String, Definition)>, TomlError> {
        let mut found: BTreeMap<String, Definition> = BTreeMap::new();
        for experiment in &self.experiments {
            for word in &experiment.subjects {
                if !found.contains_key(word) {
                    found.insert(word.clone(), self.subject(word)?);
                }
                check::beside(self, experiment, &found[word])?;
            }
        }
        Ok(found.into_iter().collect())
    }

    fn subject(&self, word: &str) -> Result<Definition, TomlError> {
        let quoted = format!("\"{word}\"");
        if word.contains(['.', '/']) {
            let beside = Path::new(&self.file).parent().unwrap_or(Path::new("")).join(word);
            return Definition::open(&beside).map_err(|error| self.wrong(&quoted, error.to_string()));
        }
        let known: Vec<Definition> = builtin::servers().into_iter().chain([builtin::echo()]).collect();
        known.iter().find(|definition| definition.name == word).cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|definition| definition.name.as_str()).collect();
            let near = did_you_mean(nearest(word, &names));
            self.wrong(&quoted, format!("no subject is called `{word}`{near} (known: {})", names.join(", ")))
        })
    }

    /// An error in this file, at the first occurrence of `needle`.
    pub(crate) fn wrong(&self, needle: &str, what: impl Into<String>) -> TomlError {
        TomlError::at_text(&self.file, &self.text, needle, what)
    }

    /// An error at a key.
    fn wrong_key(&self, key: &str, what: impl Into<String>) -> TomlError {
        TomlError::at(&self.file, &self.text, place::of_key(&self.text, key), what)
    }

    /// An error at a value of a key.
    fn wrong_value(&self, key: &str, value: &str, what: impl Into<String>) -> TomlError {
        TomlError::at(&self.file, &self.text, place::of_value(&self.text, key, value), what)
    }
}

/// A study that the program contains, by name; `None` if there is no such study.
pub fn builtin(name: &str) -> Option<StudyFile> {
    let (file, text) = BUILTIN.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name))?;
    let read = StudyFile::read(&format!("studies/{file}"), text);
    Some(read.unwrap_or_else(|error| panic!("a study within kqps is wrong: {error}")))
}

/// The names of the studies that the program contains.
pub fn builtin_names() -> Vec<&'static str> {
    BUILTIN.iter().filter_map(|(file, _)| file.strip_suffix(".toml")).collect()
}

const BUILTIN: [(&str, &str); 14] = [
    ("isc-echo.toml", include_str!("../../../studies/isc-echo.toml")),
    ("knot-epic.toml", include_str!("../../../studies/knot-epic.toml")),
    ("windows-mix.toml", include_str!("../../../studies/windows-mix.toml")),
    ("name-servers.toml", include_str!("../../../studies/name-servers.toml")),
    ("unbound-scaling.toml", include_str!("../../../studies/unbound-scaling.toml")),
    ("bind10-receptionist.toml", include_str!("../../../studies/bind10-receptionist.toml")),
    ("encrypted.toml", include_str!("../../../studies/encrypted.toml")),
    ("cache.toml", include_str!("../../../studies/cache.toml")),
    ("attack.toml", include_str!("../../../studies/attack.toml")),
    ("attack-quick.toml", include_str!("../../../studies/attack-quick.toml")),
    ("zone-life.toml", include_str!("../../../studies/zone-life.toml")),
    ("zone-life-quick.toml", include_str!("../../../studies/zone-life-quick.toml")),
    ("resolvers.toml", include_str!("../../../studies/resolvers.toml")),
    ("resolvers-quick.toml", include_str!("../../../studies/resolvers-quick.toml")),
];

#[cfg(test)]
mod tests;
