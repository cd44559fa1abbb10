//! What can be wrong with a study before any machine is asked: every error is placed in the file.

use std::collections::BTreeSet;

use kqps_verdict::search::Preset;

use super::values::{COMMON, PATH_SYSCTL, SUBJECT};
use super::{Experiment, Load, StudyFile};
use crate::toml_file::{TomlError, did_you_mean, nearest};

/// Cells are started this often at most.
const REPETITIONS_MOST: u32 = 1000;

/// Seconds of a trial at most.
const SECONDS_MOST: f64 = 3600.0;

pub(super) fn check(study: &StudyFile) -> Result<(), TomlError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if study.name.is_empty() || !study.name.chars().all(plain) {
        return Err(study.wrong("name", "a name is made of letters, digits, `-` and `_`"));
    }
    if !(1..=REPETITIONS_MOST).contains(&study.repetitions) {
        let what = format!("repetitions: expected 1 to {REPETITIONS_MOST}");
        return Err(study.wrong("repetitions", what));
    }
    if study.canary_qps.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return Err(study.wrong("canary_qps", "canary_qps: expected a rate above 0"));
    }
    if study.experiments.is_empty() {
        return Err(study.wrong("experiment", "a study has at least one [[experiment]]"));
    }
    let mut names = BTreeSet::new();
    for experiment in &study.experiments {
        if !names.insert(&experiment.name) {
            let what = format!("two experiments are called `{}`", experiment.name);
            return Err(study.wrong(&format!("\"{}\"", experiment.name), what));
        }
        of_experiment(study, experiment)?;
    }
    goals(study)
}

fn of_experiment(study: &StudyFile, experiment: &Experiment) -> Result<(), TomlError> {
    let load = experiment.load.as_ref().unwrap_or(&study.load);
    if let Err(what) = of_load(load) {
        return Err(study.wrong("load", format!("experiment `{}`: {what}", experiment.name)));
    }
    let bundled = study.bundles.values().flat_map(|values| values.values()).flat_map(|bundle| bundle.keys());
    let set =
        experiment.fixed.keys().chain(study.fixed.keys()).chain(experiment.factors.keys()).chain(bundled);
    for name in set {
        common_name(study, name)?;
    }
    for (factor, words) in &experiment.factors {
        if words.is_empty() {
            return Err(study.wrong(factor, format!("the factor `{factor}` has no values")));
        }
        for word in words {
            unbundled(study, factor, &word.0)?;
        }
    }
    let excluded = experiment.exclude.iter().flat_map(|cell| cell.keys());
    let shown = experiment.tables.iter().flat_map(|table| table.rows.iter().chain([&table.columns]));
    let drawn = experiment.charts.iter().flat_map(|chart| chart.series.iter().chain([&chart.x]));
    for factor in excluded.chain(shown).chain(drawn).filter(|factor| !factor.is_empty()) {
        known_factor(study, experiment, factor)?;
    }
    for published in &experiment.published {
        if published.rates_qps.is_empty() || published.rates_qps.iter().any(|rate| !rate.is_finite()) {
            return Err(study.wrong("published", "published: rates_qps holds at least one rate"));
        }
        if !published.values.is_empty() && published.values.len() != published.rates_qps.len() {
            return Err(study.wrong("published", "published: as many values as rates_qps are needed"));
        }
        if published.across.is_none() && published.rates_qps.len() > 1 {
            return Err(
                study.wrong("published", "published: several rates need `across`, the factor they vary")
            );
        }
    }
    Ok(())
}

/// A name with a dot is not the subject's own, and must be one that is known.
fn common_name(study: &StudyFile, name: &str) -> Result<(), TomlError> {
    if !name.contains('.') || COMMON.contains(&name) || name.starts_with(PATH_SYSCTL) {
        return Ok(());
    }
    let near = did_you_mean(nearest(name, &COMMON));
    let known = COMMON.join(", ");
    Err(study.wrong(name, format!("unknown setting `{name}`{near} (known: {known}, {PATH_SYSCTL}NAME)")))
}

/// A value of a factor that has bundles is one of them.
fn unbundled(study: &StudyFile, factor: &str, value: &str) -> Result<(), TomlError> {
    let Some(bundles) = study.bundles.get(factor).filter(|bundles| !bundles.contains_key(value)) else {
        return Ok(());
    };
    let known: Vec<&str> = bundles.keys().map(String::as_str).collect();
    let near = did_you_mean(nearest(value, &known));
    let known = known.join(", ");
    Err(study
        .wrong(&format!("\"{value}\""), format!("`{factor}` has no bundle `{value}`{near} (known: {known})")))
}

fn known_factor(study: &StudyFile, experiment: &Experiment, factor: &str) -> Result<(), TomlError> {
    let fixed = study.fixed.keys().chain(experiment.fixed.keys());
    let known: Vec<&str> =
        experiment.factors.keys().chain(fixed).map(String::as_str).chain([SUBJECT]).collect();
    if known.contains(&factor) {
        return Ok(());
    }
    let near = did_you_mean(nearest(factor, &known));
    let what = format!("experiment `{}` has no factor `{factor}`{near}", experiment.name);
    Err(study.wrong(&format!("\"{factor}\""), what))
}

fn of_load(load: &Load) -> Result<(), String> {
    let one = "a load is one of closed_s, rates_qps with seconds, and search";
    let is_time = |seconds: f64| seconds > 0.0 && seconds <= SECONDS_MOST;
    match (load.closed_s, &load.rates_qps, &load.search) {
        (Some(seconds), None, None) if load.seconds.is_none() => {
            if is_time(seconds) {
                Ok(())
            } else {
                Err("closed_s: expected seconds above 0, 3600 at most".into())
            }
        }
        (None, Some(rates), None) => match load.seconds {
            Some(seconds) if is_time(seconds) => {
                let right = !rates.is_empty() && rates.iter().all(|&rate| rate > 0.0 && rate.is_finite());
                if right { Ok(()) } else { Err("rates_qps: expected rates above 0".into()) }
            }
            _ => Err("rates_qps need `seconds`, above 0, 3600 at most".into()),
        },
        (None, None, Some(preset)) if load.seconds.is_none() => {
            if preset.parse::<Preset>().is_err() {
                return Err(format!("search = \"{preset}\": expected quick, default, lossless or rfc2544"));
            }
            let right = load.latency_at_percent.iter().all(|percent| (1..100).contains(percent));
            if right { Ok(()) } else { Err("latency_at_percent: expected 1 to 99".into()) }
        }
        _ => Err(one.into()),
    }
}

/// A run has one goal, so all searches of a study have the same.
fn goals(study: &StudyFile) -> Result<(), TomlError> {
    let loads = study.experiments.iter().map(|one| one.load.as_ref().unwrap_or(&study.load));
    let goals: BTreeSet<&String> = loads.filter_map(|load| load.search.as_ref()).collect();
    if goals.len() > 1 {
        return Err(study.wrong("search", "all searches of a study have one preset"));
    }
    Ok(())
}
