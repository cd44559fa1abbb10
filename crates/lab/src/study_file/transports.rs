//! The transports of an experiment's cells, and whether a setting that is for some transports has an effect.
//!
//! A cell leaves out settings that are for another transport than its own. So `fixed` settings of a study may be for
//! some of its experiments only, and those of an experiment for some of its cells only. A setting without any such cell
//! is an error, and so is one that varies over cells of another transport: they would be equal.

use indexmap::IndexMap;
use kqps_catalogue::name::PLAYER_TRANSPORT;
use kqps_catalogue::settings::{is_for, transports_for};
use kqps_files::toml_file::TomlError;
use kqps_observation::trial::Transport;

use super::{Experiment, StudyFile, Word};

/// Checks the settings that are for some transports.
pub(super) fn check(study: &StudyFile, experiment: &Experiment) -> Result<(), TomlError> {
    let here = of_cells(study, experiment);
    let of_study: Vec<Transport> = study.experiments.iter().flat_map(|one| of_cells(study, one)).collect();
    let check_value = |name: &str, word: &Word, cells: &[Transport], varies: bool| {
        check_one(study, experiment, (name, word), cells, varies)?;
        let Some(bundle) = bundle(study, name, word) else { return Ok(()) };
        let own = own(bundle).map(|transport| vec![transport]);
        let cells = own.as_deref().unwrap_or(cells);
        bundle.iter().try_for_each(|(name, word)| check_one(study, experiment, (name, word), cells, varies))
    };
    for (name, words) in &experiment.factors {
        words.iter().try_for_each(|word| check_value(name, word, &here, true))?;
    }
    experiment.fixed.iter().try_for_each(|(name, word)| check_value(name, word, &here, false))?;
    study.fixed.iter().try_for_each(|(name, word)| check_value(name, word, &of_study, false))
}

/// Checks a setting of cells over these transports.
fn check_one(
    study: &StudyFile,
    experiment: &Experiment,
    (name, word): (&str, &Word),
    cells: &[Transport],
    varies: bool,
) -> Result<(), TomlError> {
    let has_effect = |transport: &Transport| is_for(name, &word.0, *transport);
    let Some(other) = cells.iter().find(|transport| !has_effect(transport)) else { return Ok(()) };
    let what = if !cells.iter().any(has_effect) {
        let words: Vec<String> =
            transports_for(name, &word.0).map(|one| format!("\"{}\"", one.word())).collect();
        format!("sets nothing over {}: it is for {PLAYER_TRANSPORT} = {}", other.word(), words.join(" or "))
    } else if varies {
        format!(
            "varies, and sets nothing in cells over {}: put it beside `{PLAYER_TRANSPORT}` in bundles, or into an \
             experiment of its own",
            other.word()
        )
    } else {
        return Ok(());
    };
    Err(study.wrong_key(name, format!("experiment `{}`: `{name}` {what}", experiment.name)))
}

/// The transports of an experiment's cells.
fn of_cells(study: &StudyFile, experiment: &Experiment) -> Vec<Transport> {
    let of_value = |name: &str, word: &Word| {
        if name == PLAYER_TRANSPORT {
            Transport::from_word(&word.0)
        } else {
            bundle(study, name, word).and_then(own)
        }
    };
    let mut transports = Vec::new();
    let mut is_always_set = false;
    for (name, words) in &experiment.factors {
        let set: Vec<Transport> = words.iter().filter_map(|word| of_value(name, word)).collect();
        is_always_set |= set.len() == words.len();
        transports.extend(set);
    }
    if !is_always_set {
        let fixed = study.fixed.iter().chain(&experiment.fixed);
        let last = fixed.filter_map(|(name, word)| of_value(name, word)).next_back();
        transports.push(last.unwrap_or_default());
    }
    transports
}

fn bundle<'a>(study: &'a StudyFile, name: &str, word: &Word) -> Option<&'a IndexMap<String, Word>> {
    study.bundles.get(name)?.get(&word.0)
}

/// The transport that a bundle sets.
fn own(bundle: &IndexMap<String, Word>) -> Option<Transport> {
    bundle.get(PLAYER_TRANSPORT).and_then(|word| Transport::from_word(&word.0))
}
