//! The accepted values of settings that belong to no subject: those of the player, the path, the dataset and
//! the cell.

use kqps_observation::Factors;
use kqps_observation::factors::{
    FactorError, SourceChoice,
    name::{self, CORES, IO, WORKERS},
};
use kqps_player::Io;
use kqps_player::plan::{CONNECTIONS_MOST, OUTSTANDING_MOST};
use kqps_tls::{Group, Suite};
use kqps_tuning::Change;
use kqps_verdict::steady::BINS;

use super::values::{COMMON, ONE_PER_CORE};
use crate::placement::CoreRequest;
use crate::subject::Definition;
use crate::subject::setting::SettingError;
use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_files::value::TIMEOUT_LEAST;

/// The shortest warm-up that can be judged: its bins, and a second to start.
const STEADY_LEAST_S: f64 = BINS as f64 + 1.0;

/// The longest warm-up (`docs/method/search.md`).
const STEADY_MOST_S: f64 = 60.0;

/// The most queries that the kernel accepts in one send (`UDP_MAX_SEGMENTS` of older kernels).
const BURST_MOST: u32 = 64;

/// The longest wait for a reply, seconds.
const TIMEOUT_MOST_S: f64 = 60.0;

/// Whether a player may wait this long for a reply or a connection, seconds.
fn is_timeout(seconds: f64) -> bool {
    (TIMEOUT_LEAST.as_secs_f64()..=TIMEOUT_MOST_S).contains(&seconds)
}

/// Checks a value of a setting. An error lists the accepted values and suggests one that was probably meant.
pub(crate) fn accepts(name: &str, value: &str) -> Result<(), String> {
    match name {
        WORKERS if value == ONE_PER_CORE => return Ok(()),
        WORKERS => {
            let is_count = value.parse().is_ok_and(|number: u32| number >= 1);
            return right(is_count, name, value, "a number from 1 on");
        }
        CORES => return CoreRequest::read(value, 1).map(|_| ()),
        name::PLAYER_IO => return one_of(name, value, &Io::ALL.map(Io::name)),
        name::PLAYER_SOURCES => return sources(value),
        name::PLAYER_TLS_GROUP => return one_of_named(name, value, Group::all()),
        name::PLAYER_TLS_SUITE => return one_of_named(name, value, Suite::all()),
        name::DATASET_RECIPE => return one_of(name, value, &kqps_recipe::recipe_names()),
        _ if name::is_host_setting(name) => {
            let setting = name.strip_prefix(name::HOST).unwrap_or(name);
            let read = Change::read(setting, value);
            return read.map(|_| ()).map_err(|error| format!("factor `{name}`: {error}"));
        }
        _ => {}
    }
    let read = Factors::read([(name.to_owned(), value.to_owned())]);
    match (limit(name), read) {
        (Some((is_within, expected)), read) => {
            right(read.is_ok_and(|one| is_within(&one)), name, value, expected)
        }
        (None, read) => read.map(|_| ()).map_err(|error| explained(&error)),
    }
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

/// Whether factors keep a limit, and the limit in words.
type Limit = (fn(&Factors) -> bool, &'static str);

/// The limit of a factor in a study; `None` if every value that can be read is accepted.
fn limit(name: &str) -> Option<Limit> {
    match name {
        name::PLAYER_BURST => {
            Some((|one| one.player().burst.is_some_and(|burst| burst <= BURST_MOST), "a number from 1 to 64"))
        }
        name::PLAYER_TIMEOUT => {
            Some((|one| one.player().timeout_s.is_some_and(is_timeout), "seconds from 0.0001 to 60"))
        }
        name::PLAYER_CONNECT_TIMEOUT => {
            Some((|one| one.player().connect_timeout_s.is_some_and(is_timeout), "seconds from 0.0001 to 60"))
        }
        name::PLAYER_CONNECTIONS => Some((
            |one| one.player().connections.is_some_and(|many| many as usize <= CONNECTIONS_MOST),
            "a number from 1 to 131072",
        )),
        name::PLAYER_OUTSTANDING => Some((
            |one| one.player().outstanding_per_connection.is_some_and(|many| many <= OUTSTANDING_MOST),
            "a number from 1 to 65536",
        )),
        name::STEADY => Some((
            |one| one.steady_s().is_some_and(|seconds| (STEADY_LEAST_S..=STEADY_MOST_S).contains(&seconds)),
            "a duration from 11s, below which none can be judged, to 60s",
        )),
        _ => None,
    }
}

/// The error with the word that was probably meant.
fn explained(error: &FactorError) -> String {
    match error {
        FactorError::Word { known, word, .. } => format!("{error}{}", did_you_mean(nearest(word, known))),
        FactorError::Unknown { name } => format!("{error}{}", did_you_mean(nearest(name, &COMMON))),
    }
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
    if is_right { Ok(()) } else { Err(format!("factor `{name}`: expected {expected}, found `{value}`")) }
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
    names.extend(COMMON.map(str::to_string));
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = nearest(&name, &known).map(str::to_string);
    SettingError::Name { title, name, near, names }
}
