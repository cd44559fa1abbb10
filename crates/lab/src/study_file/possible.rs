//! The values that the settings of an experiment's cells can have on any machine: fixed, varied, or from a
//! bundle.

use std::collections::BTreeMap;

use kqps_observation::factors::name::CORES;

use super::values::{check_length, ends, span};
use super::{Experiment, StudyFile, Word};

/// Where a value stands, which decides how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// Among the values of a factor: a range stands for several values.
    Varied,
    /// In a fixed setting: a single value for all cells.
    Fixed,
    /// In a bundle: the word stands for itself.
    Bundle,
}

/// A value that a setting can have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Possible<'a> {
    word: &'a str,
    from: From,
}

/// Setting → the values that it can have in an experiment.
pub(super) type PossibleSettings<'a> = BTreeMap<&'a str, Vec<Possible<'a>>>;

/// All settings of an experiment.
pub(super) fn settings<'a>(study: &'a StudyFile, experiment: &'a Experiment) -> PossibleSettings<'a> {
    let mut settings = PossibleSettings::new();
    let fixed = study.fixed.iter().chain(&experiment.fixed).map(|(name, word)| (name, word, From::Fixed));
    let varied = experiment.factors.iter();
    let varied = varied.flat_map(|(name, words)| words.iter().map(move |word| (name, word, From::Varied)));
    for (name, word, from) in fixed.chain(varied) {
        let mut add = |name: &'a String, word: &'a Word, from| {
            settings.entry(name.as_str()).or_default().push(Possible { word: &word.0, from });
        };
        add(name, word, from);
        let bundle = study.bundles.get(name).and_then(|values| values.get(&word.0));
        bundle.into_iter().flatten().for_each(|(name, word)| add(name, word, From::Bundle));
    }
    settings
}

impl<'a> Possible<'a> {
    /// The word as the file has it.
    pub(super) fn word(&self) -> &'a str {
        self.word
    }

    /// Sample values: if these are valid, all are. For a range, these are its ends. An error is an impossible
    /// range.
    pub(super) fn samples(&self, name: &str) -> Result<Vec<String>, String> {
        let is_choice = name == CORES && self.word.contains(' ');
        match span(self.word).filter(|_| self.from != From::Bundle && !is_choice) {
            Some((first, last)) if first > last => {
                Err(format!("factor `{name}`: the range `{}` is empty", self.word))
            }
            Some(_) if self.from == From::Fixed && self.word.contains("..") => {
                Err(format!("factor `{name}`: expected one value, found the range `{}`", self.word))
            }
            Some(_) => {
                check_length(self.word).map_err(|what| format!("factor `{name}`: {what}"))?;
                Ok(ends(self.word))
            }
            None => Ok(vec![self.word.into()]),
        }
    }

    /// Whether some machine has a cell with this value.
    pub(super) fn can_be(&self, value: &str) -> bool {
        let overlap = |((a, b), (c, d)): ((usize, usize), (usize, usize))| a <= d && c <= b;
        self.word == value || span(self.word).zip(span(value)).is_some_and(overlap)
    }
}
