//! The accepted values of settings that belong to no subject: those of the player, the path, the dataset and
//! the cell.

use kqps_catalogue::factors::{FactorError, Factors, SourceChoice};
use kqps_catalogue::name::{self, CORES, IO, WORKERS};
use kqps_catalogue::{scenario, settings};
use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_tls::{Group, Suite};
use kqps_tuning::Change;

use super::values::{ONE_PER_CORE, common};
use crate::placement::CoreRequest;
use kqps_testbed::cell_event::{CellEvent, EXPECTED};
use kqps_testbed::subject::Definition;
use kqps_testbed::subject::setting::SettingError;

/// Checks a value of a setting. An error lists the accepted values and suggests one that was probably meant.
pub(crate) fn accepts(name: &str, value: &str) -> Result<(), String> {
    match name {
        WORKERS if value == ONE_PER_CORE => return Ok(()),
        WORKERS => {
            let is_count = value.parse().is_ok_and(|number: u32| number >= 1);
            return right(is_count, name, value, "a number from 1 on");
        }
        CORES => return CoreRequest::read(value, 1).map(|_| ()),
        name::PLAYER_SOURCES => return sources(value),
        name::PLAYER_TLS_GROUP => return one_of_named(name, value, Group::all()),
        name::PLAYER_TLS_SUITE => return one_of_named(name, value, Suite::all()),
        name::SCENARIO => {
            let near = did_you_mean(nearest(value, &scenario::NAMES));
            return scenario::check(value).map_err(|expected| wrong(name, value, expected) + &near);
        }
        name::EVENT => return event(value),
        name::DATASET_RECIPE => return one_of(name, value, &kqps_recipe::recipe_names()),
        _ if name::is_host_setting(name) => {
            let setting = name.strip_prefix(name::HOST).unwrap_or(name);
            let read = Change::read(setting, value);
            return read.map(|_| ()).map_err(|error| format!("factor `{name}`: {error}"));
        }
        _ => {}
    }
    if let Some(setting) = settings::of_name(name) {
        let near = did_you_mean(nearest(value, setting.kind.words()));
        return setting.check(value).map_err(|expected| wrong(name, value, &expected) + &near);
    }
    let read = Factors::read([(name.to_owned(), value.to_owned())]);
    read.map(|_| ()).map_err(|error| explained(&error))
}

/// Checks the event of each load.
fn event(value: &str) -> Result<(), String> {
    if value == scenario::NONE {
        return Ok(());
    }
    CellEvent::read(value).map(drop).map_err(|expected| match expected.as_str() {
        EXPECTED => wrong(name::EVENT, value, EXPECTED),
        why => format!("factor `{}`: `{value}`: {why}", name::EVENT),
    })
}

/// Checks source addresses. What a study or a run starts is reached over loopback, or at the other end of a veth pair,
/// where the player has one address.
fn sources(value: &str) -> Result<(), String> {
    let name = name::PLAYER_SOURCES;
    let read = Factors::read([(name.to_owned(), value.to_owned())]);
    let is_loopback = read.is_ok_and(|one| one.player().sources.is_some_and(SourceChoice::is_loopback));
    let words = [SourceChoice::One, SourceChoice::Spread].map(SourceChoice::word);
    let near = did_you_mean(nearest(value, &words.each_ref().map(String::as_str)));
    let expected = "one, spread, or a prefix of loopback such as 127.1.0.0/16";
    right(is_loopback, name, value, expected).map_err(|error| error + &near)
}

/// The error with the word that was probably meant.
fn explained(error: &FactorError) -> String {
    match error {
        FactorError::Word { known, word, .. } => format!("{error}{}", did_you_mean(nearest(word, known))),
        FactorError::Unknown { name } => format!("{error}{}", nearest_common(name)),
    }
}

/// The common setting that was probably meant by a name: `; did you mean …?`.
pub(super) fn nearest_common(name: &str) -> String {
    did_you_mean(nearest(name, &common().collect::<Vec<_>>()))
}

/// Checks that a value is a known one. An error lists the known ones and suggests one that was probably meant.
pub(crate) fn one_of(name: &str, value: &str, known: &[&str]) -> Result<(), String> {
    let near = did_you_mean(nearest(value, known));
    let what = format!("one of {}", known.join(", "));
    right(known.contains(&value), name, value, &what).map_err(|error| error + &near)
}

/// As [`one_of`], with the names of values.
fn one_of_named<T: ToString>(name: &str, value: &str, known: impl Iterator<Item = T>) -> Result<(), String> {
    let known: Vec<String> = known.map(|one| one.to_string()).collect();
    one_of(name, value, &known.iter().map(String::as_str).collect::<Vec<_>>())
}

fn right(is_right: bool, name: &str, value: &str, expected: &str) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(wrong(name, value, expected)) }
}

fn wrong(name: &str, value: &str, expected: &str) -> String {
    format!("factor `{name}`: expected {expected}, found `{value}`")
}

/// Adds a suggestion to the error about an unknown setting: a setting that every subject has, or one of `more`.
pub(crate) fn with_common(
    definition: &Definition,
    error: SettingError,
    more: impl IntoIterator<Item = String>,
) -> SettingError {
    let SettingError::Name { title, name, mut names, .. } = error else { return error };
    names.extend(definition.takes_io().then(|| IO.to_string()));
    names.extend(more);
    names.extend(common().map(str::to_string));
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = nearest(&name, &known).map(str::to_string);
    SettingError::Name { title, name, near, names }
}
