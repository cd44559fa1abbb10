//! The values of factors: ranges become numbers, and combinations become settings.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::{StudyFile, Word};
use crate::materials::{NAMES_FACTOR, RECIPE_FACTOR, RECORDS_FACTOR, ZONES_FACTOR};
use crate::path::PATH_FACTOR;
use crate::rig::NICE_FACTOR;
use crate::setup;
use crate::warm_up::STEADY_FACTOR;

/// Settings by name, as words.
pub type Settings = BTreeMap<String, String>;

/// The factor of a subject's cores, whose values are choices of cores.
pub const CORES: &str = "cores";

/// The factor of subjects.
pub const SUBJECT: &str = "subject";

/// The factor of the player's threads, one on a core of its own each.
pub const SENDERS: &str = setup::SENDERS;

/// The factor of workers that answer.
pub const WORKERS: &str = "workers";

/// The factor of the echo's I/O model.
pub const IO: &str = "io";

/// The value of a setting that is as high as a set of cores is large.
pub const ONE_PER_CORE: &str = "one per core";

/// Settings that are not the subject's own.
pub const COMMON: [&str; 20] = [
    PATH_FACTOR,
    WORKERS,
    STEADY_FACTOR,
    CORES,
    setup::IO,
    setup::SOCKETS,
    setup::WINDOW,
    setup::BURST,
    SENDERS,
    setup::TIMEOUT,
    setup::SOURCES,
    NAMES_FACTOR,
    RECIPE_FACTOR,
    ZONES_FACTOR,
    RECORDS_FACTOR,
    NICE_FACTOR,
    "path.queues",
    "path.txqueuelen",
    "path.rps_cpus",
    "path.gro",
];

/// What a sysctl of the path's network namespaces begins with.
pub const PATH_SYSCTL: &str = "path.sysctl.";

/// The words that a value stands for: `1..4` and `1..cores` are all numbers between, `cores` is how many there
/// are; every other word stands for itself.
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

/// The least and the greatest number that a word stands for on any machine, whatever `cores` is; none where it is
/// no number.
pub fn span(word: &str) -> Option<(usize, usize)> {
    let number = |text: &str, cores| if text == "cores" { Some(cores) } else { text.parse().ok() };
    let (first, last) = word.split_once("..").unwrap_or((word, word));
    Some((number(first, 1)?, number(last, usize::MAX)?))
}

/// The first and the last value of a range, and any other word alone; `cores` is 1.
pub fn ends(word: &str) -> Vec<String> {
    let number = |text: &str| if text == "cores" { "1".to_string() } else { text.to_string() };
    let (first, last) = word.split_once("..").unwrap_or((word, word));
    vec![number(first), number(last)]
}

/// All values of a factor, each once, in the order of the file.
pub fn values(factor: &str, words: &[Word], cores: usize) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for word in words {
        // A choice of cores is read elsewhere; as a number it is one like any other.
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

/// Every combination of factors' values, the last factor fastest.
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

/// Adds a setting, and those that its value stands for.
pub fn set(study: &StudyFile, settings: &mut Settings, name: &str, value: &str) {
    settings.insert(name.into(), value.into());
    if let Some(bundle) = study.bundles.get(name).and_then(|values| values.get(value)) {
        settings.extend(bundle.iter().map(|(name, word)| (name.clone(), word.0.clone())));
    }
}

/// Adds settings that every cell has.
pub fn set_all(study: &StudyFile, settings: &mut Settings, fixed: &IndexMap<String, Word>, cores: usize) {
    for (name, word) in fixed {
        let value = if name == CORES { word.0.clone() } else { expand(word, cores).concat() };
        set(study, settings, name, &value);
    }
}
