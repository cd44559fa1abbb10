//! The accepted values of settings that belong to no subject: those of the player, the path, the dataset and
//! the cell.

use std::str::FromStr;
use std::time::Duration;

use kqps_verdict::steady::BINS;

use super::values::{COMMON, CORES, IO, ONE_PER_CORE, SENDERS, WORKERS};
use crate::factor::{self, NICE_FACTOR};
use crate::materials::{NAMES_FACTOR, RECIPE_FACTOR, RECORDS_FACTOR, ZONES_FACTOR};
use crate::path::{self, PATH_FACTOR};
use crate::placement::CoreWish;
use crate::setup;
use crate::subject::Definition;
use crate::subject::setting::SettingError;
use crate::warm_up::STEADY_FACTOR;
use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_files::value::parse_duration;

/// The shortest warm-up that can be judged: its bins, and a second to start.
const STEADY_LEAST_S: f64 = BINS as f64 + 1.0;

/// The longest warm-up (docs/METHOD.md).
const STEADY_MOST_S: f64 = 60.0;

/// The most queries that the kernel accepts in one send (`UDP_MAX_SEGMENTS` of older kernels).
const BURST_MOST: u32 = 64;

/// The longest wait for a reply, seconds.
const TIMEOUT_MOST_S: f64 = 60.0;

/// The values of `kqps load --io`.
const PLAYER_IO: [&str; 5] = ["auto", "plain", "mmsg", "gso", "uring"];

/// Checks a value of a setting. An error lists the accepted values and suggests one that was probably meant.
pub(crate) fn accepts(name: &str, value: &str) -> Result<(), String> {
    let number = |most: u32, what: &str| {
        let is_right = value.parse().is_ok_and(|number: u32| (1..=most).contains(&number));
        right(is_right, name, value, what)
    };
    match name {
        WORKERS if value == ONE_PER_CORE => Ok(()),
        WORKERS | SENDERS | setup::SOCKETS | setup::WINDOW | ZONES_FACTOR | RECORDS_FACTOR => {
            number(u32::MAX, "a number from 1 on")
        }
        setup::BURST => number(BURST_MOST, "a number from 1 to 64"),
        setup::TIMEOUT => {
            let is_right = f64::from_str(value).is_ok_and(|s| s > 0.0 && s <= TIMEOUT_MOST_S);
            right(is_right, name, value, "seconds above 0, 60 at most")
        }
        setup::IO => one_of(name, value, &PLAYER_IO),
        setup::SOURCES => one_of(name, value, &setup::SOURCES_WORDS),
        RECIPE_FACTOR => one_of(name, value, &kqps_recipe::recipe_names()),
        NAMES_FACTOR => one_of(name, value, &["random", "one"]),
        PATH_FACTOR => one_of(name, value, &["loopback", "veth"]),
        CORES => CoreWish::read(value, 1).map(|_| ()),
        STEADY_FACTOR => {
            let is_within =
                |longest: Duration| (STEADY_LEAST_S..=STEADY_MOST_S).contains(&longest.as_secs_f64());
            let is_right = parse_duration(value).is_ok_and(is_within);
            right(is_right, name, value, "a duration from 11s, below which none can be judged, to 60s")
        }
        NICE_FACTOR => factor::niceness(value).map(|_| ()),
        _ => {
            let alone = [(name.to_string(), value.to_string())].into();
            path::settings(&alone).map(|_| ()).map_err(|error| error.to_string())
        }
    }
}

/// Checks that a value is a known one. An error lists the known ones and suggests one that was probably meant.
pub(crate) fn one_of(name: &str, value: &str, known: &[&str]) -> Result<(), String> {
    let near = did_you_mean(nearest(value, known));
    let what = format!("one of {}", known.join(", "));
    right(known.contains(&value), name, value, &what).map_err(|told| told + &near)
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
