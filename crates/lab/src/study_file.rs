//! A study in a file: what it asks, what it varies, how its cells are loaded, and what others found. The file's
//! text becomes a [`StudyFile`] that was checked as far as text alone can be; [`cells`] makes cells of it on a
//! given machine.

mod ceilings;
pub mod cells;
mod check;
pub(crate) mod common;
mod place;
mod possible;
pub mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use indexmap::IndexMap;
use kqps_observation::question;
use kqps_verdict::search::Preset;
use serde::Deserialize;

use crate::placement::Placement;
use crate::subject::{Definition, builtin};
use crate::toml_file::{self, FileError, TomlError, did_you_mean, nearest};

/// A study as its file says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// Short: `isc-echo`.
    pub name: String,
    /// A headline.
    pub title: String,
    /// What is asked, in a sentence or two.
    pub question: String,
    /// Who published the figures that are laid beside ours, and when.
    #[serde(default)]
    pub source: String,
    /// What queries and replies travel over.
    #[serde(default)]
    pub path: question::Path,
    /// Which of several sets of cores are measured.
    #[serde(default)]
    pub placement: Placement,
    /// How often every cell is started.
    #[serde(default = "repetitions")]
    pub repetitions: u32,
    /// How cells are loaded.
    #[serde(default)]
    pub load: Load,
    /// The echo at this rate, every few cells; none for no canary.
    #[serde(default)]
    pub canary_qps: Option<f64>,
    /// Settings of every cell, unless an experiment says otherwise.
    #[serde(default)]
    pub fixed: IndexMap<String, Word>,
    /// Factor → value → the settings that this value stands for.
    #[serde(default)]
    pub bundles: BTreeMap<String, BTreeMap<String, IndexMap<String, Word>>>,
    /// The matrices of the study.
    #[serde(rename = "experiment")]
    pub experiments: Vec<Experiment>,
    /// The text that it was read from.
    #[serde(skip)]
    pub text: String,
    /// The file's name.
    #[serde(skip)]
    pub file: String,
}

/// One matrix: every combination of its factors' values is a cell, except those that it excludes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short, and unique in its study.
    pub name: String,
    /// A headline.
    pub title: String,
    /// What it varies and why.
    #[serde(default)]
    pub about: String,
    /// Names of subjects, or files with definitions; the echo where it says nothing.
    #[serde(default = "echo_alone")]
    pub subjects: Vec<String>,
    /// Another path than the study's.
    #[serde(default)]
    pub path: Option<question::Path>,
    /// Another choice among sets of cores than the study's.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// Another load than the study's.
    #[serde(default)]
    pub load: Option<Load>,
    /// Settings of all its cells.
    #[serde(default)]
    pub fixed: IndexMap<String, Word>,
    /// Factor → its values.
    #[serde(default)]
    pub factors: IndexMap<String, Vec<Word>>,
    /// Cells that agree with all of one of these are left out.
    #[serde(default)]
    pub exclude: Vec<BTreeMap<String, Word>>,
    /// Why an experiment cannot be made as published, or at all: told in the report.
    #[serde(default)]
    pub note: String,
    /// Tables wanted.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// Charts wanted.
    #[serde(default, rename = "chart")]
    pub charts: Vec<Chart>,
    /// Charts of rates by the size of replies wanted.
    #[serde(default)]
    pub links: Vec<LinkChart>,
    /// What others found.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// How cells are loaded: exactly one of closed loop, rates and search.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Seconds of one closed-loop trial.
    #[serde(default)]
    pub closed_s: Option<f64>,
    /// Queries a second, one trial each.
    #[serde(default)]
    pub rates_qps: Option<Vec<f64>>,
    /// Seconds of each of those trials.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// The preset of a rate search.
    #[serde(default)]
    pub search: Option<String>,
    /// Shares of the rate found, at which latency is measured, percent.
    #[serde(default)]
    pub latency_at_percent: Vec<u32>,
}

/// A table of figures: factors down, one factor across.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// A headline.
    pub title: String,
    /// Factors whose values make the rows.
    pub rows: Vec<String>,
    /// The factor whose values make the columns.
    #[serde(default)]
    pub columns: String,
    /// What the cells show.
    pub show: Vec<question::Figure>,
}

/// A chart of the answered rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// A headline.
    pub title: String,
    /// The factor along the axis.
    pub x: String,
    /// Factors whose combinations stand beside each other.
    #[serde(default)]
    pub series: Vec<String>,
    /// What is drawn.
    pub show: Vec<question::Figure>,
}

/// A chart of rates by the size of replies, beside what links carry.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChart {
    /// A headline.
    pub title: String,
    /// The links, gigabits a second.
    pub gbit_per_s: Vec<f64>,
}

/// Figures that others found: one, or a row of them across one factor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What singles out the cells.
    #[serde(default)]
    pub factors: BTreeMap<String, Word>,
    /// The factor that the figures vary.
    #[serde(default)]
    pub across: Option<String>,
    /// Its values; 1, 2, 3 and so on where nothing is said.
    #[serde(default)]
    pub values: Vec<Word>,
    /// Whether it is the best of all cells that the factors single out, and not one cell's.
    #[serde(default)]
    pub best: bool,
    /// Queries a second.
    pub rates_qps: Vec<f64>,
    /// What is to be known about them.
    #[serde(default)]
    pub note: String,
}

/// A value of a factor: a string, a number or a truth, kept as the word it is written as.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a string, a number or a truth")]
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

/// How often a study that says nothing about it starts every cell: enough to publish (docs/METHOD.md).
fn repetitions() -> u32 {
    10
}

fn echo_alone() -> Vec<String> {
    vec!["echo".into()]
}

impl StudyFile {
    /// Reads a study from a file.
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

    /// The preset of its rate searches; where it has none, the one that costs least is named.
    pub(crate) fn goal(&self) -> &'static str {
        let mut loads = self.experiments.iter().map(|one| one.load.as_ref().unwrap_or(&self.load));
        let preset = loads.find_map(|load| load.search.as_ref()?.parse::<Preset>().ok());
        preset.unwrap_or(Preset::Quick).name()
    }

    /// The subjects that it names, by the words it calls them: those that kqps knows, or files, which are looked
    /// for beside the study. An error is also a setting that one of them does not have, or a value.
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

    /// An error of this file, at the first place where `needle` stands.
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

/// The studies that the program carries, by name.
pub fn builtin(name: &str) -> Option<StudyFile> {
    let (file, text) = BUILTIN.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name))?;
    let read = StudyFile::read(&format!("studies/{file}"), text);
    Some(read.unwrap_or_else(|error| panic!("a study within kqps is wrong: {error}")))
}

/// The names of the studies that the program carries.
pub fn builtin_names() -> Vec<&'static str> {
    BUILTIN.iter().filter_map(|(file, _)| file.strip_suffix(".toml")).collect()
}

const BUILTIN: [(&str, &str); 6] = [
    ("isc-echo.toml", include_str!("../../../studies/isc-echo.toml")),
    ("knot-epic.toml", include_str!("../../../studies/knot-epic.toml")),
    ("windows-mix.toml", include_str!("../../../studies/windows-mix.toml")),
    ("name-servers.toml", include_str!("../../../studies/name-servers.toml")),
    ("unbound-scaling.toml", include_str!("../../../studies/unbound-scaling.toml")),
    ("bind10-receptionist.toml", include_str!("../../../studies/bind10-receptionist.toml")),
];

#[cfg(test)]
mod tests;
