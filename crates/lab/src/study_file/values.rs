//! The values of factors: ranges become numbers, and combinations become settings.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use kqps_catalogue::name::{CORES, WORKERS, is_of_system};
use kqps_catalogue::settings;

use super::{StudyFile, Word};

/// Setting → value, both as words.
pub type FactorWords = BTreeMap<String, String>;

/// The value of a setting that equals the number of cores in a set.
pub const ONE_PER_CORE: &str = "one per core";

/// Names of settings that belong to no subject.
pub fn common() -> impl Iterator<Item = &'static str> {
    [WORKERS, CORES].into_iter().chain(settings::of_studies().map(|setting| setting.name))
}

/// Whether a setting belongs to no subject: a common one, a sysctl of the path, or a setting of the host.
pub fn is_common(name: &str) -> bool {
    common().any(|common| common == name) || is_of_system(name)
}

/// The most values that one range may stand for, and the most combinations of an experiment.
pub const VALUES_MOST: usize = 4096;

/// Checks that a range has at most [`VALUES_MOST`] values before it is laid out. `cores` counts as 1: no machine has so
/// many.
pub(super) fn check_length(word: &str) -> Result<(), String> {
    let number = |text: &str| if text == "cores" { Some(1) } else { text.parse::<usize>().ok() };
    let ends = word.split_once("..").and_then(|(first, last)| Some((number(first)?, number(last)?)));
    match ends {
        Some((first, last)) if last.saturating_sub(first) >= VALUES_MOST => {
            Err(format!("the range `{word}` has more than {VALUES_MOST} values"))
        }
        _ => Ok(()),
    }
}

/// The words that a value stands for: `1..4` and `1..cores` are all numbers in the range, `cores` is the number
/// of cores; every other word stands for itself.
pub fn expand(word: &Word, cores: usize) -> Vec<String> {
    let number = |text: &str| if text == "cores" { Some(cores) } else { text.parse::<usize>().ok() };
    match word.0.split_once("..") {
        Some((first, last)) => match (number(first), number(last)) {
            (Some(first), Some(last)) => (first..=last).map(|number| number.to_string()).collect(),
            _ => vec![word.0.clone()],
        },
        None if word.0 == "cores" => vec![cores.to_string()],
        None => vec![word.0.clone()],
    }
}

/// The least and the greatest number that a word stands for on any machine, whatever `cores` is; `None` if it
/// is no number.
pub fn span(word: &str) -> Option<(usize, usize)> {
    let number = |text: &str, cores| if text == "cores" { Some(cores) } else { text.parse().ok() };
    let (first, last) = word.split_once("..").unwrap_or((word, word));
    Some((number(first, 1)?, number(last, usize::MAX)?))
}

/// The first and the last value of a range, or the word itself for any other; `cores` is 1.
pub fn ends(word: &str) -> Vec<String> {
    let number = |text: &str| if text == "cores" { "1".to_string() } else { text.to_string() };
    let (first, last) = word.split_once("..").unwrap_or((word, word));
    vec![number(first), number(last)]
}

/// All values of a factor, each once, in the order of the file.
pub fn values(factor: &str, words: &[Word], cores: usize) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for word in words {
        // A choice of cores is not expanded here; a plain number is.
        let is_choice = factor == CORES && word.0.contains(' ');
        let more = if is_choice { vec![word.0.clone()] } else { expand(word, cores) };
        for value in more {
            if !values.contains(&value) {
                values.push(value);
            }
        }
    }
    values
}

/// Every combination of the factors' values. The last factor varies fastest.
pub fn combinations(factors: &[(String, Vec<String>)]) -> Vec<Vec<(String, String)>> {
    factors.iter().fold(vec![Vec::new()], |combinations, (factor, values)| {
        let with = |combination: Vec<(String, String)>| {
            values.iter().map(move |value| {
                let mut longer = combination.clone();
                longer.push((factor.clone(), value.clone()));
                longer
            })
        };
        combinations.into_iter().flat_map(with).collect()
    })
}

/// Adds a setting, and those of the bundle that its value stands for.
pub fn set(study: &StudyFile, settings: &mut FactorWords, name: &str, value: &str) {
    settings.insert(name.into(), value.into());
    if let Some(bundle) = study.bundles.get(name).and_then(|values| values.get(value)) {
        settings.extend(bundle.iter().map(|(name, word)| (name.clone(), word.0.clone())));
    }
}

/// Adds settings that every cell has.
pub fn set_all(study: &StudyFile, settings: &mut FactorWords, fixed: &IndexMap<String, Word>, cores: usize) {
    for (name, word) in fixed {
        let value = if name == CORES { word.0.clone() } else { expand(word, cores).concat() };
        set(study, settings, name, &value);
    }
}
